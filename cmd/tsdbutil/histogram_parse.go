package main

import (
	"bytes"
	"math"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/histogram"
)

// errBoundsOnly: what promtool writes of a histogram cannot be read back.
const errBoundsOnly = "the histogram has bounds of buckets only, neither a schema nor its zero bucket's " +
	"width: dump --format=openmetrics and --output=json write all of it"

// isHistogramText says whether a text is a histogram, and not labels or a number.
func isHistogramText(b []byte) bool { return bytes.HasPrefix(b, []byte(textBegin)) }

// histogramEnd returns where a histogram at the beginning of a text ends.
func histogramEnd(b []byte) (int, error) {
	end := bytes.IndexByte(b, '}')
	if end < 0 {
		return 0, errors.New("the brace of the histogram is not closed")
	}
	return end + 1, nil
}

// histogramText is a histogram that is being read. Counts stay text until it is known whether all
// of them are integers.
type histogramText struct {
	rest   []byte
	s      *histogramSample
	seen   map[string]bool
	spans  [2][]histogram.Span
	counts [2][]string // of buckets
	count  string
	zero   string
}

// parseHistogram makes s what appendHistogram has written; its times stay. Whether it makes sense
// the database says. A sum or a count of zero may be left out.
func parseHistogram(text []byte, s *histogramSample) error {
	p := &histogramText{rest: bytes.ReplaceAll(text, []byte(" "), nil), s: s, seen: map[string]bool{}}
	*s = histogramSample{t: s.t, st: s.st}
	p.take('{')
	for !p.take('}') {
		if len(p.seen) > 0 && !p.take(',') {
			return errors.Errorf("the histogram goes on with %s, want a comma or a brace", quoted(p.rest))
		}
		if err := p.member(); err != nil {
			return err
		}
	}
	switch {
	case len(p.rest) > 0:
		return errors.Errorf("something follows the histogram: %s", quoted(p.rest))
	case !p.seen[textSchema]:
		return errors.New("the histogram has no schema")
	}
	return p.finish()
}

func (p *histogramText) take(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// word takes what stands before the next of some characters.
func (p *histogramText) word(before string) string {
	end := bytes.IndexAny(p.rest, before)
	if end < 0 {
		end = len(p.rest)
	}
	word := string(p.rest[:end])
	p.rest = p.rest[end:]
	return word
}

// member takes name:value.
func (p *histogramText) member() error {
	if len(p.rest) > 0 && (p.rest[0] == '[' || p.rest[0] == '(') {
		return errors.New(errBoundsOnly)
	}
	name := p.word(":,{}[]")
	if !p.take(':') {
		return errors.Errorf("the histogram's %s has no value", quoted(name))
	}
	if p.seen[name] {
		return errors.Errorf("the histogram has %s more than once", quoted(name))
	}
	p.seen[name] = true
	return errors.WithMessagef(p.value(name), "%s of the histogram", name)
}

func (p *histogramText) value(name string) (err error) {
	h := &p.s.fh
	switch name {
	case textCount:
		p.count = p.word(",}")
	case textZero:
		p.zero = p.word(",}")
	case textSum:
		h.Sum, err = parseValue([]byte(p.word(",}")))
	case textWidth:
		h.ZeroThreshold, err = parseValue([]byte(p.word(",}")))
	case textSchema:
		h.Schema, err = parseSchema(p.word(",}"))
	case textGauge:
		if p.word(",}") == textTrue {
			h.Hint = histogram.HintGauge
		}
	case textBounds:
		err = p.list(func(text string) error {
			v, err := parseValue([]byte(text))
			h.CustomValues = append(h.CustomValues, v)
			return err
		})
	default:
		return p.side(name)
	}
	return err
}

// side takes the spans or the counts of one side.
func (p *histogramText) side(name string) error {
	for i, side := range textSides {
		switch name {
		case side + textSpans:
			return p.list(func(text string) error {
				span, err := parseSpan(text)
				p.spans[i] = append(p.spans[i], span)
				return err
			})
		case side + textBuckets:
			return p.list(func(text string) error {
				p.counts[i] = append(p.counts[i], text)
				return nil
			})
		}
	}
	return errors.New("it is not known")
}

// list takes [a,b,...].
func (p *histogramText) list(each func(string) error) error {
	if !p.take('[') {
		return errors.New("want a list")
	}
	for n := 0; !p.take(']'); n++ {
		if n == histogram.MaxBuckets {
			return errors.New("the list is too long")
		}
		if n > 0 && !p.take(',') {
			return errors.New("the list is not closed")
		}
		text := p.word(",]}")
		if text == "" {
			return errors.New("the list has a gap, or is not closed")
		}
		if err := each(text); err != nil {
			return err
		}
	}
	return nil
}

func parseSchema(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, errors.Errorf("%s is no schema", quoted(text))
	}
	return int32(n), nil
}

