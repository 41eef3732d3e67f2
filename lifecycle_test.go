package tsdb_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/invariants"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// The life of series, in every order: they are created, go when they are idle, come back,
// are deleted, and meanwhile the log is checkpointed and read again. Nothing may be lost
// or come back, no ref may ever name two label sets, and every sample of the log has its
// series.

// lifeOps are the steps of a life, a letter each. snapLifeOps has snapshots of the head, too,
// lateLifeOps late samples, and longLifeOps one more, for lives that are not every one there is.
const (
	lifeOps     = "adgfcrk"
	snapLifeOps = lifeOps + "s"
	lateLifeOps = lifeOps + "o"
	longLifeOps = snapLifeOps + "b"
)

type life struct {
	*testing.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	db    *tsdb.DB
	now   int64
	late  int64          // commits of late samples there ever were
	ref   tsdb.SeriesRef // of series a, as a caller keeps it
	want  map[string][]point
	names map[uint64]string // labels by ref, all that the log ever had
	ops   string            // done so far

	hasLate bool // a window is open for late samples
}

func newLife(t *testing.T, ops string) *life {
	l := &life{hasLate: strings.Contains(ops, "o"), T: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow), want: map[string][]point{}, names: map[uint64]string{}}
	l.open()
	return l
}

func (l *life) open() {
	opts := &tsdb.Options{FS: l.fs, Clock: l.clock}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range = time.Minute
	opts.Blocks.Manual = true
	opts.WAL.SegmentSize = wal.MinSegmentSize
	opts.Head.ReplayWorkers = 1
	if l.hasLate {
		opts.Head.OutOfOrderWindow = 24 * time.Hour
	}
	db, err := tsdb.Open(fixtureDir, opts)
	require.NoError(l, err, l.ops)
	l.db, l.ref = db, 0
	rep := db.OpenReport()
	require.True(l, rep.Clean(), "%s: %+v", l.ops, rep)
	require.Zero(l, rep.SamplesUnknown+rep.LateUnknown, l.ops)
	l.check()
}

// append commits a sample newer than all others. The ref of a is used again.
func (l *life) append(name string) {
	l.now += 25_000
	ls := labels.FromStrings("__name__", name)
	ref := tsdb.SeriesRef(0)
	if name == "a" {
		ref = l.ref
	}
	app := l.db.Appender()
	ref, err := app.Append(ref, ls, l.now, float64(l.now))
	require.NoError(l, err, l.ops)
	res, err := app.Commit(context.Background())
	require.NoError(l, err, l.ops)
	require.Empty(l, res.Rejected, l.ops)
	if name == "a" {
		l.ref = ref
	}
	l.want[ls.String()] = append(l.want[ls.String()], point{l.now, math.Float64bits(float64(l.now))})
}

// appendLate commits a sample that is older than the newest of a, if there is one, and the same of
// a series that has late ones only. No two have one time.
func (l *life) appendLate() {
	l.late++
	at := l.now - 30_000 - 7*l.late
	app := l.db.Appender()
	for _, name := range []string{"a", "late"} {
		ls := labels.FromStrings("__name__", name)
		_, err := app.Append(0, ls, at, float64(at))
		require.NoError(l, err, l.ops)
		ps := append(l.want[ls.String()], point{at, math.Float64bits(float64(at))})
		slices.SortFunc(ps, func(a, b point) int { return cmp.Compare(a.T, b.T) })
		l.want[ls.String()] = ps
	}
	res, err := app.Commit(context.Background())
	require.NoError(l, err, l.ops)
	require.Empty(l, res.Rejected, l.ops)
}

// do takes one step.
func (l *life) do(op byte) {
	l.ops += string(op)
	switch op {
	case 'a', 'b':
		l.append(string(op))
	case 'o':
		l.appendLate()
	case 'd': // all of a, for all of time
		m, err := labels.NewMatcher(labels.MatchEqual, "__name__", "a")
		require.NoError(l, err)
		require.NoError(l, l.db.Delete(context.Background(), math.MinInt64, math.MaxInt64, m), l.ops)
		delete(l.want, labels.FromStrings("__name__", "a").String())
	case 'g': // time goes on, and what was idle goes
		l.now += 10 * minute
		l.append("clock")
		require.NoError(l, l.db.Flush(context.Background()), l.ops)
	case 'c': // what is due becomes a block, and a part of the log a checkpoint
		require.NoError(l, l.db.Compact(context.Background()), l.ops)
	case 'f': // all of it
		require.NoError(l, l.db.Flush(context.Background()), l.ops)
	case 's': // the next open begins with it
		require.NoError(l, tsdb.TakeHeadSnapshot(l.db), l.ops)
	case 'r':
		l.seeRefs()
		require.NoError(l, l.db.Close(), l.ops)
		l.open()
	case 'k':
		l.seeRefs()
		disk := l.fs.KillClone()
		require.NoError(l, l.db.Close(), l.ops)
		l.fs = disk
		l.open()
	}
}

