package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// resultWriter shows the result of a query: for each series begin, samples any number
// of times, end; close at last. Slices are valid during the call only.
type resultWriter interface {
	begin(ls labels.Labels) error
	samples(t []int64, v []float64) error
	end() error
	close(warnings tsdb.Warnings) error
}

// newResultWriter picks the writer of a format. Names are all label names that the
// result has.
func newResultWriter(c *console, s *selection, names []string) resultWriter {
	buf := bufio.NewWriterSize(c.out, 64<<10)
	switch s.output {
	case "json":
		return &jsonResult{w: jsonSamples{w: buf}, document: true}
	case "jsonl":
		return &jsonResult{w: jsonSamples{w: buf}}
	case "csv":
		return &csvResult{w: csv.NewWriter(buf), buf: buf, names: names}
	case "plot":
		return &plotResult{c: c, title: s.selector, mint: s.mint, maxt: s.maxt}
	default:
		return &tableResult{c: c}
	}
}

// jsonSamples writes {"labels":{...},"samples":[[t,v],...]} piece by piece.
type jsonSamples struct {
	w    *bufio.Writer
	line []byte
	any  bool // a sample was written
}

func (j *jsonSamples) begin(ls labels.Labels) error {
	j.any = false
	encoded, err := json.Marshal(ls)
	if err != nil {
		return errors.Wrap(err, "encode labels")
	}
	j.line = append(append(append(j.line[:0], `{"labels":`...), encoded...), `,"samples":[`...)
	_, err = j.w.Write(j.line)
	return errors.Wrap(err, "write output")
}

func (j *jsonSamples) samples(t []int64, v []float64) error {
	j.line = j.line[:0]
	for i := range t {
		if j.any {
			j.line = append(j.line, ',')
		}
		j.any = true
		j.line = strconv.AppendInt(append(j.line, '['), t[i], 10)
		j.line = append(appendJSONFloat(append(j.line, ','), v[i]), ']')
	}
	_, err := j.w.Write(j.line)
	return errors.Wrap(err, "write output")
}

func (j *jsonSamples) end() error {
	_, err := j.w.WriteString("]}")
	return errors.Wrap(err, "write output")
}

// jsonResult is one object a series: a line each, or all in one document.
type jsonResult struct {
	w        jsonSamples
	document bool
	series   int
}

func (r *jsonResult) begin(ls labels.Labels) error {
	before := ""
	switch {
	case r.document && r.series == 0:
		before = "{\"series\":[\n"
	case r.document:
		before = ",\n"
	}
	r.series++
	if _, err := r.w.w.WriteString(before); err != nil {
		return errors.Wrap(err, "write output")
	}
	return r.w.begin(ls)
}

func (r *jsonResult) samples(t []int64, v []float64) error { return r.w.samples(t, v) }

func (r *jsonResult) end() error {
	if err := r.w.end(); err != nil || r.document {
		return err
	}
	return errors.Wrap(r.w.w.WriteByte('\n'), "write output")
}

func (r *jsonResult) close(warnings tsdb.Warnings) error {
	if r.document {
		before := "\n"
		if r.series == 0 {
			before = "{\"series\":["
		}
		texts := make([]string, 0, len(warnings))
		for _, w := range warnings {
			texts = append(texts, w.Error())
		}
		encoded, err := json.Marshal(texts)
		if err != nil {
			return errors.Wrap(err, "encode warnings")
		}
		if _, err := r.w.w.WriteString(before + `],"warnings":` + string(encoded) + "}\n"); err != nil {
			return errors.Wrap(err, "write output")
		}
	}
	return errors.Wrap(r.w.w.Flush(), "write output")
}

// csvResult is one line a sample, with a column for each label that any series of the
// result has.
type csvResult struct {
	w      *csv.Writer
	buf    *bufio.Writer
	names  []string
	record []string
}

func (r *csvResult) begin(ls labels.Labels) error {
	if r.record == nil {
		r.record = append([]string{"timestamp_ms", "value"}, r.names...)
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

func (r *csvResult) samples(t []int64, v []float64) error {
	for i := range t {
		r.record[0], r.record[1] = strconv.FormatInt(t[i], 10), rawFloat(v[i])
		if err := r.w.Write(r.record); err != nil {
			return errors.Wrap(err, "write output")
		}
	}
	return nil
}

func (r *csvResult) end() error { return nil }

func (r *csvResult) close(tsdb.Warnings) error {
	r.w.Flush()
	if err := r.w.Error(); err != nil {
		return errors.Wrap(err, "write output")
	}
	return errors.Wrap(r.buf.Flush(), "write output")
}

// plotResult draws the first series of a result.
type plotResult struct {
	c          *console
	title      string
	mint, maxt int64
	unit       unit
	lines      []line
	more       int // series that are not drawn
	skip       bool
}

// plotHeight is for a terminal of 24 lines with a legend.
const plotHeight = 12

func (r *plotResult) begin(ls labels.Labels) error {
	if r.skip = len(r.lines) == plotMaxLines; r.skip {
		r.more++
		return nil
	}
	r.unit = unitOf(ls.Get(labels.MetricName))
	r.lines = append(r.lines, line{name: seriesName(ls)})
	return nil
}

func (r *plotResult) samples(t []int64, v []float64) error {
	if !r.skip {
		l := &r.lines[len(r.lines)-1]
		l.t, l.v = append(l.t, t...), append(l.v, v...)
	}
	return nil
}

func (r *plotResult) end() error { return nil }

func (r *plotResult) close(tsdb.Warnings) error {
	if len(r.lines) == 0 {
		return nil
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for _, l := range r.lines {
		if len(l.t) > 0 {
			lo, hi = min(lo, l.t[0]), max(hi, l.t[len(l.t)-1])
		}
	}
	ch := chart{title: r.title, unit: r.unit, mint: max(r.mint, lo), maxt: min(r.maxt, hi), height: plotHeight, lines: r.lines}
	if len(r.lines) > 1 && !r.c.colour {
		ch.height = plotHeight / 3
	}
	r.c.printf("%s", r.c.plot(ch))
	if r.more > 0 {
		r.c.message("%s more series are not drawn", count(r.more))
	}
	return nil
}