func parseSpan(text string) (s histogram.Span, err error) {
	offset, length, _ := bytes.Cut([]byte(text), []byte(":"))
	o, err1 := strconv.ParseInt(string(offset), 10, 32)
	l, err2 := strconv.ParseUint(string(length), 10, 32)
	if err1 != nil || err2 != nil {
		return s, errors.Errorf("%s is no span: want offset:length", quoted(text))
	}
	return histogram.Span{Offset: int32(o), Length: uint32(l)}, nil
}

// finish reads the counts.
func (p *histogramText) finish() error {
	s := p.s
	s.fh.NegativeSpans, s.fh.PositiveSpans = p.spans[0], p.spans[1]
	all := make([]string, 0, 2+len(p.counts[0])+len(p.counts[1]))
	all = append(append(append(all, p.count, p.zero), p.counts[0]...), p.counts[1]...)
	s.integer = true
	for _, text := range all {
		s.integer = s.integer && isDigits(text)
	}
	if s.integer {
		return errors.WithMessage(s.setIntegers(all, len(p.counts[0])), "the histogram")
	}
	return errors.WithMessage(s.setFloats(all, len(p.counts[0])), "the histogram")
}

// isDigits says whether a text is a whole number, or nothing.
func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// setFloats reads the count, that of the zero bucket, those of so many negative buckets, and those
// of positive ones.
func (s *histogramSample) setFloats(counts []string, negative int) error {
	vs := make([]float64, len(counts))
	for i, text := range counts {
		if text == "" {
			continue
		}
		var err error
		if vs[i], err = parseValue([]byte(text)); err != nil {
			return err
		}
	}
	h := &s.fh
	h.Count, h.ZeroCount, vs = vs[0], vs[1], vs[2:]
	h.NegativeBuckets, h.PositiveBuckets = vs[:negative:negative], vs[negative:]
	return nil
}

// setIntegers is setFloats for integer counts. The counts of neighbours differ by an int64.
func (s *histogramSample) setIntegers(counts []string, negative int) error {
	ns := make([]uint64, len(counts))
	for i, text := range counts {
		if text == "" {
			continue
		}
		var err error
		if ns[i], err = strconv.ParseUint(text, 10, 64); err != nil || i > 1 && ns[i] > math.MaxInt64 {
			return errors.Errorf("a count is no whole number, or too large: %s", quoted(text))
		}
	}
	f, h := &s.fh, &s.h
	h.Hint, h.Schema, h.ZeroThreshold, h.Sum = f.Hint, f.Schema, f.ZeroThreshold, f.Sum
	h.PositiveSpans, h.NegativeSpans, h.CustomValues = f.PositiveSpans, f.NegativeSpans, f.CustomValues
	h.Count, h.ZeroCount, ns = ns[0], ns[1], ns[2:]
	h.NegativeBuckets, h.PositiveBuckets = deltas(ns[:negative]), deltas(ns[negative:])
	s.fh = *h.ToFloat(nil)
	return nil
}

// deltas are counts as a histogram with integer counts has them.
func deltas(counts []uint64) []int64 {
	out := make([]int64, 0, len(counts))
	last := int64(0)
	for _, n := range counts {
		out = append(out, int64(n)-last)
		last = int64(n)
	}
	return out
}
