package compat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	theirhist "github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
)

// lateWindow is the out-of-order window of both engines in tests of late samples.
const lateWindow = 10 * hour

// written is all that was written, in and out of order, by series and time: the reference has no rule
// which of several values of one time is read, so each of them will do.
type written map[string]map[int64][]string

// textOf is what is compared of a sample. That a histogram is a gauge stays, unless it is stale; all
// other hints depend on where chunks begin.
func textOf(p anyPoint) string {
	if p.Hint != histogram.HintGauge || strings.Contains(p.Value, "sum "+textOfNumber(math.Float64frombits(staleMarker))) {
		p.Hint = histogram.HintUnknown
	}
	return fmt.Sprintf("start %d, hint %d, %s", p.ST, p.Hint, p.Value)
}

// add notes a row that was accepted. A stale marker has the kind that its place in the series gives
// it, so each kind will do.
func (w written) add(set []series, row anyRow) {
	key := set[row.series].key
	if w[key] == nil {
		w[key] = map[int64][]string{}
	}
	forms := []tsdb.Sample{row.Sample}
	if row.isMarker() {
		forms = append(forms,
			tsdb.Sample{T: row.T, ST: row.ST, H: &histogram.Histogram{Sum: row.V}},
			tsdb.Sample{T: row.T, ST: row.ST, FH: &histogram.FloatHistogram{Sum: row.V}})
	}
	for _, s := range forms {
		w[key][row.T] = append(w[key][row.T], textOf(pointOf(s)))
	}
}

// delete takes a closed range out of the series whose name matches.
func (w written) delete(name string, mint, maxt int64) {
	for key, times := range w {
		if strings.Contains(key, fmt.Sprintf("%q", name)) {
			for t := range times {
				if mint <= t && t <= maxt {
					delete(times, t)
				}
			}
		}
	}
}

// require requires one sample at each time that something was written for, with one of the values,
// and none elsewhere.
func (w written) require(t testing.TB, got anyData, msg string) {
	t.Helper()
	for key, times := range w {
		ps := got[key]
		for i, p := range ps {
			if i > 0 {
				require.Less(t, ps[i-1].T, p.T, "%s: series %s", msg, key)
			}
			require.NotEmpty(t, times[p.T], "%s: series %s has a sample at %d, which is nowhere written, or deleted", msg, key, p.T)
			require.Contains(t, times[p.T], textOf(p), "%s: series %s at %d", msg, key, p.T)
		}
		if len(ps) != len(times) {
			for _, at := range slices.Sorted(maps.Keys(times)) {
				there := slices.ContainsFunc(ps, func(p anyPoint) bool { return p.T == at })
				require.True(t, there, "%s: series %s: %d samples wanted, %d there; none at %d", msg, key, len(times), len(ps), at)
			}
		}
	}
	for key, ps := range got {
		require.Equal(t, len(w[key]), len(ps), "%s: series %s", msg, key)
	}
}

// forget makes an engine of the reference look for its series by their labels.
func forget(e lateEngine) { clear(e.(*theirs).refs) }

// samples counts the samples.
func (w written) samples() (n int) {
	for _, times := range w {
		n += len(times)
	}
	return n
}

func (d anyData) samples() (n int) {
	for _, ps := range d {
		n += len(ps)
	}
	return n
}

// lateEngine is a database of either side that takes late samples.
type lateEngine interface {
	anyEngine
	// commitLate appends rows in one commit; those that the head has another value for may be
	// refused. It returns those that were not.
	commitLate(set []series, rows []anyRow) []anyRow
}

func (o *ours) commitLate(set []series, rows []anyRow) (accepted []anyRow) {
	o.t.Helper()
	app, numbers := o.db.Appender(), []int(nil)
	for i, row := range rows {
		s := set[row.series]
		ref, err := app.AppendSample(o.refs[s.key], s.ours, row.Sample)
		if errors.Is(err, tsdb.ErrDuplicateSample) {
			continue
		}
		require.NoError(o.t, err, "%s at %d", s.key, row.T)
		o.refs[s.key] = ref
		numbers = append(numbers, i)
	}
	res, err := app.Commit(context.Background())
	require.NoError(o.t, err)
	refused := map[int]bool{}
	for _, r := range res.Rejected {
		require.ErrorIs(o.t, r.Err, tsdb.ErrDuplicateSample)
		refused[r.Index] = true
	}
	for n, i := range numbers {
		if !refused[n] {
			accepted = append(accepted, rows[i])
		}
	}
	return accepted
}

