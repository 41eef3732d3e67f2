package bench

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/remote"
)

// Row is one line of a comparison.
type Row struct {
	Name  string `json:"name"` // for machines: group/figure
	Work  string `json:"work"` // for people; the rows of one piece of work share it
	Unit  string `json:"unit"`
	Worse bool   `json:"less_is_better"`

	Ours      []float64 `json:"ours"` // a figure for each run
	Reference []float64 `json:"reference"`
	// Ratio says how many times better ours is, whether more or less is better: the
	// median of the ratios of runs that stood next to each other. 0: not defined.
	Ratio float64 `json:"ratio"`
	// Goal is the ratio that this version must reach; 0: none.
	Goal float64 `json:"goal,omitempty"`
}

// Report is what Compare found.
type Report struct {
	Date   string `json:"date"`
	System string `json:"system"`
	Runs   int    `json:"runs"`
	Rows   []Row  `json:"rows"`
}

// figure is a row before it was measured. An empty work is that of the figure before.
type figure struct {
	name, work, unit string
	worse            bool
	goal             float64
}

// Goals of this version.
const (
	goalAppend   = 1.5
	goalReplay   = 2
	goalMemory   = 1 / 0.6
	goalDecode   = 1.6
	goalFlush    = 1 / 0.6
	goalMerge    = 1 / 0.6
	goalScan     = 1.5
	goalBatch    = 2
	goalOne      = 1 / 0.7
	goalStreamed = 4
	goalSampled  = 3
	goalSize     = 0.999 // a block of ours has a checksum of its meta file more, some dozen bytes
)

// figures are all rows in their order.
func (c *comparison) figures() []figure {
	sizes := fmt.Sprintf("%s series, %s samples", count(c.Series), count(c.Series*c.Samples))
	all := []figure{
		{"append/cpu", fmt.Sprintf("append by ref and commit, %d a commit, %s", perCommit, sizes), "samples/CPU s", false, 0},
		{"append/wall", "", "samples/s", false, 0},
		{"append/garbage", "", "garbage B/sample", true, 0},
		{"append/allocs", "", "allocs/sample", true, 0},
		{"append/log", "", "log B/sample", true, 0},
		{"appendbatch/cpu", "the same, ours with AppendBatch", "samples/CPU s", false, goalAppend},
		{"appendbatch/wall", "", "samples/s", false, 0},
		{"appendbatch/garbage", "", "garbage B/sample", true, 0},
		{"appendbatch/allocs", "", "allocs/sample", true, 0},
		{"create/cpu", fmt.Sprintf("create %s series", count(c.Many)), "series/CPU s", false, 0},
		{"create/wall", "", "series/s", false, 0},
		{"replay/wall", "recover from the log alone, " + sizes, "s", true, goalReplay},
		{"replay/cpu", "", "CPU s", true, 0},
		{"replay/peak", "", "peak resident B", true, 0},
		{"reopen/wall", "recover from log and head chunks, " + sizes, "s", true, 0},
		{"reopen/cpu", "", "CPU s", true, 0},
		{"reopen/peak", "", "peak resident B", true, 0},
		{"memory/heap", fmt.Sprintf("%s series of ten labels, %d samples each, after recovery", count(c.Many), c.Few), "heap B/series", true, goalMemory},
		{"memory/peak", "", "peak resident B", true, 0},
	}
	for _, s := range selections(c.Many, c.Chunks) {
		all = append(all, c.selectFigures(s, c.Many)...)
	}
	all = append(all, figure{"decode/cpu", "decode chunks of 120 samples, ours in batches", "samples/CPU s", false, goalDecode})
	return append(append(all, c.blockFigures()...), c.remoteFigures()...)
}

// remoteFigures are the rows about remote read.
func (c *comparison) remoteFigures() (all []figure) {
	t := c.task("remote")
	for _, r := range slices.Concat(remoteReads(false), remoteReads(true)) {
		work := fmt.Sprintf("remote read, %s, %s series, %s samples", r.what, count(t.Series), count(t.Series*t.Samples*max(1, r.ranges)))
		cpu, wall := figure{r.row + "/cpu", work, "server CPU s", true, 0}, figure{r.row + "/wall", "", "s", true, 0}
		if r.mode == remote.ModeStreamed {
			cpu.goal = goalStreamed
		} else {
			wall.goal = goalSampled
		}
		all = append(all, cpu, wall, figure{r.row + "/heap", "", "peak heap B", true, 0},
			figure{r.row + "/garbage", "", "garbage B", true, 0}, figure{r.row + "/bytes", "", "answer B", true, 0})
	}
	return all
}

// selectFigures are the rows of one query of so many series.
func (c *comparison) selectFigures(s selection, of int) []figure {
	goals := map[string]float64{"blocks/one": goalOne, "blocks/one-start": goalOne, "blocks/all": goalScan, "blocks/all-batch": goalBatch}
	rows := []figure{{s.row + "/time", c.found(s, of), "s", true, 0}, {s.row + "/cpu", "", "CPU s", true, 0}}
	if s.rate {
		rows = append(rows, figure{s.row + "/rate", "", "samples/CPU s", false, goals[s.row]})
	} else {
		rows[0].goal = goals[s.row]
	}
	return append(rows, figure{s.row + "/garbage", "", "garbage B", true, 0})
}

