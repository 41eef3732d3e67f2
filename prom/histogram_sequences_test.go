package prom_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	ourhistogram "github.com/seed347100a3/tsdb/histogram"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

// floatBits is a float as vectors write it: 16 hex digits of its bits.
type floatBits float64

func (b *floatBits) UnmarshalText(text []byte) error {
	u, err := strconv.ParseUint(string(text), 16, 64)
	*b = floatBits(math.Float64frombits(u))
	return err
}

// sequenceHistogram is a histogram of either kind as vectors write it.
type sequenceHistogram struct {
	Schema        int32
	Sum           floatBits
	Count         json.RawMessage
	ZeroCount     json.RawMessage `json:"zero_count"`
	ZeroThreshold floatBits       `json:"zero_threshold"`
	PosSpans      [][2]int64      `json:"pos_spans"`
	NegSpans      [][2]int64      `json:"neg_spans"`
	PosDeltas     []int64         `json:"pos_deltas"`
	NegDeltas     []int64         `json:"neg_deltas"`
	PosCounts     []floatBits     `json:"pos_counts"`
	NegCounts     []floatBits     `json:"neg_counts"`
	Custom        []floatBits
}

func numbers(list []floatBits) (out []float64) {
	for _, x := range list {
		out = append(out, float64(x))
	}
	return out
}

// sequenceValue is bits of a float, or a histogram by its name, with a hint.
type sequenceValue struct {
	name string
	hint ourhistogram.ResetHint
}

func (v *sequenceValue) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &v.name) == nil {
		return nil
	}
	return json.Unmarshal(text, &[]any{&v.name, &v.hint})
}

// sequenceResult is one line of an answer.
type sequenceResult struct {
	labels []string
	value  sequenceValue
}

func (r *sequenceResult) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&r.labels, &r.value})
}

type histogramSequence struct {
	Name    string
	Options struct {
		Window int64 `json:"ooo_window_ms"`
	}
	Series [][]string
	Steps  []struct {
		Do      string
		Samples []struct {
			S int
			T int64
			V string
			H *sequenceValue
		}
		Query       string
		T           int64
		Result      json.RawMessage
		Annotations []string
	}
}

// histogramSequences has histograms by name.
type histogramSequences struct {
	Vectors    []histogramSequence
	Histograms map[string]*sequenceHistogram
}

func (f *histogramSequences) sample(t *testing.T, bits string, v *sequenceValue) (s tsdb.Sample) {
	if v == nil {
		var x floatBits
		require.NoError(t, x.UnmarshalText([]byte(bits)))
		return tsdb.Sample{V: float64(x)}
	}
	spans := func(list [][2]int64) (out []ourhistogram.Span) {
		for _, s := range list {
			out = append(out, ourhistogram.Span{Offset: int32(s[0]), Length: uint32(s[1])})
		}
		return out
	}
	from := f.Histograms[v.name]
	h := &ourhistogram.Histogram{
		Hint: v.hint, Schema: from.Schema, ZeroThreshold: float64(from.ZeroThreshold), Sum: float64(from.Sum),
		PositiveSpans: spans(from.PosSpans), NegativeSpans: spans(from.NegSpans),
		PositiveBuckets: from.PosDeltas, NegativeBuckets: from.NegDeltas, CustomValues: numbers(from.Custom),
	}
	require.NoError(t, json.Unmarshal(from.Count, &h.Count))
	require.NoError(t, json.Unmarshal(from.ZeroCount, &h.ZeroCount))
	return tsdb.Sample{H: h}
}

// float is a float histogram as the engine has it.
func (f *histogramSequences) float(t *testing.T, v sequenceValue) *histogram.FloatHistogram {
	spans := func(list [][2]int64) (out []histogram.Span) {
		for _, s := range list {
			out = append(out, histogram.Span{Offset: int32(s[0]), Length: uint32(s[1])})
		}
		return out
	}
	var count, zero floatBits
	from := f.Histograms[v.name]
	require.NoError(t, json.Unmarshal(from.Count, &count))
	require.NoError(t, json.Unmarshal(from.ZeroCount, &zero))
	return &histogram.FloatHistogram{
		CounterResetHint: histogram.CounterResetHint(v.hint), Schema: from.Schema, ZeroThreshold: float64(from.ZeroThreshold),
		ZeroCount: float64(zero), Count: float64(count), Sum: float64(from.Sum),
		PositiveSpans: spans(from.PosSpans), NegativeSpans: spans(from.NegSpans),
		PositiveBuckets: numbers(from.PosCounts), NegativeBuckets: numbers(from.NegCounts), CustomValues: numbers(from.Custom),
	}
}

