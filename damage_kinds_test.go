package tsdb_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// specimens are the directories that are damaged: one of floats, and one with samples of every
// kind.
func specimens(t *testing.T) map[string]*specimen {
	return map[string]*specimen{"floats": newSpecimen(t), "every kind": newKindsSpecimen(t)}
}

// newKindsSpecimen returns a directory whose log has all types of records of samples, and whose
// head-chunk files have all encodings of chunks.
func newKindsSpecimen(t *testing.T) *specimen {
	ts := int64(-8_000) // so that times of both signs are there
	half := len(kindRuns) / 2
	besides := func(rows []row) beside { // times here are such that besideOf has no metadata for them
		b := besideOf(rows)
		b.metadata = append(b.metadata, besideSample{rows[0].ls, rows[0].T})
		return b
	}
	sp := makeSpecimen(t, besides, func(session int) [][]row {
		ts += 5_000
		runs := [][]kindRun{kindRuns[:half], kindRuns[half:], kindRuns[:1], kindRuns[2:3]}
		return [][]row{kindRows(series(t, `{__name__="mixed"}`), ts, runs[session])}
	})
	require.Subset(t, sp.recordTypes(t), []record.Type{
		record.TypeSamplesV2, record.TypeHistograms, record.TypeFloatHistograms,
		record.TypeCustomHistograms, record.TypeCustomFloats, record.TypeHistogramsV2, record.TypeFloatsV2,
		record.TypeExemplars, record.TypeMetadata,
	})
	require.Subset(t, sp.encodings(t), []chunkenc.Encoding{
		chunkenc.EncXOR, chunkenc.EncXOR2, chunkenc.EncHistogram, chunkenc.EncFloatHistogram,
		chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST,
	})
	return sp
}

// kindRows makes two samples of each run, behind a time.
func kindRows(ls labels.Labels, ts int64, runs []kindRun) (rows []row) {
	for _, draw := range runs {
		for i := range int64(2) {
			ts += 250
			s := draw(i)
			if s.T = ts; s.ST != 0 {
				s.ST = ts - 100
			}
			rows = append(rows, rowOf(ls, s))
		}
	}
	return rows
}

// kindRun makes the ith sample of a run.
type kindRun func(i int64) *anySample

// kindRuns make the samples of runs of a few: at the end of each a record of the log and a chunk
// ends. A start timestamp only says that there is one.
var kindRuns = []kindRun{
	func(i int64) *anySample { return &anySample{H: fewBuckets(i)} },
	func(i int64) *anySample { return &anySample{H: customBuckets(i)} },
	func(i int64) *anySample { return &anySample{FH: fewBuckets(i).ToFloat(nil)} },
	func(i int64) *anySample { return &anySample{FH: customBuckets(i).ToFloat(nil)} },
	func(i int64) *anySample { return &anySample{V: math.Float64bits(float64(i))} },
	func(i int64) *anySample { return &anySample{ST: 1, H: fewBuckets(i)} },
	func(i int64) *anySample { return &anySample{ST: 1, V: math.Float64bits(float64(i))} },
	func(i int64) *anySample { return &anySample{ST: 1, FH: fewBuckets(i).ToFloat(nil)} },
	func(i int64) *anySample { return &anySample{V: math.Float64bits(math.Sqrt2)} },
	func(i int64) *anySample {
		h := &histogram.Histogram{}
		h.SetStale()
		return &anySample{H: h}
	},
}

func fewBuckets(i int64) *histogram.Histogram {
	return &histogram.Histogram{
		Schema: 1, ZeroThreshold: 0.001, ZeroCount: uint64(i),
		Count: uint64(3*i + 3), Sum: float64(i) / 3,
		PositiveSpans: []histogram.Span{{Offset: -1, Length: 1}}, PositiveBuckets: []int64{i + 1},
		NegativeSpans: []histogram.Span{{Offset: 2, Length: 1}}, NegativeBuckets: []int64{i + 2},
	}
}

func customBuckets(i int64) *histogram.Histogram {
	return &histogram.Histogram{
		Schema: histogram.CustomBuckets, CustomValues: []float64{0.5, 2},
		Count: uint64(i + 1), Sum: float64(i),
		PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{i + 1},
	}
}

// recordTypes returns the types of the records of the log.
func (sp *specimen) recordTypes(t *testing.T) (all []record.Type) {
	t.Helper()
	for i := range 4 {
		file := fmt.Sprintf("wal/%08d", i)
		r := wal.NewReader(bytes.NewReader(sp.files[file]), int64(len(sp.files[file])), file, i)
		for r.Next() {
			all = append(all, record.TypeOf(r.Record()))
		}
		require.NoError(t, r.Err())
	}
	return all
}

// encodings returns those of the chunks of the head-chunk files.
func (sp *specimen) encodings(t *testing.T) (all []chunkenc.Encoding) {
	t.Helper()
	fs, err := diskOf(sp.files)
	require.NoError(t, err)
	eachHeadChunk(t, fs, func(c chunks.HeadChunk) { all = append(all, c.Encoding) })
	return all
}

// eachHeadChunk calls do with all chunks of the head-chunk files.
func eachHeadChunk(t *testing.T, fs *tsdbtest.MemFS, do func(c chunks.HeadChunk)) {
	t.Helper()
	h, err := chunks.OpenHead(fs, "data/chunks_head", chunks.HeadOptions{})
	require.NoError(t, err)
	_, err = h.Load(func(c chunks.HeadChunk) error {
		do(c)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, h.Close())
}