// blockFigures are the rows about blocks.
func (c *comparison) blockFigures() []figure {
	all := []figure{
		{"flush/cpu", fmt.Sprintf("head to block, %s series, %s samples", count(c.Blocks), count(c.Blocks*c.Points)), "CPU s", true, goalFlush},
		{"flush/wall", "", "s", true, 0},
		{"flush/garbage", "", "garbage B", true, 0},
		{"flush/heap", "", "peak heap B", true, 0},
		{"flush/size", "", "block B/sample", true, goalSize},
	}
	for _, s := range blockSelections(c.Blocks, c.Points) {
		all = append(all, c.selectFigures(s, c.Blocks)...)
	}
	merge := c.task("merge")
	return append(all,
		figure{"index/wall", fmt.Sprintf("open the index of %s series", count(c.Blocks)), "s", true, 0},
		figure{"index/heap", "", "heap B", true, 0},
		figure{"merge/cpu", fmt.Sprintf("merge %d blocks of %s series, %s samples", inputs, count(merge.Series), count(inputs*merge.Series*merge.Samples)), "CPU s", true, goalMerge},
		figure{"merge/wall", "", "s", true, 0},
		figure{"merge/heap", "", "peak heap B", true, goalMerge},
		figure{"merge/allocs", "", "allocs/sample", true, 0},
		figure{"merge/garbage", "", "garbage B", true, 0},
		figure{"merge/size", "", "block B/sample", true, goalSize},
		figure{"merge/rate", "", "written B/s", false, 0},
		figure{"merge/hot", "", "part of hot blocks in page cache", false, 0},
		figure{"merge/cached", "", "result B in page cache", true, 0},
		figure{"backfill/cpu", fmt.Sprintf("backfill %s series, %s samples", count(c.Series), count(c.Series*c.Samples)), "samples/CPU s", false, 0},
		figure{"backfill/wall", "", "samples/s", false, 0},
		figure{"backfill/heap", "", "peak heap B", true, 0},
		figure{"backfill/size", "", "block B/sample", true, 0},
	)
}

// found describes a selection with the number of series that it found.
func (c *comparison) found(s selection, of int) string {
	n := 0.0
	if ns := c.all[s.row+"/series"][Ours]; len(ns) > 0 {
		n = ns[0]
	}
	read := fmt.Sprintf("%d samples of each", s.samples)
	if s.how == readLabels {
		read = "labels only"
	}
	if s.how == readBatches {
		read += ", ours in batches"
	}
	place := "select"
	if strings.HasPrefix(s.row, "blocks/") {
		place = "in a block, select"
	}
	return fmt.Sprintf("%s %s: %s of %s series, %s", place, s.what, count(int(n)), count(of), read)
}

// report makes rows of what was measured.
func (c *comparison) report() (Report, error) {
	rep := Report{
		Date: time.Now().Format(time.DateOnly), Runs: c.Runs,
		System: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version()),
	}
	if err := c.agree(); err != nil {
		return rep, err
	}
	work := ""
	for _, f := range c.figures() {
		if f.work != "" {
			work = f.work
		}
		ours, theirs := c.all[f.name][Ours], c.all[f.name][Reference]
		if len(ours) == 0 {
			continue
		}
		r := Row{Name: f.name, Work: work, Unit: f.unit, Worse: f.worse, Goal: f.goal, Ours: ours, Reference: theirs}
		r.Ratio = ratio(r)
		rep.Rows = append(rep.Rows, r)
	}
	return rep, nil
}

// agree checks that both engines found the same series and values, in every run.
func (c *comparison) agree() error {
	var rows []string
	for _, s := range slices.Concat(selections(c.Many, c.Chunks), blockSelections(c.Blocks, c.Points)) {
		rows = append(rows, s.row)
	}
	for _, r := range slices.Concat(remoteReads(false), remoteReads(true)) {
		rows = append(rows, r.row)
	}
	for _, row := range rows {
		for _, what := range []string{"/series", "/samples", "/check"} {
			values := c.all[row+what]
			all := slices.Concat(values[Ours], values[Reference])
			if len(all) > 0 && slices.Min(all) != slices.Max(all) {
				return errors.Errorf("the engines do not agree: %s%s is %v", row, what, values)
			}
		}
	}
	return nil
}

func ratio(r Row) float64 {
	var ratios []float64
	for i := range r.Ours {
		over, under := r.Ours[i], r.Reference[i]
		if r.Worse {
			over, under = under, over
		}
		if under == 0 {
			return 0
		}
		ratios = append(ratios, over/under)
	}
	return median(ratios)
}

// median returns the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// spread returns how far the outermost values are apart, as a part of the median.
func spread(values []float64) float64 {
	m := median(values)
	if m == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / m
}

// Missed returns the rows that do not reach their goal.
func (r Report) Missed() (names []string) {
	for _, row := range r.Rows {
		if row.Goal > 0 && row.Ratio < row.Goal {
			names = append(names, row.Name)
		}
	}
	return names
}

func (r Report) String() string {
	return fmt.Sprintf("%s, %s; medians of %d runs in turns", r.Date, r.System, r.Runs)
}

// cells are the columns of a row behind its work.
func (r Row) cells() []string {
	times, goal := "-", "-"
	if r.Ratio > 0 {
		times = fmt.Sprintf("%.2f", r.Ratio)
	}
	switch {
	case r.Goal > 0 && r.Ratio >= r.Goal:
		goal = fmt.Sprintf("%.2f, reached", r.Goal)
	case r.Goal > 0:
		goal = fmt.Sprintf("%.2f, MISSED", r.Goal)
	}
	return []string{
		r.Unit, number(median(r.Ours)), number(median(r.Reference)), times, goal,
		strings.Join([]string{percent(spread(r.Ours)), percent(spread(r.Reference))}, ", "),
	}
}