func (r *theirs) commitLate(set []series, rows []anyRow) (accepted []anyRow) {
	r.t.Helper()
	app := r.db.AppenderV2(context.Background())
	for _, row := range rows {
		s, h, fh := set[row.series], (*theirhist.Histogram)(nil), (*theirhist.FloatHistogram)(nil)
		if row.H != nil {
			h = theirHistogram(row.H)
		} else if row.FH != nil {
			fh = theirFloatHistogram(row.FH)
		}
		ref, err := app.Append(r.refs[s.key], s.theirs, row.ST, row.T, row.V, h, fh, storage.AppendV2Options{})
		if errors.Is(err, storage.ErrDuplicateSampleForTimestamp) {
			continue
		}
		require.NoError(r.t, err, "%s at %d", s.key, row.T)
		r.refs[s.key] = ref
		accepted = append(accepted, row)
	}
	require.NoError(r.t, app.Commit())
	return accepted
}

// lateWriter is one of both sides with an out-of-order window.
type lateWriter struct {
	name string
	open func(t testing.TB, dir string, window int64) lateEngine
}

func lateWriters(starts bool, capacity int64, excused excuses) (ours, theirs lateWriter) {
	change := func(*reference.Options) {}
	if starts {
		change = withStarts
	}
	ours = lateWriter{"ours", func(t testing.TB, dir string, window int64) lateEngine {
		t.Helper()
		o := openOurs(t, dir, ourBlockOptions, func(o *tsdb.Options) {
			o.Head.OutOfOrderWindow = time.Duration(window) * time.Millisecond
		})
		o.requireClean()
		rep := o.db.OpenReport()
		require.Zero(t, rep.BlocksSetAside)
		require.Empty(t, rep.UnreadRecords)
		require.Zero(t, rep.SamplesInvalid+rep.SamplesUnknown)
		return o
	}}
	theirs = lateWriter{"theirs", func(t testing.TB, dir string, window int64) lateEngine {
		t.Helper()
		r := openTheirs(t, dir, theirBlockOptions, change, func(o *reference.Options) {
			o.OutOfOrderTimeWindow, o.OutOfOrderCapMax = window, capacity
		})
		r.log.excuses = excused
		r.requireUndamaged()
		return r
	}}
	return ours, theirs
}

// lateGenerator makes commits with samples in and out of order.
type lateGenerator struct {
	*anyGenerator
	want written
}

// play commits so many times. With late false all is in order.
func (g *lateGenerator) play(e lateEngine, commits int, late bool) {
	for range commits {
		rows := g.commit()
		if late {
			rows = append(rows, g.late()...)
		}
		for _, row := range e.commitLate(g.set, rows) {
			g.want.add(g.set, row)
		}
	}
}

// late makes some late rows for most series. Some have the time of another sample.
func (g *lateGenerator) late() (rows []anyRow) {
	for i := range g.set {
		for g.r.IntN(2) > 0 {
			at := g.now - g.r.Int64N(9*hour)
			if times := g.times(i, g.now-9*hour); len(times) > 0 && g.r.IntN(8) == 0 {
				at = times[g.r.IntN(len(times))]
			}
			rows = append(rows, g.aside(i, at))
		}
	}
	return rows
}

// times returns those of a series' samples from a time on, ascending.
func (g *lateGenerator) times(series int, from int64) []int64 {
	times := slices.Sorted(maps.Keys(g.want[g.set[series].key]))
	n, _ := slices.BinarySearch(times, from)
	return times[n:]
}

func newLateGenerator(seed uint64, starts bool) *lateGenerator {
	return &lateGenerator{newAnyGenerator(seed, starts), written{}}
}

// names are those of the series that an anyGenerator makes.
var names = []string{"integer", "float_counts", "float", "mixed"}

// delete deletes some of the series of one name.
func (g *lateGenerator) delete(e lateEngine) {
	name, mint := names[g.r.IntN(len(names))], g.now-g.r.Int64N(10*hour)
	maxt := mint + g.r.Int64N(5*hour)
	e.delete(mint, maxt, matcher{"=", "__name__", name})
	g.want.delete(name, mint, maxt)
}

