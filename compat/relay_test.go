package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
)

// relay is a directory that both engines work on in turns.
type relay struct {
	*world
	rng  *rand.Rand
	log  []string // what was done, for the one who reads a failure
	turn int
	// theirs are more options of the reference; nil: none.
	theirs func(*reference.Options)
}

// Ours and the reference work in turns on one directory: they append, delete, flush,
// merge, clean, and leave it by closing it or as a crash would. Each finds at each turn
// exactly what must be there, and in the end every reader does.
func TestRelay_BlocksInOneDirectory_KeepEverything(t *testing.T) {
	for i := range scaled(20) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			runRelay(t, i, 3400, nil)
		})
	}
}

// runRelay runs relay i of those of a base.
func runRelay(t *testing.T, i int, base uint64, theirs func(*reference.Options)) {
	rng := rand.New(rand.NewPCG(seed(t, base+uint64(i)), 0))
	r := &relay{rng: rng, turn: i, theirs: theirs}
	r.world = newWorld(t, r.next, plan{Seed: rng.Uint64(), Series: 20 + rng.IntN(60), Start: worldStart + rng.Int64N(6*hour)})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d steps: %v", len(r.log), r.log)
		}
	})
	for range 30 {
		r.step()
	}
	r.check("in the end")
	r.e.close()
	r.forgetEmpty(t, r.dir)
	l := left{dir: r.dir, want: r.want, excuses: excuses{rechunked: true}}
	requireAllRead(t, i, l)
}

// next opens with the other engine, mostly.
func (r *relay) next(t testing.TB, dir string) blockEngine {
	t.Helper()
	if r.rng.IntN(4) > 0 {
		r.turn++
	}
	if r.turn%2 == 0 {
		r.log = append(r.log, "ours")
		if r.world != nil {
			r.forgetEmpty(t, dir)
		}
		return openOurs(t, dir, randomOptions(r.rng), func(o *tsdb.Options) {
			same := *o
			ourBlockOptions(&same)
			o.Blocks = same.Blocks
		})
	}
	r.log = append(r.log, "theirs")
	e := openTheirs(t, dir, theirBlockOptions, randomReferenceOptions(r.rng), func(o *reference.Options) {
		o.MaxBlockChunkSegmentSize = []int64{0, 16 << 10}[r.rng.IntN(2)]
	}, r.theirs)
	e.log.rechunked = true
	return e
}

// forgetEmpty has Repair forget what ours misses. A block of which the reference deleted everything,
// and then cleaned it, is gone without a trace. Nothing is lost with it.
func (r *relay) forgetEmpty(t testing.TB, dir string) {
	t.Helper()
	ro, err := tsdb.OpenReadOnly(dir, ourOptions())
	require.NoError(t, err)
	missing := ro.MissingBlocks()
	require.NoError(t, ro.Close())
	if len(missing) == 0 {
		return
	}
	for _, b := range missing {
		require.True(t, b.Vanished, "%+v", b)
		for key, points := range r.want {
			require.False(t, slices.ContainsFunc(points, func(p point) bool { return b.MinTime <= p.T && p.T < b.MaxTime }), "%s is lost with %+v", key, b)
		}
	}
	repaired, err := tsdb.Repair(context.Background(), dir, nil)
	require.NoError(t, err)
	require.Len(t, repaired.Forgotten, len(missing))
}

// step does something.
func (r *relay) step() {
	r.t.Helper()
	do := func(name string, f func()) {
		r.t.Helper()
		r.log = append(r.log, name)
		f()
	}
	switch n := r.rng.IntN(20); {
	case n < 7:
		span := r.rng.Int64N(4 * hour)
		do(fmt.Sprintf("append %d min", span/minute), func() { r.append(1+r.rng.IntN(8), span) })
	case n < 10:
		mint := r.g.now - r.rng.Int64N(20*hour)
		maxt := mint + r.rng.Int64N(10*hour)
		m := []matcher{{"=", "mod", "3"}, {"=~", "n", "1.|2"}, {"!=", "mod", "4"}, {"=~", "mod", "[5-9]"}, everything}[r.rng.IntN(5)]
		do(fmt.Sprintf("delete [%d, %d] %v", mint, maxt, m), func() { r.delete(mint, maxt, m) })
	case n < 12:
		do("flush", r.e.flush)
	case n < 14:
		do("compact", r.e.compact)
	case n < 15:
		do("clean", r.e.cleanTombstones)
	case n < 18:
		do("reopen", r.reopen)
	default:
		do("crash", r.crash)
	}
	r.check("after " + r.log[len(r.log)-1])
	if theirs, ok := r.e.(*theirs); ok {
		theirs.requireUndamaged()
	} else {
		r.e.(*ours).requireClean()
		require.NoError(r.t, r.e.(*ours).db.Health())
	}
}
