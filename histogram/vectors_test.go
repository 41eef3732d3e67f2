package histogram_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// sentinels are the names that vectors have for errors.
var sentinels = map[string]error{
	"count_mismatch":                 histogram.ErrCountMismatch,
	"count_not_big_enough":           histogram.ErrCountNotBigEnough,
	"negative_count":                 histogram.ErrNegativeCount,
	"negative_bucket_count":          histogram.ErrNegativeBucketCount,
	"spans_buckets_mismatch":         histogram.ErrSpansBucketsMismatch,
	"span_negative_offset":           histogram.ErrSpanNegativeOffset,
	"span_overflow":                  histogram.ErrSpanOverflow,
	"invalid_schema":                 histogram.ErrInvalidSchema,
	"custom_bounds_too_few":          histogram.ErrCustomBucketsMismatch,
	"custom_bounds_not_increasing":   histogram.ErrCustomBucketsInvalid,
	"custom_bounds_infinite":         histogram.ErrCustomBucketsInfinite,
	"custom_bounds_nan":              histogram.ErrCustomBucketsNaN,
	"custom_zero_count":              histogram.ErrCustomBucketsZeroCount,
	"custom_zero_threshold":          histogram.ErrCustomBucketsZeroThreshold,
	"custom_negative_spans":          histogram.ErrCustomBucketsNegativeSpans,
	"custom_negative_buckets":        histogram.ErrCustomBucketsNegativeBuckets,
	"exponential_with_custom_bounds": histogram.ErrExponentialWithCustomBounds,
}

func TestValidate_SaysWhatTheVectorsSay(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name, Validate, Append string
			H                      *histtest.Int
			FH                     *histtest.Float
		}
	}
	load(t, "testdata/histogram_validate.json", &file)
	require.Len(t, file.Vectors, 74)
	seen := map[string]bool{}
	for _, v := range file.Vectors {
		if v.Name == "span-index-overflow" { // older programs take it
			v.Validate, v.Append = "span_overflow", "span_overflow"
		}
		var before, after error
		if v.H != nil {
			before = v.H.Validate()
			v.H.Normalize()
			after = v.H.Validate()
		} else {
			before = v.FH.Validate()
			v.FH.Normalize()
			after = v.FH.Validate()
		}
		requireSentinel(t, v.Validate, before, v.Name)
		requireSentinel(t, v.Append, after, "%s, normalized", v.Name)
		seen[v.Validate] = true
	}
	for name := range sentinels {
		require.True(t, seen[name], "no vector for %s", name)
	}
}

// load reads a file of vectors.
func load(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func requireSentinel(t *testing.T, want string, err error, args ...any) {
	t.Helper()
	if want == "" {
		require.NoError(t, err, args...)
		return
	}
	require.NotNil(t, sentinels[want], want)
	require.ErrorIs(t, err, sentinels[want], args...)
	require.Regexp(t, `\d`, err.Error(), "it says which numbers")
}

func TestDetectReset_SaysWhatTheVectorsSay(t *testing.T) {
	type named [2]json.RawMessage
	var file struct {
		Vectors []struct {
			Name              string
			Previous, Current named
			Reset             bool
		}
		Histograms map[string]*histtest.Float
	}
	load(t, "testdata/histogram_resets.json", &file)
	require.Len(t, file.Vectors, 52)
	find := func(n named) *histogram.FloatHistogram {
		var name string
		var hint histogram.ResetHint
		require.NoError(t, json.Unmarshal(n[0], &name))
		require.NoError(t, json.Unmarshal(n[1], &hint))
		require.Contains(t, file.Histograms, name)
		h := file.Histograms[name].Copy()
		h.Hint = hint
		return h
	}
	for _, v := range file.Vectors {
		previous, current := find(v.Previous), find(v.Current)
		was, is := previous.Copy(), current.Copy()
		require.Equal(t, v.Reset, current.DetectReset(previous), v.Name)
		require.True(t, was.Equal(previous), "%s: previous is as it was", v.Name)
		require.True(t, is.Equal(current), "%s: current is as it was", v.Name)
	}
}