// eachLate plays late data several times, each with another mix of options.
func eachLate(t *testing.T, base uint64, excused excuses, do func(t *testing.T, g *lateGenerator, ours, theirs lateWriter)) {
	for i := range scaled(8) {
		starts, capacity := i%2 > 0, []int64{32, 4}[i/2%2]
		from := seed(t, base+uint64(i))
		t.Run(fmt.Sprintf("%d, start timestamps %v, capacity %d", i, starts, capacity), func(t *testing.T) {
			t.Parallel()
			ours, theirs := lateWriters(starts, capacity, excused)
			do(t, newLateGenerator(from, starts), ours, theirs)
		})
	}
}

// What the reference wrote out of order, closed or killed, compacted or not, is all there with and
// without a window of ours, and goes through late samples, flushes, merges and starts of ours.
func TestLate_OfTheReference_ReadByOurs(t *testing.T) {
	eachLate(t, 9500, excuses{overlap: true}, func(t *testing.T, g *lateGenerator, ours, theirs lateWriter) {
		dir := t.TempDir()
		e := theirs.open(t, dir, lateWindow)
		g.play(e, 60, true)
		if g.r.IntN(2) == 0 {
			e.compact()
			g.play(e, 30, true)
		}
		g.want.require(t, e.dumpAny(), "the reference, that has written it")
		requireLateChunks(t, dir)
		killed := copyDir(t, dir)
		e.close()
		all := g.want
		for end, left := range map[string]string{"closed": dir, "killed": killed} {
			for _, window := range []int64{0, lateWindow} {
				g.want = all.clone()
				requireLateLife(t, g, ours, copyDir(t, left), window, fmt.Sprintf("%s, window %v", end, window))
			}
		}
	})
}

// requireLateChunks makes sure that there is something in both places where late samples lie.
func requireLateChunks(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"wbl", "chunks_head"} {
		require.NotEmpty(t, newestFile(t, filepath.Join(dir, name)), name)
	}
}

func (w written) clone() written {
	out := written{}
	for key, times := range w {
		out[key] = map[int64][]string{}
		for t, texts := range times {
			out[key][t] = slices.Clone(texts)
		}
	}
	return out
}

// requireLateLife opens a directory with ours, and goes on with it.
func requireLateLife(t *testing.T, g *lateGenerator, ours lateWriter, dir string, window int64, msg string) {
	t.Helper()
	e := ours.open(t, dir, window)
	g.want.require(t, e.dumpAny(), msg+", opened")
	e.close()
	e = ours.open(t, dir, window)
	g.want.require(t, e.dumpAny(), msg+", opened twice")
	g.play(e, 5, window > 0)
	g.want.require(t, e.dumpAny(), msg+", appended to")
	synced(t, e)
	left := copyDir(t, dir)
	e.close()
	e = ours.open(t, left, window)
	g.want.require(t, e.dumpAny(), msg+", killed")
	g.delete(e)
	g.want.require(t, e.dumpAny(), msg+", deleted from")
	e.flush()
	g.want.require(t, e.dumpAny(), msg+", flushed")
	e.close()
	e = ours.open(t, left, window)
	g.want.require(t, e.dumpAny(), msg+", flushed and opened again")
	g.play(e, 5, window > 0)
	g.delete(e)
	e.compact()
	e.flush()
	e.cleanTombstones()
	e.compact()
	g.want.require(t, e.dumpAny(), msg+", merged")
	e.close()
	e = ours.open(t, left, window)
	g.want.require(t, e.dumpAny(), msg+", merged and opened again")
	e.close()
}

