package main

import (
	"bufio"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

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
		return &jsonResult{c: c, w: jsonSamples{w: buf}, document: true}
	case "jsonl":
		return &jsonResult{c: c, w: jsonSamples{w: buf}}
	case "csv":
		return newCSVResult(buf, names)
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

	replaced int // series with labels that are not UTF-8
}

func (j *jsonSamples) begin(ls labels.Labels) error {
	j.any = false
	if !isUTF8(ls) {
		j.replaced++
	}
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
		j.line = append(appendJSONSample(append(j.line, ','), v[i]), ']')
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
	c        *console
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
	if err := r.w.w.Flush(); err != nil {
		return errors.Wrap(err, "write output")
	}
	return r.c.tellReplaced(r.w.replaced)
}

func isUTF8(ls labels.Labels) bool {
	for l := range ls.All() {
		if !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) {
			return false
		}
	}
	return true
}

// tellReplaced says that JSON could not carry the labels of some series.
func (c *console) tellReplaced(series int) error {
	if series == 0 {
		return nil
	}
	c.message("warning: labels of %s are not UTF-8, which JSON cannot carry: U+FFFD stands for what is not; dump --format=prom and query --output=csv have it as it is", count(series)+" series")
	return errProblem
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
