package compat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// anyGenerator makes commits of samples of all kinds. Per series times ascend, so both engines
// accept every row.
type anyGenerator struct {
	r      *rand.Rand
	set    []series
	last   []*histogram.Histogram // of each series
	newest []int64                // time of the newest sample of each series in the head, or 0
	now    int64
	starts bool
}

func newAnyGenerator(seed uint64, starts bool) *anyGenerator {
	g := &anyGenerator{r: rand.New(rand.NewPCG(seed, 0)), now: worldStart, starts: starts, newest: make([]int64, 24)}
	for i := range g.newest {
		g.set = append(g.set, newSeries("__name__", []string{"integer", "float_counts", "float", "mixed"}[i%4], "n", fmt.Sprint(i)))
		g.last = append(g.last, histtest.Draw(g.r.Int64N))
	}
	return g
}

// commit makes a row for most series, for some of them several.
func (g *anyGenerator) commit() (rows []anyRow) {
	for i := range g.set {
		for g.r.IntN(3) > 0 {
			g.now += g.r.Int64N(4000) + 1
			rows = append(rows, g.row(i))
			if rows[len(rows)-1].isMarker() {
				break // TestDifference_StaleMarkerBeforeAHistogramOfOneCommit
			}
		}
	}
	g.now += g.r.Int64N(6 * minute)
	return rows
}

// flushed is to be called when the head has been made into blocks.
func (g *anyGenerator) flushed() { clear(g.newest) }

// mayBeStale tells whether a stale marker of a series has the same kind in all eyes: what is logged
// as a float is one for who finds no sample before it in the head.
func (g *anyGenerator) mayBeStale(i int) bool {
	return g.newest[i]/(2*hour) == g.now/(2*hour)
}

func (g *anyGenerator) row(i int) anyRow {
	s := tsdb.Sample{T: g.now}
	if g.starts && g.r.IntN(5) > 0 {
		s.ST = g.now - g.now%hour - g.r.Int64N(2)
	}
	kind := i % 4
	if kind == 3 { // mixed: often the same as before
		kind = int(g.now / (20 * minute) % 3)
		if g.r.IntN(8) == 0 {
			kind = g.r.IntN(3)
		}
	}
	h := g.last[i]
	if kind != 2 {
		h = histtest.Follow(g.r.Int64N, h)
		if h.Stale() { // TestDifference_StaleGaugeHistogram_IsFlushed
			h.Hint = histogram.HintUnknown
		}
		g.last[i] = h
	}
	switch {
	case g.r.IntN(25) == 0 && g.mayBeStale(i):
		s.V = math.Float64frombits(staleMarker)
	case kind == 0:
		s.H = h
	case kind == 1:
		s.FH = histtest.Floats(h)
	default:
		s.V = float64(g.r.IntN(1000)) / 8
	}
	g.newest[i] = g.now
	return anyRow{i, s}
}

// aside makes a row of another time, which is not the newest of its series then.
func (g *anyGenerator) aside(i int, t int64) anyRow {
	now, newest := g.now, g.newest[i]
	g.now = t
	row := g.row(i)
	g.now, g.newest[i] = now, newest
	return row
}

// anyEngine is a database of either side, open.
type anyEngine interface {
	blockEngine
	commitAny(set []series, rows []anyRow)
	dumpAny() anyData
}

// anyWriter is one of both sides with the options for a kind of world.
type anyWriter struct {
	name string
	open func(t testing.TB, dir string) anyEngine
}

func anyWriters(starts bool) [2]anyWriter {
	change := func(*reference.Options) {}
	if starts {
		change = withStarts
	}
	return [2]anyWriter{
		{"ours", func(t testing.TB, dir string) anyEngine {
			t.Helper()
			o := openOurBlocks(t, dir).(*ours)
			r := o.db.OpenReport()
			require.Empty(t, r.UnreadRecords)
			require.Zero(t, r.SamplesInvalid+r.SamplesUnknown+r.SamplesLate)
			return o
		}},
		{"theirs", func(t testing.TB, dir string) anyEngine {
			t.Helper()
			r := openTheirs(t, dir, theirBlockOptions, change)
			r.requireUndamaged()
			return r
		}},
	}
}

// synced makes sure that a copy of the directory has all that was committed.
func synced(t testing.TB, e anyEngine) {
	t.Helper()
	if o, ok := e.(*ours); ok {
		require.NoError(t, o.db.Sync())
	}
}

// Random samples of all kinds, several of them in one series and one commit, are read the same
// by both after a close and after a kill, whoever wrote them, in the log and in blocks.
func TestHistograms_BothWays(t *testing.T) {
	for i := range scaled(12) {
		starts, flushed := i%2 > 0, i%4 > 1
		from := seed(t, 9400+uint64(i))
		t.Run(fmt.Sprintf("%d, start timestamps %v, flushed %v", i, starts, flushed), func(t *testing.T) {
			t.Parallel()
			for _, by := range anyWriters(starts) {
				requireReadByBoth(t, by, newAnyGenerator(from, starts), starts, flushed)
			}
		})
	}
}

