package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// PromQLCase is one expression over samples in one place.
type PromQLCase struct {
	Place      string `json:"place"`
	Expression string `json:"expression"`
	Steps      int    `json:"steps"`

	Ours      PromQLCost `json:"ours"`       // medians
	Reference PromQLCost `json:"reference"`  // medians
	Runs      int        `json:"runs"`       // of each
	Queries   int        `json:"queries"`    // in a run
	TimeRatio float64    `json:"time_ratio"` // median of pairs: ours by the reference's
	HeapRatio float64    `json:"heap_ratio"` // of the medians of bytes

	ours, theirs []PromQLCost
}

// PromQLCost is what one query took.
type PromQLCost struct {
	Seconds float64 `json:"seconds"`
	Bytes   float64 `json:"bytes"` // allocated
	Allocs  float64 `json:"allocs"`
}

// note takes down a pair of runs.
func (c *PromQLCase) note(ours, theirs spent) {
	cost := func(s spent) PromQLCost {
		n := float64(c.Queries)
		return PromQLCost{s.wall.Seconds() / n, float64(s.allocBytes) / n, float64(s.allocs) / n}
	}
	c.ours, c.theirs = append(c.ours, cost(ours)), append(c.theirs, cost(theirs))
}

// finish makes medians of all pairs.
func (c *PromQLCase) finish() {
	middle := func(all []PromQLCost, of func(PromQLCost) float64) float64 {
		var values []float64
		for _, one := range all {
			values = append(values, of(one))
		}
		return median(values)
	}
	costs := func(all []PromQLCost) PromQLCost {
		return PromQLCost{
			middle(all, func(c PromQLCost) float64 { return c.Seconds }),
			middle(all, func(c PromQLCost) float64 { return c.Bytes }),
			middle(all, func(c PromQLCost) float64 { return c.Allocs }),
		}
	}
	c.Ours, c.Reference, c.Runs = costs(c.ours), costs(c.theirs), len(c.ours)
	var pairs []float64
	for i := range c.ours {
		pairs = append(pairs, c.ours[i].Seconds/c.theirs[i].Seconds)
	}
	c.TimeRatio, c.HeapRatio = median(pairs), c.Ours.Bytes/c.Reference.Bytes
}

// PromQLReport is what PromQL found.
type PromQLReport struct {
	Date   string       `json:"date"`
	System string       `json:"system"`
	Load   float64      `json:"load_of_others"` // part of the processor time; negative: unknown
	Config PromQLConfig `json:"config"`
	Cases  []PromQLCase `json:"cases"`
}

// Goals of queries, as parts of what the reference takes.
const (
	goalPromQLMean  = 0.85 // geometric mean of times
	goalPromQLWorst = 1.05 // time of any case
	goalPromQLHeap  = 1.00 // bytes of any case
)

func (r PromQLReport) String() string {
	text := fmt.Sprintf("%s, %s; %d samples of each series, ten seconds apart, metrics of %d series; medians of %d pairs at least.",
		r.Date, r.System, r.Config.Samples, r.Config.Series, r.Config.Pairs)
	if r.Load >= 0 {
		text += fmt.Sprintf(" Others took %.0f%% of the machine's processor time.", 100*r.Load)
	}
	return text
}

// summary says which goals are reached.
func (r PromQLReport) summary() string {
	if len(r.Cases) == 0 {
		return "Nothing was measured."
	}
	times := overGoal(r.Cases, goalPromQLWorst, func(c PromQLCase) float64 { return c.TimeRatio })
	heap := overGoal(r.Cases, goalPromQLHeap, func(c PromQLCase) float64 { return c.HeapRatio })
	return fmt.Sprintf("%d cases. Time (goal of the mean: at most %.2f): %s. Allocated bytes: %s.", len(r.Cases), goalPromQLMean, times, heap)
}

// worstNamed is how many of the cases over a goal are named.
const worstNamed = 3

// overGoal says what the geometric mean of ratios is, how many are over a goal, and which are
// worst.
func overGoal(cases []PromQLCase, goal float64, ratio func(PromQLCase) float64) string {
	logs := 0.0
	var over []PromQLCase
	for _, c := range cases {
		logs += math.Log(ratio(c))
		if ratio(c) > goal+0.005 { // which is written as more
			over = append(over, c)
		}
	}
	text := fmt.Sprintf("geometric mean %.2f of the reference's, %d over %.2f", math.Exp(logs/float64(len(cases))), len(over), goal)
	slices.SortStableFunc(over, func(a, b PromQLCase) int { return cmp.Compare(ratio(b), ratio(a)) })
	for i, c := range over[:min(len(over), worstNamed)] {
		text += []string{", above all ", ", ", ", "}[i] + fmt.Sprintf("`%s` (%s, %d steps: %.2f)", c.Expression, c.Place, c.Steps, ratio(c))
	}
	return text
}

// lines are the cells of the table, a line for each expression; the first one has the names of
// columns.
func (r PromQLReport) lines() [][]string {
	var columns [][2]string // place and steps
	var lines [][]string
	head, at := []string{"expression"}, map[string]int{}
	for _, c := range r.Cases {
		column := [2]string{c.Place, fmt.Sprint(c.Steps)}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
			head = append(head, fmt.Sprintf("%s, %d: ms", c.Place, c.Steps), "time", "bytes")
		}
	}
	lines = append(lines, head)
	for _, c := range r.Cases {
		if _, ok := at[c.Expression]; !ok {
			at[c.Expression] = len(lines)
			lines = append(lines, slices.Concat([]string{"`" + strings.ReplaceAll(c.Expression, "|", "\\|") + "`"}, make([]string, len(head)-1)))
		}
		to := 1 + 3*slices.Index(columns, [2]string{c.Place, fmt.Sprint(c.Steps)})
		copy(lines[at[c.Expression]][to:], []string{fmt.Sprintf("%.3g", 1e3*c.Ours.Seconds), fmt.Sprintf("%.2f", c.TimeRatio), fmt.Sprintf("%.2f", c.HeapRatio)})
	}
	return lines
}

// Write writes the report as a "table" for a terminal, as "markdown" or as "json".
func (r PromQLReport) Write(w io.Writer, format string) error {
	lines := r.lines()
	return writeReport(w, format, r, func(b *bytes.Buffer) {
		align(lines)
		fmt.Fprintf(b, "%s\n%s\n\n", wrap(r.String(), terminalWidth), wrap(r.summary(), terminalWidth))
		for _, l := range lines {
			fmt.Fprintf(b, "  %s\n", strings.TrimRight(strings.Join(l, "  "), " "))
		}
	}, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s\n\n%s\n\n| %s |\n| --- |%s\n", r, r.summary(), strings.Join(lines[0], " | "), strings.Repeat(" ---: |", len(lines[0])-1))
		for _, l := range lines[1:] {
			fmt.Fprintf(b, "| %s |\n", strings.Join(l, " | "))
		}
	})
}

// Marks of the part of a page that WriteDocs of a PromQLReport makes.
const (
	promQLBegin = "<!-- make bench-promql writes from here -->"
	promQLEnd   = "<!-- until here -->"
)

// WriteDocs writes a report into a directory with a page bench.md: its part between two marks, and
// bench/promql.json.
func (r PromQLReport) WriteDocs(dir string) error {
	return writePart(dir, promQLBegin, promQLEnd, "promql", r)
}
