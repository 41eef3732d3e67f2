package main

import (
	"context"
	"sort"
	"strings"

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

// importSink takes what the formats read, and what they complain about.
type importSink struct {
	ctx       context.Context
	c         *console
	w         *tsdb.BlockWriter
	extra     []labels.Label // labels of every series
	keepGoing bool

	builder    labels.Builder
	cache      map[string]*importSeries
	cacheBytes int

	Samples   int64
	BadLines  int64
	Exemplars int64
}

// importSeries is a series under the text that the input has for it.
type importSeries struct {
	ls  labels.Labels
	ref tsdb.SeriesRef
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
	if one.ref, err = s.w.AppendRef(one.ref, one.ls, t, v); err != nil {
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
// to go on. Errors of the disk are the end in any case.
func (s *importSink) bad(line int, err error) error {
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
	for _, sentinel := range []error{tsdb.ErrOutOfOrder, tsdb.ErrDuplicateSample, tsdb.ErrOutOfBounds, tsdb.ErrInvalidLabels, tsdb.ErrLimit} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// formatByName guesses from the name of a file.
func formatByName(name string) string {
	switch name = plainName(name); {
	case strings.HasSuffix(name, ".csv"), strings.HasSuffix(name, ".tsv"):
		return formatCSV
	case strings.HasSuffix(name, ".prom"):
		return formatProm
	default:
		return formatOpenMetrics
	}
}

// plainName is a name in lower case, without what says that it is a gzip.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".gz") }