// check compares everything.
func (l *life) check() {
	l.Helper()
	got := dump(l.T, l.db, math.MinInt64, math.MaxInt64)
	require.Equal(l, l.want, got, l.ops)
}

// seeRefs reads the log's series records and checks that each ref has always had the same
// labels.
func (l *life) seeRefs() {
	_, err := wal.Replay(context.Background(), wal.ReplayOptions{
		FS: l.fs, Dir: filepath.Join(fixtureDir, "wal"), Decoders: 1,
		Apply: func(b *wal.Batch) error {
			for _, rec := range b.Records {
				if record.TypeOf(rec.Data) != record.TypeSeries {
					continue
				}
				var dec record.SeriesDecoder
				for dec.Reset(rec.Data); dec.Next(); {
					ls, err := dec.Labels()
					require.NoError(l, err, l.ops)
					if name, ok := l.names[dec.Ref()]; ok {
						require.Equal(l, name, ls.String(), "%s: ref %d", l.ops, dec.Ref())
					}
					l.names[dec.Ref()] = ls.String()
				}
			}
			return nil
		},
	})
	require.NoError(l, err, l.ops)
}

// end checks, restarts twice, and checks that life goes on.
func (l *life) end() {
	l.check()
	l.do('k')
	l.do('a')
	l.do('r')
	require.NoError(l, l.db.Close(), l.ops)
}

// All 7^5 lives; some of them, and all of three steps, where not all is swept, and with assertions.
func TestLifecycle_EveryOrderOfFiveSteps(t *testing.T) { everyLife(t, lifeOps, 5) }

// All 8^4 lives with snapshots of the head.
func TestLifecycle_EveryOrderOfFourStepsWithSnapshots(t *testing.T) { everyLife(t, snapLifeOps, 4) }

// All 8^4 lives with late samples.
func TestLifecycle_EveryOrderOfFourStepsWithLateSamples(t *testing.T) { everyLife(t, lateLifeOps, 4) }

func everyLife(t *testing.T, ops string, steps int) {
	all := sweep.Places{Step: 1}
	if sweep.Whole() && !invariants.Enabled {
		lives(t, ops, steps, all)
		return
	}
	t.Run("short", func(t *testing.T) { lives(t, ops, 3, all) })
	t.Run("long", func(t *testing.T) { lives(t, ops, steps, sweep.Of(t, 149, 149)) })
}

// lives lives those of the lives of so many steps that are among the places of each first step.
func lives(t *testing.T, ops string, steps int, places sweep.Places) {
	for i := range ops {
		t.Run(ops[i:i+1], func(t *testing.T) {
			t.Parallel()
			n := 1
			for range steps - 1 {
				n *= len(ops)
			}
			for _, k := range places.Below(n) {
				l := newLife(t, ops)
				l.do(ops[i])
				for range steps - 1 {
					l.do(ops[k%len(ops)])
					k /= len(ops)
				}
				l.end()
			}
		})
	}
}

func TestLifecycle_LongRandomLives(t *testing.T) {
	t.Parallel()
	runs := 300
	if !sweep.Whole() {
		runs = fewer(30, 10)
	}
	for _, seed := range sweep.Seeds(t, runs) {
		rng := rand.New(rand.NewPCG(seed, 7))
		ops := longLifeOps + []string{"", "o"}[seed%2]
		l := newLife(t, ops)
		for range 8 + rng.IntN(25) {
			l.do(ops[rng.IntN(len(ops))])
		}
		require.NotPanics(t, l.end, fmt.Sprint("seed ", seed))
	}
}

// live takes steps and ends; each bug below is one of the orders that broke others.
func live(t *testing.T, steps string) *life {
	l := newLife(t, steps)
	l.live(steps)
	return l
}