// What ours wrote out of order, closed, or killed and opened and closed once more, is all there in the
// reference, before and after it has compacted it, and at its next start.
func TestLate_OfOurs_ReadByTheReference(t *testing.T) {
	eachLate(t, 9520, excuses{overlap: true}, func(t *testing.T, g *lateGenerator, ours, theirs lateWriter) {
		dir := t.TempDir()
		e := ours.open(t, dir, lateWindow)
		g.play(e, 60, true)
		if g.r.IntN(2) == 0 {
			e.flush()
			g.flushed()
			g.play(e, 30, true)
		}
		g.want.require(t, e.dumpAny(), "ours, that has written it")
		synced(t, e)
		killed := copyDir(t, dir)
		e.close()
		recovered := copyDir(t, killed)
		ours.open(t, recovered, lateWindow).close()
		for end, left := range map[string]string{"closed": dir, "killed": killed, "killed and recovered": recovered} {
			for _, window := range []int64{0, lateWindow} {
				msg := fmt.Sprintf("%s, window %v", end, window)
				dir := copyDir(t, left)
				e := theirs.open(t, dir, window)
				g.want.require(t, e.dumpAny(), msg+", opened")
				e.compact()
				g.want.require(t, e.dumpAny(), msg+", compacted")
				e.close()
				e = theirs.open(t, dir, window)
				g.want.require(t, e.dumpAny(), msg+", compacted and opened again")
				e.close()
				e = ours.open(t, dir, window)
				g.want.require(t, e.dumpAny(), msg+", and by ours")
				e.close()
			}
		}
	})
}

// Both write late samples in turns to one directory, which is closed or left by a kill in between.
// Ours deletes some, and has it in blocks before the other one comes. The reference never follows
// itself: TestDifference_LateSamplesOfASeriesThatCameBack_AreKept.
func TestLate_InTurns(t *testing.T) {
	eachLate(t, 9540, excuses{overlap: true, rechunked: true}, func(t *testing.T, g *lateGenerator, ours, theirs lateWriter) {
		dir, first := t.TempDir(), g.r.IntN(2)
		for turn := range 9 - first { // ours is the last
			by := []lateWriter{ours, theirs}[(turn+first)%2]
			e := by.open(t, dir, lateWindow)
			msg := fmt.Sprintf("turn %d, %s", turn, by.name)
			g.want.require(t, e.dumpAny(), msg)
			g.play(e, 10+g.r.IntN(20), true)
			g.want.require(t, e.dumpAny(), msg+", appended to")
			switch g.r.IntN(3) {
			case 0:
				e.compact()
			case 1:
				if by.name == ours.name {
					g.delete(e)
					e.flush()
					g.flushed()
				}
			}
			g.want.require(t, e.dumpAny(), msg+", at its end")
			synced(t, e)
			left := copyDir(t, dir)
			if e.close(); g.r.IntN(2) == 0 {
				dir = left
			}
		}
		for _, by := range []lateWriter{ours, theirs} {
			e := by.open(t, copyDir(t, dir), 0)
			g.want.require(t, e.dumpAny(), "in the end, "+by.name)
			e.close()
		}
	})
}

// A series that the reference has forgotten stands in its log under the ref it had and under the one
// it comes back with. Then it leaves out late samples at its next start but one. Here they are there.
func TestDifference_LateSamplesOfASeriesThatCameBack_AreKept(t *testing.T) {
	t.Parallel()
	ours, theirs := lateWriters(false, 4, excuses{overlap: true})
	g, dir := newLateGenerator(1, false), t.TempDir()
	const comesBack, stays = 2, 6 // series of floats
	write := func(e lateEngine, series int, times ...int64) {
		for _, at := range times {
			for _, row := range e.commitLate(g.set, []anyRow{{series, tsdb.Sample{T: at, V: float64(at)}}}) {
				g.want.add(g.set, row)
			}
		}
	}
	falling := func(t int64) (times []int64) {
		for i := range int64(9) {
			times = append(times, t-i)
		}
		return times
	}
	e := theirs.open(t, dir, lateWindow)
	write(e, comesBack, worldStart)
	write(e, stays, worldStart+hour, worldStart+3*hour, worldStart+5*hour, worldStart+7*hour)
	e.compact()
	forget(e)
	write(e, comesBack, falling(worldStart+minute)...)
	killed := copyDir(t, dir)
	e.close()
	e = theirs.open(t, killed, lateWindow)
	write(e, comesBack, falling(worldStart+2*minute)...)
	g.want.require(t, e.dumpAny(), "the reference, opened again")
	e.close()
	g.requireOnlyOurs(t, ours, theirs, killed)
}