// requireReadByBoth lets one of both write, and shows what it leaves to both.
func requireReadByBoth(t *testing.T, by anyWriter, g *anyGenerator, starts, flushed bool) {
	t.Helper()
	dir, want := t.TempDir(), anyData{}
	e := by.open(t, dir)
	for k := range 60 {
		if flushed && k == 40 {
			e.flush()
			g.flushed()
		}
		rows := g.commit()
		e.commitAny(g.set, rows)
		want.add(g.set, rows)
	}
	want = want.gauges()
	requireEqualAny(t, want, e.dumpAny().gauges(), by.name+", that has written it")
	synced(t, e)
	killed := copyDir(t, dir)
	e.close()
	for end, left := range map[string]string{"closed": dir, "killed": killed} {
		for _, reader := range anyWriters(starts) {
			dir := copyDir(t, left)
			e := reader.open(t, dir)
			msg := fmt.Sprintf("by %s, %s, read by %s", by.name, end, reader.name)
			requireEqualAny(t, want, e.dumpAny().gauges(), msg)
			e.flush()
			e.compact()
			requireEqualAny(t, want, e.dumpAny().gauges(), msg+", flushed")
			e.close()
			for _, again := range anyWriters(starts) {
				e := again.open(t, copyDir(t, dir))
				requireEqualAny(t, want, e.dumpAny().gauges(), msg+", flushed, and by "+again.name)
				e.close()
			}
		}
	}
}

// Both write in turns to one directory, which is closed or left by a kill in between.
func TestHistograms_InTurns(t *testing.T) {
	for i := range scaled(12) {
		starts, from := i%2 > 0, seed(t, 9450+uint64(i))
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			g, dir, want := newAnyGenerator(from, starts), t.TempDir(), anyData{}
			for turn := range 6 {
				by := anyWriters(starts)[(turn+i/2)%2]
				e := by.open(t, dir)
				msg := fmt.Sprintf("turn %d, %s", turn, by.name)
				requireEqualAny(t, want.gauges(), e.dumpAny().gauges(), msg)
				for range 10 + g.r.IntN(20) {
					rows := g.commit()
					e.commitAny(g.set, rows)
					want.add(g.set, rows)
				}
				if g.r.IntN(3) == 0 {
					e.compact()
				}
				requireEqualAny(t, want.gauges(), e.dumpAny().gauges(), msg+", at its end")
				synced(t, e)
				left := copyDir(t, dir)
				if e.close(); g.r.IntN(2) == 0 {
					dir = left
				}
			}
		})
	}
}

// A stale histogram that says that it is a gauge, and ends a chunk of gauges, keeps the reference
// from making a block of its head. Here it is flushed.
func TestDifference_StaleGaugeHistogram_IsFlushed(t *testing.T) {
	t.Parallel()
	h := &histogram.Histogram{Hint: histogram.HintGauge, Schema: 1, Count: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{1}}
	stale := h.Copy()
	stale.SetStale()
	stale.Hint = histogram.HintGauge
	g := newAnyGenerator(1, false)
	rows := []anyRow{{0, tsdb.Sample{T: worldStart, H: h}}, {0, tsdb.Sample{T: worldStart + 1, H: stale}}}
	want := anyData{}
	want.add(g.set, rows)
	for _, by := range anyWriters(false) {
		e := by.open(t, t.TempDir())
		e.commitAny(g.set, rows)
		requireEqualAny(t, want.gauges(), e.dumpAny().gauges(), by.name)
		if r, ok := e.(*theirs); ok {
			err := r.db.CompactHead(reference.NewRangeHead(r.db.Head(), worldStart, worldStart+1))
			require.Error(t, err, "the reference has learned it: this is no difference any more")
			continue
		}
		e.flush()
		requireEqualAny(t, want.gauges(), e.dumpAny().gauges(), by.name+", flushed")
	}
}

// A float that is a stale marker is a histogram when it ends a series of histograms. In one commit
// with a histogram behind it the reference leaves it out until its next start; here it is there.
func TestDifference_StaleMarkerBeforeAHistogramOfOneCommit(t *testing.T) {
	t.Parallel()
	g := newAnyGenerator(1, false)
	h := &histogram.Histogram{Count: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{1}}
	commits := [][]anyRow{
		{{0, tsdb.Sample{T: worldStart, H: h}}},
		{{0, tsdb.Sample{T: worldStart + 1, V: math.Float64frombits(staleMarker)}}, {0, tsdb.Sample{T: worldStart + 2, H: h}}},
	}
	for _, by := range anyWriters(false) {
		dir, want := t.TempDir(), anyData{}
		e := by.open(t, dir)
		for _, rows := range commits {
			e.commitAny(g.set, rows)
			want.add(g.set, rows)
		}
		there := e.dumpAny()
		if by.name == "theirs" {
			require.Len(t, there[g.set[0].key], 2, "the reference has learned it: this is no difference any more")
		} else {
			requireEqualAny(t, want, there.gauges(), by.name)
		}
		e.close()
		for _, reader := range anyWriters(false) {
			e := reader.open(t, copyDir(t, dir))
			requireEqualAny(t, want, e.dumpAny().gauges(), "by "+by.name+", read by "+reader.name)
			e.close()
		}
	}
}
