package main

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed347100a3/tsdb/histogram"
)

// histogramDigest is what is worth knowing about the histograms of a series.
type histogramDigest struct {
	name   string
	unit   unit
	n      int
	last   int64           // time of the newest sample
	newest histogramSample // that is no stale marker, if there is any
	any    bool
	ended  bool // the newest sample is a stale marker
}

func (d *histogramDigest) add(s *histogramSample) {
	d.n++
	d.last = s.t
	if d.ended = s.stale(); !d.ended {
		s.copyTo(&d.newest)
		d.any = true
	}
}

// barPlots draws the newest histogram of each series.
type barPlots struct {
	name string
	unit unit
	at   *histogramDigest // of the series that is being read; nil: it has no histogram so far
	list []*histogramDigest
}

// begin begins a series, which may have no histograms.
func (p *barPlots) begin(name string, u unit) { p.name, p.unit, p.at = name, u, nil }

// histogram takes one of the series.
func (p *barPlots) histogram(s *histogramSample) error {
	if p.at == nil {
		p.at = &histogramDigest{name: p.name, unit: p.unit}
		p.list = append(p.list, p.at)
	}
	p.at.add(s)
	return nil
}

// print draws the first ones, with an empty line before each, or only between them.
func (p *barPlots) print(c *console, most int, below bool) {
	for i, d := range p.list[:min(len(p.list), most)] {
		if i > 0 || below {
			c.printf("\n")
		}
		c.printf("%s", c.barPlot(d))
	}
}

const (
	// maxBars is how many lines fit a terminal of 24 with what stands around them: a histogram with
	// more buckets is drawn with wider ones.
	maxBars = 18
	minBar  = 10 // columns that the longest bar has in any case
)

// barPlot draws a histogram: a title, what it counts together, and a bar for each bucket that is
// not empty.
func (c *console) barPlot(d *histogramDigest) string {
	title := c.paint(sgrBold, shorten(d.name, c.width)) + "\n"
	if !d.any {
		return title + "  ended at " + c.time(d.last, time.Now()) + "\n"
	}
	h := &d.newest.fh
	drawn := widened(h)
	return title + "  " + c.barFacts(d, drawn) + "\n" + c.bars(drawn, d.unit)
}

// barFacts is what stands below the title, in lines that fit.
func (c *console) barFacts(d *histogramDigest, drawn *histogram.FloatHistogram) string {
	h := &d.newest.fh
	schema := "schema " + schemaText(h.Schema)
	if drawn.Schema != h.Schema {
		schema += " drawn as " + schemaText(drawn.Schema)
	}
	facts := []string{
		formatNumber(h.Count) + " in all", "sum " + c.histogramValue(d.unit, h.Sum),
		"mean " + c.histogramValue(d.unit, h.Sum/h.Count), schema,
	}
	if d.newest.gauge() {
		facts = append(facts, "gauge")
	}
	facts = append(facts, "at "+c.time(d.newest.t, time.Now()))
	if d.ended {
		facts = append(facts, "then ended")
	}
	if !c.terminal {
		return strings.Join(facts, ", ")
	}
	return strings.Join(joinLines(facts, c.width-2), "\n  ")
}

