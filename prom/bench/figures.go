package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed347100a3/tsdb/remote"
)

// figure is a row before it was measured. An empty work is that of the figure before.
type figure struct {
	name, work, unit string
	worse            bool // less is better
	goal             Goal
}

func more(name, unit string) figure { return figure{name: name, unit: unit} }

func less(name, unit string) figure { return figure{name: name, unit: unit, worse: true} }

// than asks for so many times better than the reference.
func (f figure) than(times float64) figure {
	f.goal.Reference = times
	return f
}

// thanVictoria asks for so many times better than VictoriaMetrics.
func (f figure) thanVictoria(times float64) figure {
	f.goal.Victoria = times
	return f
}

// within asks for a figure of ours, whatever others have.
func (f figure) within(bound float64) figure {
	f.goal.Bound = bound
	return f
}

// section gives the first of some figures the work of all.
func section(work string, fs ...figure) []figure {
	fs[0].work = work
	return fs
}

// Goals of this version that have a name: those of several rows, and those that need a word.
const (
	goalAppend    = 2.5
	goalPeak      = 2     // less memory than the reference while recovering
	goalGrown     = 1.1   // of the memory of the process that wrote the log
	goalNoGarbage = 0.001 // allocations for each sample: fewer than one a commit
	goalSize      = 0.999 // a block of ours has a checksum of its meta file more, some dozen bytes
	goalCollect   = 0.03  // of the processor time goes to garbage collection
	goalProgram   = 5e6   // bytes; internal/lint has a test of it
	streamedBytes = 8 << 20
	sampledBytes  = 64 << 20
)

// figures are all rows in their order.
func (c *comparison) figures() []figure {
	return slices.Concat(c.writeFigures(), c.queryFigures(), c.recoverFigures(), c.headFigures(), c.blockFigures(), c.remoteFigures(), c.lateFigures(), c.valueFigures(), c.histogramFigures(), c.extremeFigures(), c.manyFigures(),
		section("a program that appends a sample and reads it, stripped", less("program/size", "B").within(goalProgram), less("program/modules", "modules").within(7)))
}

func sizes(series, samples int) string {
	return fmt.Sprintf("%s series, %s samples", count(series), count(series*samples))
}

// writeFigures are the rows about appending.
func (c *comparison) writeFigures() []figure {
	busy := c.task("latency")
	logs := []figure{}
	for i, n := range loggedCommits {
		logs = append(logs, less("log/"+strconv.Itoa(n), fmt.Sprintf("B/sample, %d a commit", n)).than([]float64{1 / 1.5, 1 / 1.15, 1 / 1.05}[i]))
	}
	synced := []figure{}
	for _, n := range syncWriters {
		synced = append(synced, more("sync/"+strconv.Itoa(n), fmt.Sprintf("commits/s, %d writers", n)))
	}
	return slices.Concat(
		section(fmt.Sprintf("append by ref and commit, %d a commit, %s", perCommit, sizes(c.Series, c.Samples)),
			more("append/cpu", "samples/CPU s").than(goalAppend), more("append/wall", "samples/s"),
			less("append/garbage", "garbage B/sample").within(1), less("append/allocs", "allocs/sample").within(goalNoGarbage),
			less("append/gc", "of CPU collects").within(goalCollect)),
		section("the same, ours with AppendBatch",
			more("appendbatch/cpu", "samples/CPU s").than(goalAppend), more("appendbatch/wall", "samples/s"),
			less("appendbatch/garbage", "garbage B/sample").within(1), less("appendbatch/allocs", "allocs/sample").within(goalNoGarbage),
			less("appendbatch/gc", "of CPU collects").within(goalCollect)),
		section(fmt.Sprintf("create %s series and fill them with %d samples each", count(c.New), c.Few),
			more("create/cpu", "samples/CPU s").than(2), more("create/wall", "samples/s"), more("create/first", "new series/CPU s"),
			less("create/garbage", "garbage B/sample"), less("create/peak", "peak resident B")),
		section(fmt.Sprintf("%s series, a tenth of them replaced every hour, four hours, flushes included", count(c.Series)),
			more("churn/cpu", "samples/CPU s"), more("churn/wall", "samples/s"), less("churn/heap", "heap B/series"), less("churn/peak", "peak resident B")),
		section("size of the log", logs...),
		section(fmt.Sprintf("commits of %d samples, synced before they return", syncedSamples), append(synced,
			more("sync/8x", "8 writers, times 1").within(5), more("sync/64x", "64 writers, times 1").within(20))...),
		section(fmt.Sprintf("commits of %d samples while %s series are flushed and merged, %s offered a second", perCommit, count(busy.Series), count(busyRate)),
			less("latency/p50", "s, median"), less("latency/p999", "s, 99.9%").than(4), less("latency/max", "s, longest").than(1/0.35),
			less("latency/gc", "of CPU collects").within(goalCollect)),
	)
}

