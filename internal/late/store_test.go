package late

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

var testCutting = Cutting{Range: 1000, Samples: 120}

// plainSample is what a test knows of a sample.
type plainSample struct {
	t, st int64
	text  string // kind and value
	sum   uint64 // equal: the samples say the same, whatever their kinds
}

func (p plainSample) String() string { return fmt.Sprintf("%d(%d)=%s", p.t, p.st, p.text) }

func pick(rt *rapid.T) histtest.Pick {
	return func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(rt, "n") }
}

// drawLate draws a sample of any kind, with what a test knows of it.
func drawLate(rt *rapid.T, t int64) (Sample, plainSample) {
	st := rapid.SampledFrom([]int64{0, 0, 0, t - 5}).Draw(rt, "start")
	switch kind := rapid.SampledFrom([]string{"float", "float", "float", "ints", "floats"}).Draw(rt, "kind"); kind {
	case "ints":
		h := histtest.Draw(pick(rt))
		return Sample{T: t, Sum: h.Digest(), ST: st, Encoding: chunkenc.EncHistogram, Body: record.AppendHistogram(nil, h)},
			plainSample{t, st, fmt.Sprintf("ints %x", h.Digest()), h.Digest()}
	case "floats":
		h := histtest.Floats(histtest.Draw(pick(rt)))
		return Sample{T: t, Sum: h.Digest(), ST: st, Encoding: chunkenc.EncFloatHistogram, Body: record.AppendFloatHistogram(nil, h)},
			plainSample{t, st, fmt.Sprintf("floats %x", h.Digest()), h.Digest()}
	default:
		v := math.Float64bits(float64(rapid.IntRange(0, 3).Draw(rt, "value")))
		enc := chunkenc.EncXOR
		if st != 0 {
			enc = chunkenc.EncXOR2
		}
		return Sample{T: t, Sum: v, ST: st, Encoding: enc}, plainSample{t, st, fmt.Sprintf("float %x", v), v}
	}
}

// samplesOf decodes what an excerpt shows in a range, and holds its chunks to what they say.
func samplesOf(t require.TestingT, e *Excerpt, mint, maxt int64) []plainSample {
	var all []plainSample
	end := int64(math.MinInt64)
	for _, c := range e.Chunks {
		require.Greater(t, c.MinT, end, "chunks overlap, or are not in order")
		end = c.MaxT
		chunk, err := chunkenc.FromData(c.Encoding, c.Data)
		require.NoError(t, err)
		require.Equal(t, c.Num, chunk.NumSamples())
		require.LessOrEqual(t, c.Num, testCutting.Samples)
		it, n := chunk.Iterator(nil), 0
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			at := it.AtT()
			if n++; n == 1 {
				require.Equal(t, c.MinT, at)
			}
			if n == c.Num {
				require.Equal(t, c.MaxT, at)
			}
			if at < mint || at > maxt {
				continue
			}
			p := plainSample{t: at, st: it.AtST()}
			switch kind {
			case chunkenc.ValFloat:
				_, v := it.At()
				p.text, p.sum = fmt.Sprintf("float %x", math.Float64bits(v)), math.Float64bits(v)
			case chunkenc.ValHistogram:
				var h histogram.Histogram
				it.AtHistogram(&h)
				p.text, p.sum = fmt.Sprintf("ints %x", h.Digest()), h.Digest()
			default:
				var h histogram.FloatHistogram
				it.AtFloatHistogram(&h)
				p.text, p.sum = fmt.Sprintf("floats %x", h.Digest()), h.Digest()
			}
			all = append(all, p)
		}
		require.NoError(t, it.Err())
	}
	return all
}

// event is something that came to a series: a sample, or a delete.
type event struct {
	seq    uint64
	ref    uint64
	sample plainSample
	delete *tombstones.Interval
}

// storeModel is a Store and a list of all that came.
type storeModel struct {
	st        *Store
	events    []event
	seq       uint64   // newest commit
	snapshots []uint64 // open
	flushing  uint64
}

// seen returns what a snapshot sees of a series: of each time what came last, if it was not deleted
// since.
func (m *storeModel) seen(ref, snapshot uint64, mint, maxt int64) []plainSample {
	byTime := map[int64]plainSample{}
	for _, e := range m.events {
		switch {
		case e.ref != ref || e.seq > snapshot:
		case e.delete != nil:
			for t := range byTime {
				if e.delete.Contains(t) {
					delete(byTime, t)
				}
			}
		default:
			byTime[e.sample.t] = e.sample
		}
	}
	var all []plainSample
	for t, p := range byTime {
		if t >= mint && t <= maxt {
			all = append(all, p)
		}
	}
	sort.Slice(all, func(i, k int) bool { return all[i].t < all[k].t })
	return all
}

func (m *storeModel) floor() uint64 {
	floor := m.seq
	for _, s := range m.snapshots {
		floor = min(floor, s)
	}
	return floor
}