func (l *life) live(steps string) {
	for i := range steps {
		l.do(steps[i])
	}
	l.end()
}

// Bug 16: a checkpoint must keep the series record of samples that it keeps.
func TestCheckpoint_Bug16_SeriesOfKeptSamplesStay(t *testing.T) {
	for _, steps := range []string{"abfaf", "aafabfkfr", strings.Repeat("abf", 10) + "k", "agafk", strings.Repeat("abc", 30) + "k", strings.Repeat("abck", 20)} {
		live(t, steps)
	}
}

// A block that would have nothing but deleted samples is not written, so after a restart
// the head begins before it again: what of it stands in a chunk file must stay away.
func TestLifecycle_WhatWasDeletedBeforeItsFlushStaysDeleted(t *testing.T) {
	for _, steps := range []string{"aagadcardfk", "gdcrgrfgagrcrkaagadcaradfk", "aardfk", "aakdfkrk"} {
		live(t, steps)
	}
}

// Bug 17: a label set under two refs in the log, as other writers leave it, is one series,
// and checkpoints keep what belongs to either ref.
func TestLifecycle_Bug17_TwoRefsOfOneSeriesLoseNothing(t *testing.T) {
	a := labels.FromStrings("__name__", "a")
	sample := func(ref uint64, ts int64) []byte {
		return record.AppendSamples(nil, []record.Sample{{Ref: ref, T: ts, V: float64(ts)}})
	}
	series := func(ref uint64) []byte { return record.AppendSeries(record.BeginSeries(nil), ref, a) }
	for _, steps := range []string{"k", "rk", "acacacacrkacackfk", "ackackackackack", "cfk", "dgakfak"} {
		l := newLife(t, steps)
		require.NoError(t, l.db.Close())
		l.fs = tsdbtest.NewMemFS()
		log, err := wal.Open(wal.Options{FS: l.fs, Dir: filepath.Join(fixtureDir, "wal")}, wal.Position{})
		require.NoError(t, err)
		for _, rec := range [][]byte{
			series(1), sample(1, 25_000), series(2), sample(2, 50_000), sample(2, 75_000),
			record.AppendTombstones(nil, []record.Tombstone{{Ref: 2, Mint: 50_000, Maxt: 50_000}}), sample(2, 100_000), sample(1, 125_000),
		} {
			_, err := log.Rotate()
			require.NoError(t, err)
			var c wal.Commit
			c.End(append(c.Begin(), rec...))
			require.NoError(t, log.Enqueue(&c))
			require.NoError(t, log.Write(&c))
		}
		require.NoError(t, log.Close())
		for _, ts := range []int64{25_000, 75_000, 100_000, 125_000} {
			l.want[a.String()] = append(l.want[a.String()], point{ts, math.Float64bits(float64(ts))})
		}
		l.now = 125_000
		l.open()
		l.live(steps)
	}
}

// Bug 18: a series that was deleted as a whole and came back is not deleted again, over
// any number of restarts, and its ref is never that of another one.
func TestLifecycle_Bug18_ADeletedSeriesThatCameBackStays(t *testing.T) {
	for _, steps := range []string{"adgarrrrr", "adakkkkkk", "abdgarfrgrarbr", "adgrarfrgrrr", "agdagdagkkkkk"} {
		live(t, steps)
	}
}

// Bug 19: no two label sets share a ref, whatever was removed and created before.
func TestLifecycle_Bug19_RefsNameOneLabelSet(t *testing.T) {
	for _, steps := range []string{"arbrgragrbrgrb", "akgkakgkbkakgk", "ararbrgrgrgrar", "arbcrcrgbrarcrgrar"} {
		l := live(t, steps)
		refs := map[string]int{}
		for _, name := range l.names {
			refs[name]++
		}
		require.Greater(t, refs[`{__name__="a"}`], 1, "it was removed and came back: %v", l.names)
	}
}

// Bug 20: numbers of segments are no times: series stay and go alike whichever is higher.
func TestLifecycle_Bug20_TimesBelowTheNumbersOfSegments(t *testing.T) {
	for _, start := range []int64{-1 << 50, -300_000, -60_000, 1 << 50} {
		for _, steps := range []string{"aagackarak", "agagrcakrak", "acacacacacrack", "aagadcardfk"} {
			l := newLife(t, steps)
			l.now = start
			l.live(steps)
		}
	}
}
