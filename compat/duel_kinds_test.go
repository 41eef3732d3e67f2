package compat

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
)

// kindDuel is a duel with samples of every kind, exemplars and metadata.
type kindDuel struct {
	*duel
	g      *anyGenerator
	window int64 // out-of-order window of both; 0: late samples are refused
	// capacity of an open out-of-order chunk of the reference. It stays what it is:
	// TestDifference_LateSamplesOfAChunkThatWasLost_AreKept.
	capacity int64
	second   bool // the reference appends with its second appender

	deletedTo int64            // the newest time that is deleted
	times     []map[int64]bool // of each series, for which something was staged
	committed []anyRow         // of each series, the newest
	exemplars exemplarNotes
	metadata  metadataNotes
}

const (
	kindDuels = 72 // three of each combination of options
	kindSteps = 80
	smallRing = 40   // exemplars
	wideRing  = 5000 // more than a duel has
)

// The same random operations in both engines with samples of every kind, stale markers, start
// timestamps, exemplars and metadata, in order and late, repeated and contradicted, with deletes,
// flushes, merges, restarts and crashes, at times into the directory of the other, give the same
// errors of Append, the same samples, the same exemplars, and the same metadata.
func TestDifferential_EveryKind_SameAnswers(t *testing.T) {
	for i := range scaled(kindDuels) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := newKindDuel(t, i)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("window %v, blocks %v, second appender %v, start timestamps %v, rollbacks %v; %d steps: %v",
						d.window, d.blocks, d.second, d.g.starts, d.ghosts, len(d.log), d.log)
				}
			})
			d.open()
			for range kindSteps {
				d.step()
			}
			d.restart()
			for range 20 {
				d.query()
			}
			d.requireDescribed()
		})
	}
}

// newKindDuel makes duel i, to be opened.
func newKindDuel(t *testing.T, i int) *kindDuel {
	starts := i/4%3 == 2
	g := newAnyGenerator(seed(t, uint64(9700+i)), starts)
	d := &kindDuel{duel: &duel{t: t, rng: g.r, blocks: i/2%2 > 0, ghosts: i/12%2 > 0}, g: g}
	d.dirs = [2]string{t.TempDir(), t.TempDir()}
	d.second, d.capacity = i/4%3 > 0, []int64{4, 32}[i/24%2]
	if i%2 > 0 {
		d.window = lateWindow
	}
	d.exemplars = newExemplarNotes(smallRing, len(g.set))
	d.stride = 6 * minute
	if d.blocks {
		d.exemplars.most, d.stride = wideRing, []int64{40, 20}[i%2]*minute
	} else if d.window > 0 && !starts {
		// Before 1970 there are no deletes: TestDifference_DeletesBeforeTheEpoch_AreFlushed.
		g.now = []int64{0, -5_000_000}[i/4%2]
	}
	d.metadata = metadataNotes{now: metas{}, sure: map[string]bool{}, ever: map[string][]tsdb.Metadata{}}
	d.committed = make([]anyRow, len(g.set))
	for k := range g.set {
		g.set[k] = makeSeries(i%2, k)
		d.times = append(d.times, map[int64]bool{})
	}
	d.now = g.now
	return d
}

func (d *kindDuel) open() {
	ours, theirs := randomOptions(d.rng), randomReferenceOptions(d.rng)
	if d.blocks {
		ours, theirs = d.blockOptions()
	}
	d.ours = openOurs(d.t, d.dirs[0], ours, func(o *tsdb.Options) {
		o.Head.MaxExemplars, o.Head.OutOfOrderWindow = d.exemplars.most, time.Duration(d.window)*time.Millisecond
	})
	d.ours.requireClean()
	report := d.ours.db.OpenReport()
	require.Empty(d.t, report.UnreadRecords)
	require.Zero(d.t, report.BlocksSetAside)
	require.Zero(d.t, report.SamplesInvalid+report.SamplesUnknown)
	d.theirs = openTheirs(d.t, d.dirs[1], theirs, func(o *reference.Options) {
		o.EnableExemplarStorage, o.MaxExemplars = true, int64(d.exemplars.most)
		o.EnableMetadataWALRecords = true
		o.OutOfOrderTimeWindow, o.OutOfOrderCapMax = d.window, d.capacity
		if d.g.starts {
			withStarts(o)
		}
	})
	d.theirs.log.excuses = excuses{overlap: d.window > 0, rechunked: d.blocks || d.deleted, described: d.blocks, twice: d.blocks}
}

