package main

import (
	"bufio"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// csvResult is one line a sample, with a column for each label that any series of the
// result has, and one for the name even if none has it: without it, whoever reads the table
// takes the column of values for the name.
type csvResult struct {
	w      *csv.Writer
	buf    *bufio.Writer
	names  []string
	record []string
	value  []byte
}

func newCSVResult(buf *bufio.Writer, names []string) *csvResult {
	if !slices.Contains(names, labels.MetricName) {
		names = append([]string{labels.MetricName}, names...)
	}
	return &csvResult{w: csv.NewWriter(buf), buf: buf, names: names}
}

// Columns of a table of samples. A label with a name that a column has already, or that
// begins with labelPrefix, gets labelPrefix in front of it.
const (
	timeColumn  = "timestamp_ms"
	valueColumn = "value"
	labelPrefix = "label:"
)

// labelColumn is the column that a label gets.
func labelColumn(name string) string {
	if name == timeColumn || name == valueColumn || strings.HasPrefix(name, labelPrefix) {
		return labelPrefix + name
	}
	return name
}

// columnLabel is the label that a column has.
func columnLabel(column string) string {
	if name := strings.TrimPrefix(column, labelPrefix); name != "" {
		return name
	}
	return column
}

func (r *csvResult) begin(ls labels.Labels) error {
	if r.record == nil {
		r.record = []string{timeColumn, valueColumn}
		for _, name := range r.names {
			r.record = append(r.record, labelColumn(name))
		}
		if err := r.w.Write(r.record); err != nil {
			return errors.Wrap(err, "write output")
		}
	}
	known := 0
	for i, name := range r.names {
		value := ls.Get(name)
		r.record[2+i] = value
		if value != "" {
			known++
		}
	}
	if known < ls.Len() { // a server was asked for the names first, and then for the samples
		return errors.Errorf("%s came meanwhile, and has a label that no series had: there is no column for it", seriesName(ls))
	}
	return nil
}

func (r *csvResult) batch(b *chunkenc.Batch) error {
	for i, t := range b.T {
		r.value = appendSample(r.value[:0], b.V[i])
		if err := r.row(t); err != nil {
			return err
		}
	}
	return nil
}

func (r *csvResult) histogram(s *histogramSample) error {
	r.value = appendHistogram(r.value[:0], s)
	return r.row(s.t)
}

// row writes the value at a time.
func (r *csvResult) row(t int64) error {
	r.record[0], r.record[1] = strconv.FormatInt(t, 10), string(r.value)
	return errors.Wrap(r.w.Write(r.record), "write output")
}

func (r *csvResult) end() error { return nil }

func (r *csvResult) close(tsdb.Warnings) error {
	r.w.Flush()
	if err := r.w.Error(); err != nil {
		return errors.Wrap(err, "write output")
	}
	return errors.Wrap(r.buf.Flush(), "write output")
}