// recoverFigures are the rows about opening.
func (c *comparison) recoverFigures() []figure {
	what := sizes(c.Series, c.Logged)
	return slices.Concat(
		section("recover from the log alone, "+what,
			less("replay/wall", "s").than(3), less("replay/cpu", "CPU s").than(4),
			less("replay/peak", "peak resident B").than(goalPeak), less("replay/own", "of that without files"),
			less("replay/grown", "of the writer's peak").within(goalGrown)),
		section("reopen after a kill, defaults, "+what,
			less("reopen/wall", "s").than(10), less("reopen/cpu", "CPU s"),
			less("reopen/peak", "peak resident B").than(goalPeak), less("reopen/own", "of that without files"),
			less("reopen/grown", "of the writer's peak").within(goalGrown)),
		section("recover from the log alone with GOMEMLIMIT at the writer's peak without files, "+what,
			less("limited/wall", "s"), less("limited/cpu", "CPU s"),
			less("limited/peak", "peak resident B").than(goalPeak), less("limited/own", "of that without files"),
			less("limited/grown", "of the writer's peak").within(goalGrown)),
		c.warmFigures(),
		section(fmt.Sprintf("%s series of ten labels, %d samples each, after recovery", count(c.Many), c.Few),
			less("memory/heap", "heap B/series").than(1/0.45), less("memory/peak", "peak resident B")),
	)
}

// headFigures are the rows about reading what is in memory.
func (c *comparison) headFigures() (all []figure) {
	all = c.firstFigures()
	for _, s := range selections(c.Many, c.Chunks) {
		all = append(all, c.selectFigures(s, c.Many)...)
	}
	for _, s := range matcherMix(c.Many) {
		all = append(all, section(c.found(s, c.Many), less(s.row+"/time", "s"), less(s.row+"/cpu", "CPU s"))...)
	}
	return append(all, section("decode chunks of 120 samples, ours in batches", more("decode/cpu", "samples/CPU s"))...)
}

// selectFigures are the rows of one query of so many series.
func (c *comparison) selectFigures(s selection, of int) []figure {
	time, cpu, garbage, rate := less(s.row+"/time", "s"), less(s.row+"/cpu", "CPU s"), less(s.row+"/garbage", "garbage B"), more(s.row+"/rate", "samples/CPU s")
	if s.each {
		time.unit, cpu.unit, garbage.unit = "s/series", "CPU s/series", "garbage B/series"
		cpu, garbage = cpu.than(1), garbage.than(1)
	}
	switch s.row {
	case "select/prefix":
		time = time.than(3)
	case "select/labels-passing":
		cpu, garbage = cpu.than(1.25), garbage.than(5)
	case "blocks/labels-passing":
		cpu, garbage = cpu.than(3), garbage.than(5)
	case "blocks/one":
		time = time.than(1 / 0.55)
	case "blocks/regex":
		cpu = cpu.than(2)
	case "blocks/all":
		rate = rate.than(2)
	case "blocks/all-batch":
		rate = rate.than(3).thanVictoria(1.2)
	}
	rows := section(c.found(s, of), time, cpu)
	if s.rate {
		rows = append(rows, rate)
	}
	return append(rows, garbage)
}

// found describes a selection with the number of series that it found.
func (c *comparison) found(s selection, of int) string {
	n := 0.0
	if ns := c.all[s.row+"/series"][Ours]; len(ns) > 0 {
		n = ns[0]
	}
	read := fmt.Sprintf("%d samples of each", s.samples)
	switch s.how {
	case readLabels:
		read = "labels only"
	case readPassing:
		read = "labels only, ours by AppendLabels of series that are not kept"
	case readBatches:
		read += ", ours in batches, of series that are not kept"
	}
	place := "in the head, select"
	if strings.HasPrefix(s.row, "blocks/") {
		place = "in a block, select"
	}
	return fmt.Sprintf("%s %s: %s of %s series, %s", place, s.what, count(int(n)), count(of), read)
}

