package main

import (
	"context"
	"math"
	"sort"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

const (
	// maxReported is how many bad lines are named.
	maxReported = 20
	// pollLines is after how many lines an import looks whether it was interrupted.
	pollLines = 1 << 12
	// cachedBytes of series texts are kept, with their labels, so that a text is
	// read once only.
	cachedBytes = 32 << 20
)

// blockAppender takes samples: a tsdb.BlockWriter, and in tests what looks at them.
type blockAppender interface {
	AppendRef(ref tsdb.SeriesRef, ls labels.Labels, t int64, v float64) (tsdb.SeriesRef, error)
}

// sampleAppender takes samples of every kind, and their start timestamps.
type sampleAppender interface {
	AppendSample(ref tsdb.SeriesRef, ls labels.Labels, s tsdb.Sample) (tsdb.SeriesRef, error)
}

// importSink takes what the formats read, and what they complain about.
type importSink struct {
	ctx       context.Context
	c         *console
	w         blockAppender
	extra     []labels.Label // labels of every series
	keepGoing bool
	refuse    bool // of several values at one time the later ones, with keepGoing
	times     timeCheck
	longest   int // bytes of a line

	builder    labels.Builder
	cache      map[string]*importSeries
	cacheBytes int

	Samples   int64
	BadLines  int64
	Exemplars int64 // that nobody takes
	Comments  int64 // lines with metadata that nobody takes
}

// importSeries is a series under the text that the input has for it.
type importSeries struct {
	ls  labels.Labels
	ref tsdb.SeriesRef

	any   bool // there was a sample
	lastT int64
	lastV uint64 // the bits of a float, the digest of a histogram
}

// setExtra keeps the labels of --label, sorted.
func (s *importSink) setExtra(extra map[string]string) error {
	for name, value := range extra {
		if name == "" {
			return usageError("--label: want NAME=VALUE, there is no name before " + quoted(value))
		}
		s.extra = append(s.extra, labels.Label{Name: name, Value: value})
	}
	sort.Slice(s.extra, func(i, j int) bool { return s.extra[i].Name < s.extra[j].Name })
	return nil
}

// poll returns an error when the import was interrupted.
func (s *importSink) poll(line int) error {
	if line%pollLines != 0 {
		return nil
	}
	return s.ctx.Err()
}

// series returns the series of a text, which build reads if it is new.
func (s *importSink) series(text []byte, build func(*labels.Builder) error) (*importSeries, error) {
	if one, ok := s.cache[string(text)]; ok {
		return one, nil
	}
	s.builder.Reset(labels.Labels{})
	if err := build(&s.builder); err != nil {
		return nil, err
	}
	for _, l := range s.extra {
		s.builder.Set(l.Name, l.Value)
	}
	one := &importSeries{ls: s.builder.Labels()}
	if s.cacheBytes += len(text) + one.ls.SizeBytes(); s.cache == nil || s.cacheBytes > cachedBytes {
		s.cache, s.cacheBytes = make(map[string]*importSeries), len(text)+one.ls.SizeBytes()
	}
	s.cache[string(text)] = one
	return one, nil
}

// append adds a sample. What is wrong with it is wrong with its line.
func (s *importSink) append(one *importSeries, t int64, v float64) (err error) {
	if one.ls.IsEmpty() {
		return errors.New("the series has no labels")
	}
	if err := s.times.check(t); err != nil {
		return &sampleError{ls: one.ls, err: err}
	}
	if err := s.repeated(one, t, math.Float64bits(v)); err != nil {
		return err
	}
	if one.ref, err = s.w.AppendRef(one.ref, one.ls, t, v); err != nil {
		return &sampleError{ls: one.ls, err: err}
	}
	s.Samples++
	return nil
}

// repeated refuses another value at the time of the last sample of a series, if that is asked for.
func (s *importSink) repeated(one *importSeries, t int64, v uint64) error {
	if s.refuse && one.any && t == one.lastT && v != one.lastV {
		return &sampleError{ls: one.ls, err: tsdb.ErrDuplicateSample}
	}
	one.any, one.lastT, one.lastV = true, t, v
	return nil
}

// appendSample adds a sample of any kind. What is wrong with it is wrong with its line.
func (s *importSink) appendSample(one *importSeries, x tsdb.Sample) (err error) {
	if x.ST == 0 && x.H == nil && x.FH == nil {
		return s.append(one, x.T, x.V)
	}
	w, ok := s.w.(sampleAppender)
	switch {
	case one.ls.IsEmpty():
		return errors.New("the series has no labels")
	case !ok:
		return errors.New("blocks of this version have neither histograms nor start timestamps")
	}
	if err := s.times.check(x.T); err != nil {
		return &sampleError{ls: one.ls, err: err}
	}
	v := math.Float64bits(x.V)
	switch {
	case x.H != nil:
		x.H.Normalize()
		v, err = x.H.Digest(), x.H.Validate()
	case x.FH != nil:
		x.FH.Normalize()
		v, err = x.FH.Digest(), x.FH.Validate()
	}
	if err != nil {
		return err
	}
	if err := s.repeated(one, x.T, v); err != nil {
		return err
	}
	if one.ref, err = w.AppendSample(one.ref, one.ls, x); err != nil {
		return &sampleError{ls: one.ls, err: err}
	}
	s.Samples++
	return nil
}

// sampleError is why a sample was refused.
type sampleError struct {
	ls  labels.Labels
	err error
}

func (e *sampleError) Error() string {
	return e.err.Error() + ": " + shorten(e.ls.String(), 3*quotedBytes)
}
func (e *sampleError) Unwrap() error { return e.err }

// bad decides about a line that cannot be imported: it is the end, unless the user wants
// to go on. Errors of the disk are the end in any case. It is called for good lines too, with a
// nil error.
func (s *importSink) bad(line int, err error) error {
	if text, ok := s.times.warning(); ok {
		s.c.message("warning: line %s: %s", count(line), text)
	}
	if err == nil {
		return nil
	}
	var sample *sampleError
	if errors.As(err, &sample) && !ofSample(err) {
		return sample.err
	}
	bad := &lineError{line, err}
	if !s.keepGoing {
		return bad
	}
	s.BadLines++
	switch {
	case s.BadLines <= maxReported:
		s.c.message("skipped %v", bad)
	case s.BadLines == maxReported+1:
		s.c.message("skipped more lines, which are counted only")
	}
	return nil
}

// ofSample says whether an error is of one sample and touches no other.
func ofSample(err error) bool {
	for _, sentinel := range []error{tsdb.ErrDuplicateSample, tsdb.ErrOutOfBounds, tsdb.ErrInvalidLabels, tsdb.ErrLimit} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