// histogramValue is a bound or a sum, for people in any case: exact ones have 17 digits.
func (c *console) histogramValue(u unit, v float64) string {
	if c.terminal {
		return u.format(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// schemaText is the number of a schema, or that bounds are listed.
func schemaText(schema int32) string {
	if schema == histogram.CustomBuckets {
		return "custom"
	}
	return strconv.Itoa(int(schema))
}

// widened brings a histogram of too many buckets to a schema of wider ones.
func widened(h *histogram.FloatHistogram) *histogram.FloatHistogram {
	if !histogram.Exponential(h.Schema) || barLines(filledBuckets(h)) <= maxBars {
		return h
	}
	drawn := h.Copy()
	for barLines(filledBuckets(drawn)) > maxBars && drawn.Schema > histogram.MinSchema {
		schema := min(drawn.Schema, histogram.MaxSchema+1) - 1
		if err := drawn.ReduceResolution(schema); err != nil {
			return h
		}
	}
	return drawn
}

// filledBuckets are those of a histogram that are not empty.
func filledBuckets(h *histogram.FloatHistogram) (list []histogram.Bucket) {
	for b := range h.Buckets() {
		list = append(list, b)
	}
	return list
}

// barsThatFit are the bars of a histogram: its buckets, or, where its schema has no wider ones,
// neighbours together.
func barsThatFit(h *histogram.FloatHistogram) []histogram.Bucket {
	bars := filledBuckets(h)
	if !histogram.Exponential(h.Schema) {
		return bars
	}
	for barLines(bars) > maxBars {
		joined := inPairs(bars)
		if len(joined) == len(bars) {
			break
		}
		bars = joined
	}
	return bars
}

// inPairs joins each two bars that stand side by side. Those below zero, around it and above it
// stay apart.
func inPairs(bars []histogram.Bucket) (joined []histogram.Bucket) {
	for i := 0; i < len(bars); i++ {
		b := bars[i]
		if i+1 < len(bars) && sameSide(b, bars[i+1]) {
			i++
			b.Upper, b.UpperInclusive = bars[i].Upper, bars[i].UpperInclusive
			b.Count += bars[i].Count
		}
		joined = append(joined, b)
	}
	return joined
}

func sameSide(a, b histogram.Bucket) bool {
	return a.Upper <= 0 && b.Upper <= 0 || a.Lower >= 0 && b.Lower >= 0
}

// barLines counts the lines of bars, with those that stand for a gap.
func barLines(bars []histogram.Bucket) (n int) {
	before := math.Inf(1)
	for _, b := range bars {
		if n++; b.Lower > before {
			n++
		}
		before = b.Upper
	}
	return n
}

// bars draws a line for each bucket that is not empty, and one with dots where there are others
// between two of them.
func (c *console) bars(h *histogram.FloatHistogram, u unit) string {
	var ranges, counts []string
	var values []float64
	highest, before := 0.0, math.Inf(1)
	for _, b := range barsThatFit(h) {
		if b.Lower > before {
			ranges, counts, values = append(ranges, "⋮"), append(counts, ""), append(values, 0)
		}
		before = b.Upper
		ranges = append(ranges, c.rangeLabel(b, u))
		counts = append(counts, formatNumber(b.Count))
		values = append(values, b.Count)
		highest = max(highest, b.Count)
	}
	if len(values) == 0 {
		return "  no bucket has anything\n"
	}
	left, middle := widest(ranges), widest(counts)
	room := max(c.width-left-middle-2-2-1, minBar) // margin, gap, space
	var out strings.Builder
	for i, v := range values {
		line := "  " + padLeft(ranges[i], left) + "  " + padLeft(counts[i], middle) + " " + bar(v/highest, room)
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}

func (c *console) rangeLabel(b histogram.Bucket, u unit) string {
	return string(appendRange(nil, b, func(dst []byte, v float64) []byte {
		if len(dst) > 1 {
			dst = append(dst, ' ')
		}
		return append(dst, c.histogramValue(u, v)...)
	}))
}

func widest(texts []string) (n int) {
	for _, text := range texts {
		n = max(n, utf8.RuneCountInString(text))
	}
	return n
}

func padLeft(text string, width int) string {
	return strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0)) + text
}

// barParts are the eighths of a column.
var barParts = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// bar is a part of a number of columns. What is not nothing can be seen.
func bar(part float64, columns int) string {
	eighths := int(part * float64(columns) * 8)
	if part > 0 {
		eighths = max(eighths, 1)
	}
	eighths = min(max(eighths, 0), columns*8)
	return strings.Repeat("█", eighths/8) + barParts[eighths%8]
}
