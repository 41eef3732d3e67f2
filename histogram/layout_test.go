package histogram_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

func TestCheckLayout_KnowsWhatMakesNoSense(t *testing.T) {
	const custom = histogram.CustomBuckets
	type layout struct {
		schema             int32
		positive, negative []histogram.Span
		bounds             []float64
		want               error
	}
	for name, l := range map[string]layout{
		"nothing":                           {},
		"a first span below 0":              {positive: spans(-7, 2, 0, 0, 3, 1), negative: spans(math.MinInt32, 1)},
		"a span that goes back":             {positive: spans(0, 2, -1, 1), want: histogram.ErrSpanNegativeOffset},
		"a negative span that goes back":    {negative: spans(0, 2, -1, 1), want: histogram.ErrSpanNegativeOffset},
		"the last index":                    {positive: spans(math.MaxInt32, 1)},
		"an index beyond it":                {positive: spans(math.MaxInt32, 2), want: histogram.ErrSpanOverflow},
		"several spans beyond it":           {negative: spans(math.MaxInt32, 1, 0, 0, 1, 0), want: histogram.ErrSpanOverflow},
		"exponential with a bound":          {schema: 3, positive: spans(0, 1), bounds: []float64{1}, want: histogram.ErrExponentialWithCustomBounds},
		"custom":                            {schema: custom, positive: spans(1, 1, 1, 1), bounds: []float64{-1, 0, 0.5}},
		"custom with bounds to spare":       {schema: custom, positive: spans(0, 1), bounds: []float64{math.Inf(-1), 0, 7}},
		"custom without bounds":             {schema: custom, positive: spans(0, 1)},
		"custom without bounds and buckets": {schema: custom},
		"two buckets without bounds":        {schema: custom, positive: spans(0, 2), want: histogram.ErrCustomBucketsMismatch},
		"a bucket more than bounds and one": {schema: custom, positive: spans(0, 4), bounds: []float64{1, 2}, want: histogram.ErrCustomBucketsMismatch},
		"a bucket behind all bounds":        {schema: custom, positive: spans(0, 1, 2, 1), bounds: []float64{1, 2}, want: histogram.ErrCustomBucketsMismatch},
		"a bucket in front of all":          {schema: custom, positive: spans(-1, 1), bounds: []float64{1}, want: histogram.ErrSpanNegativeOffset},
		"negative buckets of custom ones":   {schema: custom, negative: spans(0, 1), bounds: []float64{1}, want: histogram.ErrCustomBucketsNegativeSpans},
		"bounds that fall":                  {schema: custom, bounds: []float64{1, 3, 2}, want: histogram.ErrCustomBucketsInvalid},
		"a bound twice":                     {schema: custom, bounds: []float64{1, 1}, want: histogram.ErrCustomBucketsInvalid},
		"-Inf behind a bound":               {schema: custom, bounds: []float64{1, math.Inf(-1)}, want: histogram.ErrCustomBucketsInvalid},
		"-Inf twice":                        {schema: custom, bounds: []float64{math.Inf(-1), math.Inf(-1)}, want: histogram.ErrCustomBucketsInvalid},
		"a bound of +Inf":                   {schema: custom, bounds: []float64{1, math.Inf(1)}, want: histogram.ErrCustomBucketsInfinite},
		"a bound of NaN":                    {schema: custom, bounds: []float64{math.NaN()}, want: histogram.ErrCustomBucketsNaN},
	} {
		err := histogram.CheckLayout(l.schema, [2][]histogram.Span{l.positive, l.negative}, l.bounds)
		if l.want == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, l.want, name)
		require.Regexp(t, `\d`, err.Error(), "it says which numbers")
	}
}

func TestCheckLayout_HasNothingAgainstValidHistograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histtest.Draw(pick(t))
		require.NoError(t, histogram.CheckLayout(h.Schema, [2][]histogram.Span{h.PositiveSpans, h.NegativeSpans}, h.CustomValues))
	})
}