func (m *storeModel) add(rt *rapid.T) {
	ref := rapid.Uint64Range(1, 3).Draw(rt, "ref")
	wins := rapid.Bool().Draw(rt, "wins")
	floor := m.floor()
	m.seq++
	for range rapid.IntRange(1, 60).Draw(rt, "samples") {
		t := rapid.Int64Range(-1500, 1500).Draw(rt, "time")
		s, plain := drawLate(rt, t)
		var there *plainSample
		if now := m.seen(ref, m.seq, t, t); len(now) == 1 {
			there = &now[0]
		}
		added, err := m.st.Add(ref, &s, m.seq, floor, wins)
		switch {
		case there == nil, there.sum != plain.sum && wins:
			require.NoError(rt, err)
			require.True(rt, added)
			m.events = append(m.events, event{seq: m.seq, ref: ref, sample: plain})
		case there.sum == plain.sum:
			require.NoError(rt, err)
			require.False(rt, added)
		default:
			require.ErrorIs(rt, err, ErrDuplicate)
		}
	}
	if rapid.IntRange(0, 9).Draw(rt, "fails") == 0 {
		m.st.Undo(ref, m.seq)
		m.events = slices.DeleteFunc(m.events, func(e event) bool { return e.seq == m.seq })
		m.seq-- // numbers go on behind the last one that was written
	}
}

func (m *storeModel) remove(rt *rapid.T) {
	m.seq++
	iv := tombstones.Interval{Mint: rapid.Int64Range(-1500, 1500).Draw(rt, "mint")}
	iv.Maxt = iv.Mint + rapid.Int64Range(0, 700).Draw(rt, "width")
	ref := rapid.Uint64Range(1, 3).Draw(rt, "ref")
	m.st.Delete(ref, iv, m.seq)
	m.events = append(m.events, event{seq: m.seq, ref: ref, delete: &iv})
}

// flush begins a flush, or ends it: then no snapshot is open any more.
func (m *storeModel) flush(rt *rapid.T) {
	if m.flushing == 0 {
		m.flushing = m.seq
		m.st.BeginFlush(m.seq)
		return
	}
	if rapid.IntRange(0, 3).Draw(rt, "fails") == 0 {
		m.st.EndFlush()
		m.flushing = 0
		return
	}
	m.snapshots = nil
	m.st.Drop()
	m.events = slices.DeleteFunc(m.events, func(e event) bool { return e.seq <= m.flushing })
	m.flushing = 0
}

func (m *storeModel) check(rt *rapid.T) {
	var e Excerpt
	for _, snapshot := range append([]uint64{m.seq}, m.snapshots...) {
		for ref := uint64(1); ref <= 3; ref++ {
			mint := rapid.Int64Range(-1600, 1600).Draw(rt, "from")
			maxt := mint + rapid.Int64Range(0, 3200).Draw(rt, "long")
			require.NoError(rt, e.Take(m.st, ref, snapshot, mint, maxt))
			require.Equal(rt, m.seen(ref, snapshot, mint, maxt), samplesOf(rt, &e, mint, maxt), "series %d, snapshot %d", ref, snapshot)
		}
	}
	m.checkSize(rt)
}

// checkSize holds the counts against what there is.
func (m *storeModel) checkSize(rt *rapid.T) {
	var bytes, samples, n int64
	for i := range m.st.shards {
		for _, s := range m.st.shards[i].mu.series.All() {
			bytes += s.bytes()
			samples += int64(s.len())
			n++
		}
	}
	series, kept := m.st.Len()
	require.Equal(rt, n, series)
	require.Equal(rt, samples, kept)
	require.Equal(rt, bytes, m.st.SizeBytes())
}

func TestStore_EqualsAListOfAllThatCame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &storeModel{st: NewStore(testCutting)}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				m.remove(rt)
			case 1:
				m.snapshots = append(m.snapshots, m.seq)
			case 2:
				if n := len(m.snapshots); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(rt, "which")
					m.snapshots = slices.Delete(m.snapshots, at, at+1)
				}
			case 3:
				m.flush(rt)
			default:
				m.add(rt)
			}
		}
		m.check(rt)
	})
}

// A flush takes what came up to a commit. What came meanwhile stays, and is within the bounds.
func TestStore_Bounds_CoverWhatStaysBehindADrop(t *testing.T) {
	st := NewStore(Cutting{Range: 1000, Samples: 120})
	add := func(at int64, seq uint64) {
		added, err := st.Add(1, &Sample{T: at, Encoding: chunkenc.EncXOR}, seq, 0, false)
		require.NoError(t, err)
		require.True(t, added)
	}
	add(100, 1)
	add(900, 2)
	st.BeginFlush(2)
	add(500, 3)
	st.Drop()
	mint, maxt := st.Bounds()
	require.Equal(t, []int64{500, 500}, []int64{mint, maxt})
	series, samples := st.Len()
	require.Equal(t, []int64{1, 1}, []int64{series, samples})
}

func TestBlockRange_IsAlignedAndHasTheTime(t *testing.T) {
	for _, c := range []struct{ t, mint, end int64 }{
		{0, 0, 100}, {99, 0, 100}, {100, 100, 200}, {-1, -100, 0}, {-100, -100, 0}, {-101, -200, -100},
		{math.MaxInt64 - 1, math.MaxInt64 - 7, math.MaxInt64}, {math.MinInt64 + 1, math.MinInt64 + 1, math.MinInt64 + 8},
	} {
		mint, end := alignedRange(c.t, 100)
		require.Equal(t, []int64{c.mint, c.end}, []int64{mint, end}, "%d", c.t)
	}
}

// A process may have a thousand databases, most of which have no late samples.
func TestStore_WithoutSamples_IsSmall(t *testing.T) {
	const each = 64 // bytes of a shard: a lock, a table, a number
	require.LessOrEqual(t, unsafe.Sizeof(Store{}), uintptr(len(shards{})*each+128))
}
