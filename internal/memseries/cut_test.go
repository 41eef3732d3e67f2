package memseries

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// cutter appends to one series until a chunk is full, and has it written.
type cutter struct {
	d     *Directory
	s     *Series
	fulls []Full
	refs  []chunks.Ref
	t     int64
}

func newCutter(tb testing.TB) *cutter {
	d := NewDirectory(Cutting{Range: math.MaxInt64, Samples: 8})
	s, _, err := d.GetOrCreate(labels.FromStrings("a", "b"))
	require.NoError(tb, err)
	c := &cutter{d: d, s: s, refs: []chunks.Ref{1}}
	for range 4 {
		c.run()
	}
	return c
}

func (c *cutter) run() {
	for c.d.Shelf.Bytes() == 0 {
		c.t++
		commit(c.d, 1, 1, c.s, c.t, float64(c.t)*1.1)
	}
	c.fulls, _ = c.d.Shelf.Collect(c.fulls[:0], 0, math.MaxInt)
	c.d.Shelf.Written(c.fulls, c.refs[:len(c.fulls)])
	c.s.numMapped = 0 // the list would grow
}

func TestCut_AllocatesNothing(t *testing.T) {
	c := newCutter(t)
	require.Zero(t, testing.AllocsPerRun(100, c.run))
}

func BenchmarkCut(b *testing.B) {
	c := newCutter(b)
	b.ReportAllocs()
	for range b.N {
		c.run()
	}
}

// BenchmarkCutScrape applies commits of 1,000 samples to 100,000 series, forty samples a chunk, all
// of which end together: the time of a commit that cuts a chunk of each of its series, beside that
// of all others.
func BenchmarkCutScrape(b *testing.B) {
	const series, perCommit, perChunk, step = 100_000, 1000, 40, 15_000
	d := NewDirectory(Cutting{Range: perChunk * step, Samples: 120})
	all := commitOf(benchSeries(b, d, series))
	vs := benchValues(series)
	var cut, other []time.Duration
	var fulls []Full
	refs := make([]chunks.Ref, series)
	b.ResetTimer()
	for k := range int64(b.N * perChunk) {
		for from := 0; from < series; from += perCommit {
			begin := time.Now()
			applyAll(d, all[from:from+perCommit], k*step, uint64(k+1), vs[int(k)%64*series+from:])
			if took := time.Since(begin); k%perChunk == 0 && k > 0 {
				cut = append(cut, took)
			} else {
				other = append(other, took)
			}
			fulls = storeFull(d, fulls, refs)
		}
	}
	slices.Sort(cut)
	slices.Sort(other)
	b.ReportMetric(float64(other[len(other)/2].Nanoseconds())/perCommit, "ns/sample")
	if len(cut) > 0 {
		b.ReportMetric(float64(cut[len(cut)/2].Nanoseconds())/perCommit, "ns/sample-and-cut")
	}
}

// An open chunk that is split is one chunk more, of any kind.
func TestCutAt_OpenChunksAreCountedOnce(t *testing.T) {
	for _, kind := range []chunkenc.Encoding{chunkenc.EncXOR2, chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
		d := NewDirectory(defaultCutting)
		s := newSeries(t, d, "a", "b")
		for n := range 6 {
			commitWide(d, uint64(n+1), s, histogramOf(kind, 4, n))
		}
		chunks, _ := d.Shards.Chunks()
		require.Equal(t, 1, chunks)
		d.Truncation.CutAt(3 * 15_000)
		chunks, _ = d.Shards.Chunks()
		require.Equal(t, 2, chunks, "%v", kind)
	}
}

// Counts that overflow, which a log may have, are split like others.
func TestCutAt_SplitsCountsThatOverflow(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	for i, counts := range [][]int64{{math.MinInt64 + 1}, {1 << 62, 5}, {1 << 62, 6}, {1}} {
		h := &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: uint32(len(counts))}}}
		if i == 3 {
			h.Schema = 1 // another layout: the chunk before it is full
		}
		last := int64(0)
		for _, c := range counts {
			h.PositiveBuckets, last = append(h.PositiveBuckets, c-last), c
		}
		commitWide(d, uint64(i+1), s, WideSample{T: int64(i + 1), Encoding: chunkenc.EncHistogram, Sum: h.Digest(), Ints: h})
	}
	require.EqualValues(t, 1, s.numMapped)
	d.Truncation.CutAt(3)
	require.EqualValues(t, 2, s.numMapped)
}