// requireAnswer compares a result with lines of the vector, in any order.
func (f *histogramSequences) requireAnswer(t *testing.T, want []sequenceResult, got *promql.Result) {
	t.Helper()
	require.NoError(t, got.Err)
	vector, err := got.Vector()
	require.NoError(t, err)
	require.Len(t, vector, len(want))
	for _, w := range want {
		ls := labels.FromStrings(w.labels...)
		i := slices.IndexFunc(vector, func(s promql.Sample) bool { return labels.Equal(s.Metric, ls) })
		require.GreaterOrEqual(t, i, 0, "%v is missing", ls)
		if f.Histograms[w.value.name] == nil {
			var v floatBits
			require.NoError(t, v.UnmarshalText([]byte(w.value.name)))
			require.Nil(t, vector[i].H)
			require.Equal(t, math.Float64bits(float64(v)), math.Float64bits(vector[i].F), "%v", ls)
			continue
		}
		h := f.float(t, w.value)
		require.NotNil(t, vector[i].H)
		require.True(t, h.Compact(0).Equals(vector[i].H.Copy().Compact(0)), "%v: want %v, got %v", ls, h, vector[i].H)
		require.Equal(t, h.CounterResetHint, vector[i].H.CounterResetHint, "%v", ls)
	}
}

// What PromQL answers over series of histograms, hints and annotations with it, is what it answers
// over those of another database.
func TestHistogramSequences_PromQLAnswersAsOverAnotherDatabase(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "testdata", "histogram_sequences.json"))
	require.NoError(t, err)
	var file histogramSequences
	require.NoError(t, json.Unmarshal(text, &file))
	n := slices.IndexFunc(file.Vectors, func(v histogramSequence) bool { return v.Name == "promql" })
	require.GreaterOrEqual(t, n, 0)
	v := file.Vectors[n]
	opts := &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}}
	opts.Head.OutOfOrderWindow = time.Duration(v.Options.Window) * time.Millisecond
	db, err := tsdb.Open(t.TempDir(), opts)
	require.NoError(t, err)
	s := prom.NewStorage(db)
	defer func() { require.NoError(t, s.Close()) }()
	engine, queries := prom.NewEngine(nil), 0
	for _, step := range v.Steps {
		switch step.Do {
		case "commit":
			app := db.Appender()
			for _, x := range step.Samples {
				sample := file.sample(t, x.V, x.H)
				sample.T = x.T
				_, err := app.AppendSample(0, tsdblabels.FromStrings(v.Series[x.S]...), sample)
				require.NoError(t, err)
			}
			_, err := app.Commit(context.Background())
			require.NoError(t, err)
		case "compact_out_of_order":
			require.NoError(t, db.Flush(context.Background()))
		case "promql":
			var want []sequenceResult
			require.NoError(t, json.Unmarshal(step.Result, &want))
			t.Run(step.Query, func(t *testing.T) {
				got := answerAt(t, engine, s, step.Query, step.T)
				file.requireAnswer(t, want, got)
				require.Equal(t, step.Annotations, append([]string{}, notesOf(got)...))
			})
			queries++
		case "query": // of samples, which the database is asked for in its own tests
		default:
			require.FailNow(t, "unknown step", step.Do)
		}
	}
	require.Equal(t, 15, queries)
}

func answerAt(t *testing.T, engine *promql.Engine, s storage.Queryable, text string, at int64) *promql.Result {
	t.Helper()
	q, err := engine.NewInstantQuery(context.Background(), s, nil, text, timestamp.Time(at))
	require.NoError(t, err)
	return q.Exec(context.Background())
}