// step does something. Where late samples are taken nothing is deleted: deletes of the reference
// miss some of them, and others come back. Nor may a series leave the head there, so it is never
// flushed as a whole: TestDifference_LateSamplesOfASeriesThatCameBack_AreKept.
func (d *kindDuel) step() {
	d.t.Helper()
	do := func(name string, f func()) {
		d.t.Helper()
		d.log = append(d.log, name)
		f()
	}
	switch n := d.rng.IntN(40); {
	case n < 2:
		do("restart", d.restart)
	case n < 4:
		do("crash", d.crash)
	case n < 7 && d.window == 0:
		d.delete()
	case n < 9 && d.window == 0 && d.blocks:
		do("flush", d.flush)
	case n < 12 && d.blocks:
		do("compact", d.compact)
	case n < 13 && d.blocks:
		do("clean", d.clean)
	case n < 27:
		d.append(false)
	default:
		d.query()
	}
}

// restart closes both and opens them again, at times each the directory of the other.
func (d *kindDuel) restart() {
	d.t.Helper()
	d.ours.close()
	d.theirs.close()
	swapped := d.rng.IntN(2) == 0
	if swapped {
		d.log = append(d.log, "swapped")
		d.dirs[0], d.dirs[1] = d.dirs[1], d.dirs[0]
	}
	for _, dir := range d.dirs {
		for _, m := range metasOf(d.t, dir) {
			d.exemplars.behindBlocks(m.MaxTime)
		}
	}
	d.exemplars.restarted(swapped)
	d.open()
	requireEqualAny(d.t, d.theirs.dumpAny().gauges(), d.ours.dumpAny().gauges(), "opened again")
	d.requireBeside("opened again")
	if !d.ghosts {
		d.theirs.requireUndamaged()
	}
}

// crash goes on with what a crash of both at this moment leaves.
func (d *kindDuel) crash() {
	d.t.Helper()
	for i := range d.dirs {
		d.dirs[i] = copyDir(d.t, d.dirs[i])
	}
	d.restart()
}

// kept is the number of a series from which nothing is deleted. It has samples at both ends of each
// commit, so no block is deleted as a whole: TestDifference_NewestBlockCleanedAway_StaysDeleted.
const kept = 0

// delete deletes from series that match.
func (d *kindDuel) delete() {
	d.t.Helper()
	mint := d.g.now - d.rng.Int64N(6*hour)
	maxt := mint + d.rng.Int64N(2*hour)
	ms := append(d.matchers(), matcher{"!=", "n", fmt.Sprint(kept)})
	d.log = append(d.log, fmt.Sprintf("delete [%d, %d] %v", mint, maxt, ms))
	d.ours.delete(mint, maxt, ms...)
	d.theirs.delete(mint, maxt, ms...)
	d.deleted, d.theirs.log.rechunked = true, true
	d.deletedTo = max(d.deletedTo, min(maxt, d.g.now))
}

func (d *kindDuel) flush() {
	d.t.Helper()
	d.ours.flush()
	d.theirs.flush()
	d.g.flushed()
	d.metadata.truncated()
}

func (d *kindDuel) compact() {
	d.t.Helper()
	if d.window > 0 {
		d.append(true) // see step
	} else {
		d.metadata.truncated()
	}
	d.ours.compact()
	d.theirs.compact()
}

func (d *kindDuel) clean() {
	d.t.Helper()
	d.ours.cleanTombstones()
	d.theirs.cleanTombstones()
}

