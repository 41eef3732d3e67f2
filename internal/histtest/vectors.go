// Package histtest has native histograms for tests: as test vectors write them, and drawn at
// random; and floats with start timestamps. It is for tests only.
package histtest

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/histogram"
)

// Bits is a float as vectors write it: 16 hex digits of its bits.
type Bits float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bits) UnmarshalText(text []byte) error {
	u, err := strconv.ParseUint(string(text), 16, 64)
	*b = Bits(math.Float64frombits(u))
	return errors.Wrap(err, "parse bits of a float")
}

// layout is what both kinds of histograms have in vectors.
type layout struct {
	Hint          histogram.ResetHint
	Schema        int32
	Sum           Bits
	ZeroThreshold Bits   `json:"zero_threshold"`
	PosSpans      []span `json:"pos_spans"`
	NegSpans      []span `json:"neg_spans"`
	Custom        []Bits
}

type span [2]int64

func spans(from []span) (to []histogram.Span) {
	for _, s := range from {
		to = append(to, histogram.Span{Offset: int32(s[0]), Length: uint32(s[1])})
	}
	return to
}

func floats(from []Bits) (to []float64) {
	for _, b := range from {
		to = append(to, float64(b))
	}
	return to
}

// Int is a Histogram that reads itself from a vector.
type Int struct{ histogram.Histogram }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Int) UnmarshalJSON(text []byte) error {
	var v struct {
		layout
		Count     uint64
		ZeroCount uint64  `json:"zero_count"`
		PosDeltas []int64 `json:"pos_deltas"`
		NegDeltas []int64 `json:"neg_deltas"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return errors.Wrap(err, "parse a histogram")
	}
	h.Histogram = histogram.Histogram{
		Hint: v.Hint, Schema: v.Schema, ZeroThreshold: float64(v.ZeroThreshold),
		ZeroCount: v.ZeroCount, Count: v.Count, Sum: float64(v.Sum),
		PositiveSpans: spans(v.PosSpans), NegativeSpans: spans(v.NegSpans),
		PositiveBuckets: v.PosDeltas, NegativeBuckets: v.NegDeltas,
		CustomValues: floats(v.Custom),
	}
	return nil
}

// Float is a FloatHistogram that reads itself from a vector.
type Float struct{ histogram.FloatHistogram }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Float) UnmarshalJSON(text []byte) error {
	var v struct {
		layout
		Count     Bits
		ZeroCount Bits   `json:"zero_count"`
		PosCounts []Bits `json:"pos_counts"`
		NegCounts []Bits `json:"neg_counts"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return errors.Wrap(err, "parse a float histogram")
	}
	h.FloatHistogram = histogram.FloatHistogram{
		Hint: v.Hint, Schema: v.Schema, ZeroThreshold: float64(v.ZeroThreshold),
		ZeroCount: float64(v.ZeroCount), Count: float64(v.Count), Sum: float64(v.Sum),
		PositiveSpans: spans(v.PosSpans), NegativeSpans: spans(v.NegSpans),
		PositiveBuckets: floats(v.PosCounts), NegativeBuckets: floats(v.NegCounts),
		CustomValues: floats(v.Custom),
	}
	return nil
}
