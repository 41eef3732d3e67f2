package main

import (
	"bufio"
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// dumpOpenText writes OpenMetrics: a line a sample, with its time in seconds, and an end mark. A
// NaN is like any other there, and one that ends a series would be read as a value: those are left
// out, and told. A line is ended when the next one begins, or the series ends: until then exemplars
// may follow.
type dumpOpenText struct {
	c      *console
	w      *bufio.Writer
	extras dumpExtras
	name   []byte
	text   []byte
	open   bool // the last line has no end yet

	replaced   int   // series with labels that are not UTF-8
	stale      int64 // markers that were left out
	histograms int64
}

func (d *dumpOpenText) begin(ls labels.Labels) error {
	if !isUTF8(ls) {
		d.replaced++
	}
	d.name = append(appendOpenSeries(d.name[:0], ls), ' ')
	d.text = d.extras.begin(d.text[:0], ls)
	return d.write()
}

func (d *dumpOpenText) batch(b *chunkenc.Batch) error {
	d.text = d.text[:0]
	for i, v := range b.V {
		if tsdb.IsStale(v) {
			d.stale++
			continue
		}
		d.start()
		d.text = appendFloat(d.text, v)
		d.finish(b.T[i], b.StartOf(i))
	}
	return d.write()
}

func (d *dumpOpenText) histogram(s *histogramSample) error {
	if s.stale() {
		d.stale++
		return nil
	}
	d.histograms++
	d.text = d.text[:0]
	d.start()
	d.text = appendHistogram(d.text, s)
	if d.extras.gauges() && !s.gauge() {
		d.text = append(appendMember(d.text[:len(d.text)-1], textGauge), textFalse+"}"...)
	}
	d.finish(s.t, s.st)
	return d.write()
}

func (d *dumpOpenText) write() error {
	_, err := d.w.Write(d.text)
	return errors.Wrap(err, "write output")
}

// start begins a line with the name of its series.
func (d *dumpOpenText) start() {
	d.endLine()
	d.open, d.extras.onLine = true, 0
	d.text = append(d.text, d.name...)
}

func (d *dumpOpenText) endLine() {
	if d.open {
		d.text = append(d.text, '\n')
	}
	d.open = false
}

// finish writes the times of a line's sample, and the exemplars that belong to it.
func (d *dumpOpenText) finish(t, st int64) {
	d.text = appendSeconds(append(d.text, ' '), t)
	if st != 0 {
		d.text = appendSeconds(append(d.text, " "+startMark...), st)
	}
	d.text = d.extras.behind(d.text, t)
}

func (d *dumpOpenText) end() error {
	d.text = d.text[:0]
	if d.open {
		d.text = d.extras.rest(d.text)
	}
	d.extras.homeless += int64(len(d.extras.wait))
	d.endLine()
	return d.write()
}

func (d *dumpOpenText) close(tsdb.Warnings) error {
	if _, err := d.w.WriteString("# EOF\n"); err != nil {
		return errors.Wrap(err, "write output")
	}
	if err := d.w.Flush(); err != nil {
		return errors.Wrap(err, "write output")
	}
	if d.stale > 0 {
		d.c.message("left out %s, which OpenMetrics does not have: they say that a series ended", things(d.stale, "stale marker"))
	}
	if d.histograms > 0 {
		d.c.message("%s written as the draft of OpenMetrics 2.0 has them, which readers of 1.0 refuse", things(d.histograms, "native histogram"))
	}
	d.extras.tell(d.c)
	return d.c.tellReplaced(d.replaced)
}

// appendOpenSeries writes a name with labels. What is no plain name stands in quotes.
func appendOpenSeries(dst []byte, ls labels.Labels) []byte {
	name := ls.Get(labels.MetricName)
	inside := name != "" && !isPlainName(name, true)
	if !inside {
		dst = append(dst, name...)
	}
	if name != "" && !inside && ls.Len() == 1 {
		return dst
	}
	dst = append(dst, '{')
	n := 0
	if inside {
		dst = appendOpenText(dst, name)
		n++
	}
	for l := range ls.All() {
		if l.Name == labels.MetricName {
			continue
		}
		dst = appendOpenLabel(dst, n, l)
		n++
	}
	return append(dst, '}')
}

// appendOpenLabel writes a label that n others stand before.
func appendOpenLabel(dst []byte, n int, l labels.Label) []byte {
	dst = appendComma(dst, n)
	if isPlainName(l.Name, false) {
		dst = append(dst, l.Name...)
	} else {
		dst = appendOpenText(dst, l.Name)
	}
	return appendOpenText(append(dst, '='), l.Value)
}

// isPlainName says whether a name needs no quotes.
func isPlainName(name string, metric bool) bool {
	p := seriesParser{rest: name}
	return name != "" && p.identifier(metric) == name
}

var openEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// appendOpenText writes a text in quotes.
func appendOpenText(dst []byte, text string) []byte {
	text = openEscapes.Replace(strings.ToValidUTF8(text, "\ufffd"))
	return append(append(append(dst, '"'), text...), '"')
}

// appendSeconds writes a time in seconds, with all its milliseconds.
func appendSeconds(dst []byte, t int64) []byte {
	ms := uint64(t)
	if t < 0 {
		dst, ms = append(dst, '-'), -uint64(t)
	}
	dst = append(strconv.AppendUint(dst, ms/1000, 10), '.')
	part := ms % 1000
	return append(dst, byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
}

// exactSeconds reads seconds with at most three decimals, whatever their size; ok is false for any
// other text.
func exactSeconds(b []byte) (t int64, ok bool) {
	digits := b
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	ms, point := uint64(0), -1
	for i, c := range digits {
		switch {
		case c == '.' && point < 0 && i > 0:
			point = i
		case c < '0' || c > '9' || ms > math.MaxInt64/10 || point >= 0 && i-point > 3:
			return 0, false
		default:
			ms = ms*10 + uint64(c-'0')
		}
	}
	decimals := 0
	if point >= 0 {
		decimals = len(digits) - 1 - point
	}
	if len(digits) == 0 {
		return 0, false
	}
	for ; decimals < 3; decimals++ {
		if ms > math.MaxInt64/10 {
			return 0, false
		}
		ms *= 10
	}
	switch {
	case ms > math.MaxInt64:
		return 0, false
	case negative:
		return -int64(ms), true
	default:
		return int64(ms), true
	}
}
