package main

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// jsonHistogram is a histogram in JSON that is being read. What its numbers say is looked at in the
// end: that is wrong with one sample, and not with the whole input.
type jsonHistogram struct {
	s       histogramSample
	members map[string]string // numbers and words
	spans   [2][][]string     // pairs of each side
	bounds  []string
	buckets [][]string
}

// read takes the object.
func (h *jsonHistogram) read(s *jsonScanner) error {
	h.members = map[string]string{}
	return s.object(func(key string) error {
		var err error
		switch key {
		case textSides[0] + textSpans:
			h.spans[0], err = s.rows(2)
		case textSides[1] + textSpans:
			h.spans[1], err = s.rows(2)
		case jsonBuckets:
			h.buckets, err = s.rows(3)
		case textBounds:
			h.bounds, err = s.scalars(histogram.MaxBuckets)
		case jsonKind, textCount, textSum, textSchema, textWidth, textZero, textGauge:
			h.members[key], err = s.scalar()
		default:
			return s.skip(maxJSONDepth)
		}
		return err
	})
}

// scalars reads an array of at most so many numbers, words and texts.
func (s *jsonScanner) scalars(most int) (all []string, err error) {
	err = s.array(func() error {
		if len(all) == most {
			return s.damage("an array is longer than " + count(most))
		}
		one, err := s.scalar()
		all = append(all, one)
		return err
	})
	return all, err
}

// rows reads an array of arrays, each of so many.
func (s *jsonScanner) rows(columns int) (all [][]string, err error) {
	err = s.array(func() error {
		if len(all) == histogram.MaxBuckets {
			return s.damage("an array is longer than " + count(histogram.MaxBuckets))
		}
		row, err := s.scalars(columns)
		if err == nil && len(row) < columns {
			err = s.damage("an array is shorter than " + count(columns))
		}
		all = append(all, row)
		return err
	})
	return all, err
}

// finish makes the histogram.
func (h *jsonHistogram) finish() (err error) {
	f := &h.s.fh
	if f.Schema, err = parseSchema(h.members[textSchema]); err != nil {
		return errors.WithMessage(err, "the histogram")
	}
	for name, to := range map[string]*float64{textSum: &f.Sum, textWidth: &f.ZeroThreshold} {
		if text := h.members[name]; text != "" {
			if *to, err = parseValue([]byte(text)); err != nil {
				return errors.WithMessagef(err, "%s of the histogram", name)
			}
		}
	}
	for i, to := range []*[]histogram.Span{&f.NegativeSpans, &f.PositiveSpans} {
		for _, pair := range h.spans[i] {
			span, err := parseSpan(pair[0] + ":" + pair[1])
			if err != nil {
				return err
			}
			*to = append(*to, span)
		}
	}
	for _, text := range h.bounds {
		v, err := parseValue([]byte(text))
		if err != nil {
			return errors.WithMessage(err, "bounds of the histogram")
		}
		f.CustomValues = append(f.CustomValues, v)
	}
	if h.members[textGauge] == textTrue {
		f.Hint = histogram.HintGauge
	}
	return h.setCounts()
}

// setCounts takes the counts from the buckets, which stand in the order of their bounds: the
// negative ones backwards, the zero bucket unless it is empty, the positive ones.
func (h *jsonHistogram) setCounts() error {
	counts := make([]string, 0, 2+len(h.buckets))
	counts = append(counts, h.members[textCount], h.members[textZero])
	for _, b := range h.buckets {
		counts = append(counts, b[2])
	}
	buckets := counts[2:]
	negative := histogram.NumBuckets(h.s.fh.NegativeSpans)
	spans := negative + histogram.NumBuckets(h.s.fh.PositiveSpans)
	switch len(buckets) {
	case spans:
	case spans + 1:
		counts = slices.Delete(counts, 2+negative, 3+negative)
		buckets = counts[2:]
	default:
		return errors.WithMessagef(histogram.ErrSpansBucketsMismatch, "%d buckets, spans of %d", len(buckets), spans)
	}
	slices.Reverse(buckets[:negative])
	switch kind := h.members[jsonKind]; kind {
	case chunkenc.ValHistogram.String():
		h.s.integer = true
		return errors.WithMessage(h.s.setIntegers(counts, negative), "the histogram")
	case chunkenc.ValFloatHistogram.String():
		return errors.WithMessage(h.s.setFloats(counts, negative), "the histogram")
	default:
		return errors.Errorf("the histogram's kind is not known: %s", quoted(kind))
	}
}