// blockFigures are the rows about blocks.
func (c *comparison) blockFigures() []figure {
	all := section("head to block, "+sizes(c.Blocks, c.Points),
		less("flush/cpu", "CPU s").than(2), less("flush/wall", "s"), less("flush/garbage", "garbage B"),
		less("flush/heap", "peak heap B"), less("flush/size", "block B/sample").than(goalSize))
	for _, s := range blockSelections(c.Blocks, c.Points) {
		all = append(all, c.selectFigures(s, c.Blocks)...)
	}
	all = append(all, section("the same data on disk", less("blocks/disk", "B/sample"))...)
	all = append(all, c.aggregateFigures()...)
	merge := c.task("merge")
	return slices.Concat(all,
		section(fmt.Sprintf("open the index of %s series", count(c.Blocks)), less("index/wall", "s").than(1), less("index/heap", "heap B").than(1)),
		section(fmt.Sprintf("merge %d blocks, %s", inputs, sizes(merge.Series, inputs*merge.Samples)),
			less("merge/cpu", "CPU s").than(2), less("merge/wall", "s"), less("merge/heap", "peak heap B").than(2), less("merge/allocs", "allocs/sample").than(2),
			less("merge/garbage", "garbage B"), less("merge/size", "block B/sample").than(goalSize), more("merge/rate", "written B/s"),
			more("merge/hot", "of hot B in page cache").within(0.95), more("merge/cached", "of the result in page cache")),
		section("backfill, "+sizes(c.Series, c.Samples),
			more("backfill/cpu", "samples/CPU s"), more("backfill/wall", "samples/s"), less("backfill/heap", "peak heap B"), less("backfill/size", "block B/sample")),
	)
}

// remoteFigures are the rows about remote read.
func (c *comparison) remoteFigures() (all []figure) {
	t := c.task("remote")
	for _, r := range slices.Concat(remoteReads(false), remoteReads(true)) {
		cpu, wall, heap := less(r.row+"/cpu", "server CPU s"), less(r.row+"/wall", "s"), less(r.row+"/heap", "peak heap B")
		if r.mode == remote.ModeStreamed {
			cpu, heap = cpu.than(4), heap.within(streamedBytes)
		} else {
			wall, heap = wall.than(3), heap.within(sampledBytes)
		}
		all = append(all, section(fmt.Sprintf("remote read, %s, %s", r.what, sizes(t.Series, t.Samples*max(1, r.ranges))),
			cpu, wall, heap, less(r.row+"/garbage", "garbage B"), less(r.row+"/bytes", "answer B"))...)
	}
	t = c.task("write")
	for _, v := range writeVersions {
		all = append(all, section(fmt.Sprintf("%s, %d samples a request, %s", v.title, perCommit, sizes(t.Series, min(t.Samples, writeScrapes))),
			more(v.row+"/cpu", "samples/CPU s").than(2.5), more(v.row+"/wall", "samples/s"),
			less(v.row+"/garbage", "garbage B/sample").than(4), less(v.row+"/allocs", "allocs/sample"))...)
	}
	t = c.task("send")
	for i := range sentVersions {
		row := fmt.Sprintf("send/v%d", i+1)
		all = append(all, section(fmt.Sprintf("sending remote write %d.0, %d samples a request, %s", i+1, sendSamples, sizes(t.Series, min(t.Samples, writeScrapes))),
			more(row+"/cpu", "samples/CPU s").than(2), more(row+"/wall", "samples/s"), less(row+"/garbage", "garbage B/sample"))...)
	}
	return all
}

// valueFigures are the rows about real label sets and about each kind of values.
func (c *comparison) valueFigures() (all []figure) {
	t := c.task("values")
	for kind := range valueKinds {
		row := "values/" + valueRows[kind]
		all = append(all, section(fmt.Sprintf("%s, %s", kind, sizes(t.Series, t.Samples)),
			more(row+"/append", "samples/CPU s"), more(row+"/flush", "flushed samples/CPU s"), less(row+"/size", "block B/sample"))...)
	}
	t = c.task("real")
	return append(all, section(fmt.Sprintf("label sets of a real server, values of all kinds, %s", sizes(t.Series, t.Samples)),
		more("real/create", "new series/CPU s"), more("real/append", "samples/CPU s"), less("real/heap", "heap B/series"),
		more("real/flush", "flushed samples/CPU s"), less("real/size", "block B/sample"))...)
}
