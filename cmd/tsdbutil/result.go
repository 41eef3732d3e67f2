package main

import (
	"bufio"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// resultWriter shows the result of a query: for each series begin, its samples, end; close at last.
type resultWriter interface {
	begin(ls labels.Labels) error
	sampleWriter
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

// jsonSamples writes {"labels":{...},"samples":[[t,v],...]} piece by piece. A sample with a start
// timestamp has it in the third place; one that is a histogram is an object.
type jsonSamples struct {
	w     *bufio.Writer
	line  []byte
	any   bool // a sample was written
	parts []bucket

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

func (j *jsonSamples) batch(b *chunkenc.Batch) error {
	j.line = j.line[:0]
	for i, v := range b.V {
		j.start(b.T[i])
		j.line = appendJSONSample(j.line, v)
		j.finish(b.StartOf(i))
	}
	_, err := j.w.Write(j.line)
	return errors.Wrap(err, "write output")
}

func (j *jsonSamples) histogram(s *histogramSample) error {
	j.line = j.line[:0]
	j.start(s.t)
	j.parts = s.buckets(j.parts[:0])
	j.line = appendJSONHistogram(j.line, s, j.parts)
	j.finish(s.st)
	_, err := j.w.Write(j.line)
	return errors.Wrap(err, "write output")
}

// start begins a sample.
func (j *jsonSamples) start(t int64) {
	if j.any {
		j.line = append(j.line, ',')
	}
	j.any = true
	j.line = append(strconv.AppendInt(append(j.line, '['), t, 10), ',')
}

// finish ends a sample.
func (j *jsonSamples) finish(st int64) {
	if st != 0 {
		j.line = strconv.AppendInt(append(j.line, ','), st, 10)
	}
	j.line = append(j.line, ']')
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

func (r *jsonResult) batch(b *chunkenc.Batch) error      { return r.w.batch(b) }
func (r *jsonResult) histogram(s *histogramSample) error { return r.w.histogram(s) }

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

// tellReplaced says that a format could not carry the labels of some series.
func (c *console) tellReplaced(series int) error {
	if series == 0 {
		return nil
	}
	c.message("warning: labels of %s are not UTF-8, which this format cannot carry: U+FFFD stands for what is not; dump --format=prom and query --output=csv have it as it is", count(series)+" series")
	return errProblem
}

// plotResult draws the first series of a result: floats as lines over time, and of histograms the
// newest one as bars.
type plotResult struct {
	c          *console
	title      string
	mint, maxt int64
	unit       unit // of the last series that has floats
	lines      []line
	more       int // series that are not drawn
	skip       bool
	at         line // the series that is being read
	bars       barPlots
}

// plotHeight is for a terminal of 24 lines with a legend.
const plotHeight = 12

func (r *plotResult) begin(ls labels.Labels) error {
	if r.skip = len(r.lines)+len(r.bars.list) >= plotMaxLines; r.skip {
		r.more++
		return nil
	}
	u := unitOf(ls.Get(labels.MetricName))
	r.at = line{name: seriesName(ls), unit: u}
	r.bars.begin(r.at.name, u)
	return nil
}

func (r *plotResult) batch(b *chunkenc.Batch) error {
	if !r.skip {
		r.at.t, r.at.v = append(r.at.t, b.T...), append(r.at.v, b.V...)
	}
	return nil
}

func (r *plotResult) histogram(s *histogramSample) error {
	if r.skip {
		return nil
	}
	return r.bars.histogram(s)
}

func (r *plotResult) end() error {
	if len(r.at.t) > 0 && !r.skip {
		r.unit = r.at.unit
		r.lines = append(r.lines, r.at)
	}
	return nil
}

func (r *plotResult) close(tsdb.Warnings) error {
	r.drawLines()
	r.bars.print(r.c, plotMaxLines, len(r.lines) > 0)
	if r.more > 0 {
		r.c.message("%s more series are not drawn", count(r.more))
	}
	return nil
}

func (r *plotResult) drawLines() {
	if len(r.lines) == 0 {
		return
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
}