// requireOnlyOurs requires that ours reads all samples of a directory, and the reference does not.
func (g *lateGenerator) requireOnlyOurs(t *testing.T, ours, theirs lateWriter, dir string) {
	t.Helper()
	e := ours.open(t, copyDir(t, dir), 0)
	g.want.require(t, e.dumpAny(), "ours")
	e.close()
	e = theirs.open(t, dir, lateWindow)
	require.Less(t, e.dumpAny().samples(), g.want.samples(), "the reference has learned it: this is no difference any more")
}

// When a crash takes the newest chunk file of the reference, its out-of-order log still says that
// late samples are in there. They are in memory after the next start, and gone after the one behind
// that, if the capacity of chunks was raised meanwhile. Here they are there.
func TestDifference_LateSamplesOfAChunkThatWasLost_AreKept(t *testing.T) {
	t.Parallel()
	ours, small := lateWriters(false, 4, excuses{overlap: true})
	_, wide := lateWriters(false, 32, excuses{overlap: true})
	g, dir := newLateGenerator(1, false), t.TempDir()
	write := func(e lateEngine, series int, from int64, n int) {
		for i := range int64(n) {
			for _, row := range e.commitLate(g.set, []anyRow{{series, tsdb.Sample{T: from - i, V: float64(i)}}}) {
				g.want.add(g.set, row)
			}
		}
	}
	const lost, other = 2, 6 // series of floats
	e := small.open(t, dir, lateWindow)
	write(e, lost, worldStart+hour, 1)
	write(e, other, worldStart+hour, 1)
	write(e, other, worldStart+30*minute, 5)
	e.close()
	e = small.open(t, dir, lateWindow)
	write(e, lost, worldStart+30*minute, 5)
	left := copyDir(t, dir)
	e.close()
	e = wide.open(t, left, lateWindow)
	write(e, other, worldStart+20*minute, 40)
	g.want.require(t, e.dumpAny(), "the reference, after a crash")
	e.close()
	g.requireOnlyOurs(t, ours, wide, left)
}

// When the head of the reference is longer than a block after a flush, and has late samples behind
// that block, it merges blocks of late samples with ordinary ones into one that reaches over the
// begin of its head. At its next start it takes all before the end of that block for flushed, and
// the samples in order are gone. Here blocks of late samples end where the head begins.
func TestDifference_SamplesOfTheHeadUnderAMergedBlock_AreKept(t *testing.T) {
	t.Parallel()
	ours, theirs := lateWriters(false, 32, excuses{overlap: true})
	const series = 6 // of floats
	for _, by := range []lateWriter{ours, theirs} {
		g, dir := newLateGenerator(1, false), t.TempDir()
		e := by.open(t, dir, lateWindow)
		write := func(times ...int64) {
			for _, at := range times {
				for _, row := range e.commitLate(g.set, []anyRow{{series, tsdb.Sample{T: at, V: float64(at)}}}) {
					g.want.add(g.set, row)
				}
			}
		}
		for at := worldStart; at < worldStart+7*hour; at += 10 * minute {
			write(at)
		}
		write(worldStart+4*hour+minute, worldStart+6*hour+minute)
		e.compact()
		g.want.require(t, e.dumpAny(), by.name+", compacted")
		e.close()
		e = by.open(t, dir, lateWindow)
		if by.name == ours.name {
			g.want.require(t, e.dumpAny(), "ours, opened again")
		} else {
			require.Less(t, e.dumpAny().samples(), g.want.samples(), "the reference has learned it: this is no difference any more")
		}
		e.close()
	}
}

// An empty file in wbl/, which the reference leaves when it is only configured to take late samples, is
// nothing to say anything about.
func TestLate_EmptyLogOfTheReference_Opens(t *testing.T) {
	t.Parallel()
	set := []series{newSeries("a", "b")}
	dir, want := t.TempDir(), data{}
	r := openTheirs(t, dir, func(o *reference.Options) { o.OutOfOrderTimeWindow = century })
	r.commit(set, []row{{0, 1000, 1}, {0, 2000, 2}})
	r.close()
	want.add(set, []row{{0, 1000, 1}, {0, 2000, 2}})
	entries, err := os.ReadDir(filepath.Join(dir, "wbl"))
	require.NoError(t, err)
	require.NotEmpty(t, entries, "the reference keeps no wbl any more")
	db := openOurs(t, dir)
	requireEqual(t, want, db.dump(), "ours")
	db.requireClean()
}