// append stages rows of all or most series, and what is beside them, in an appender of each, and
// commits them, or not.
func (d *kindDuel) append(all bool) {
	d.t.Helper()
	c := newKindCommit(d)
	c.inOrder(kept)
	for i := kept + 1; i < len(d.g.set); i++ {
		for n := 0; n == 0 && all || d.rng.IntN(3) > 0; n++ {
			c.addSome(i)
		}
	}
	c.inOrder(kept)
	// A series that is created and rolled back the reference may have under two refs later, which
	// costs late samples as for one that came back.
	mayRoll := d.ghosts && !all && (d.window == 0 || !slices.Contains(c.newest, 0))
	if mayRoll && d.rng.IntN(8) == 0 {
		d.log = append(d.log, fmt.Sprintf("roll %d rows back", c.staged))
		c.rollback()
		d.now = d.g.now
		return
	}
	d.log = append(d.log, fmt.Sprintf("append %d rows", c.staged))
	c.commit()
	if !all {
		d.g.now += d.rng.Int64N(d.stride)
	}
	d.now = d.g.now
	if head := d.theirs.db.Head(); !all && d.blocks && d.window > 0 && head.MaxTime()-head.MinTime() > 3*hour {
		// TestDifference_SamplesOfTheHeadUnderAMergedBlock_AreKept
		d.log = append(d.log, "compact")
		d.compact()
	}
}

// query asks both the same and compares.
func (d *kindDuel) query() {
	d.t.Helper()
	mint, maxt := int64(math.MinInt64), int64(math.MaxInt64)
	if d.rng.IntN(4) > 0 {
		span := []int64{minute, hour, 12 * hour}[d.rng.IntN(3)]
		mint = d.now - d.rng.Int64N(2*span)
		maxt = mint + d.rng.Int64N(span)
		if maxt <= d.deletedTo {
			maxt = math.MaxInt64 // TestDifference_QueriesBeforeADeletedRange_AreAnswered
		}
	}
	ms := d.matchers()
	if d.rng.IntN(3) == 0 {
		ms = []matcher{everything}
	}
	what := fmt.Sprintf("[%d, %d] %v", mint, maxt, ms)
	requireEqualAny(d.t, d.theirs.queryAny(mint, maxt, ms...).gauges(), d.ours.queryAny(mint, maxt, ms...).gauges(), what)
	if d.rng.IntN(2) == 0 {
		d.seek(mint, maxt, ms)
	}
	if d.rng.IntN(5) == 0 {
		d.labels(ms)
	}
	if d.rng.IntN(5) == 0 {
		d.requireBeside("as long as both run")
	}
}

// requireBeside compares exemplars and metadata.
func (d *kindDuel) requireBeside(msg string) {
	d.t.Helper()
	d.exemplars.require(d.t, 0, d.ours.exemplars(), msg+", ours")
	d.exemplars.require(d.t, 1, d.theirs.exemplars(), msg+", theirs")
	d.metadata.require(d.t, d.ours.metadata(), msg)
}

// requireDescribed requires that the reference knows the metadata that it should. It logs none of
// it when it is told once more.
func (d *kindDuel) requireDescribed() {
	d.t.Helper()
	var set []series
	for _, s := range d.g.set {
		if d.metadata.sure[s.key] {
			set = append(set, s)
		}
	}
	before := loggedMetadata(d.t, copyDir(d.t, d.dirs[1]))
	d.theirs.describe(set, d.g.now+1, d.metadata.now)
	require.Equal(d.t, before, loggedMetadata(d.t, copyDir(d.t, d.dirs[1])), "the reference did not know it")
}

// sampleAt is the sample of a series at a time as the reference has it.
func (r *theirs) sampleAt(s series, t int64) (found tsdb.Sample, ok bool) {
	r.t.Helper()
	// A range that ended at t might panic: TestDifference_QueriesBeforeADeletedRange_AreAnswered.
	q, err := r.db.Querier(t, math.MaxInt64)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, q.Close()) }()
	set := q.Select(context.Background(), true, nil, theirMatchers(r.t, []matcher{{"=", "n", s.ours.Get("n")}})...)
	for set.Next() {
		it := set.At().Iterator(nil)
		if kind := it.Next(); kind != theirenc.ValNone && it.AtT() == t && keyOfTheirs(set.At().Labels()) == s.key {
			found, ok = theirSample(it, kind), true
		}
		require.NoError(r.t, it.Err())
	}
	require.NoError(r.t, set.Err())
	return found, ok
}
