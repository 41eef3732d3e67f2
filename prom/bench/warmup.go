package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// The rows about the first queries after a restart: a panel over the last hour, asked a
// hundred times, and then a scan of everything in it.
const (
	warmSpan    = time.Hour
	warmQueries = 100
	warmScans   = 2
	warmLast    = 10 // queries before the hundredth; its time is the median of theirs
)

// warmRows are the groups.
var warmRows = []string{"warmup", "warmuplog"}

// warmMatchers find about a hundred of ten thousand series.
var warmMatchers = []matcher{{"=", "__name__", "go_threads"}, {"=~", "pod", "service-1.*"}}

// warmup measures queries of a directory that was left by a process that was killed, with
// all that there is, or without snapshots of the head. The page cache is warm.
func warmup(t task, row string, snapshots bool) (m measures, err error) {
	if !snapshots {
		if err := t.remove("head_snapshot.*", "chunk_snapshot.*"); err != nil {
			return nil, err
		}
	}
	maxt := startMillis + int64(t.Samples-1)*stepMillis
	mint := maxt - warmSpan.Milliseconds() + stepMillis
	panel, scan := always(readSamples, warmMatchers...), always(readSamples)
	panel.mint, panel.maxt, scan.mint, scan.maxt = mint, maxt, mint, maxt
	begin := time.Now()
	e, err := openWith(t.Engine, t.Dir, false)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	panels, err := askOften(e, panel, warmQueries)
	if err != nil {
		return nil, err
	}
	scans, err := askOften(e, scan, warmScans)
	if err != nil {
		return nil, err
	}
	late := slices.Sorted(slices.Values(panels.took[len(panels.took)-warmLast:]))
	m = measures{
		row + "/ready":     panels.first.Sub(begin).Seconds(),
		row + "/first":     panels.took[0].Seconds(),
		row + "/second":    panels.took[1].Seconds(),
		row + "/hundredth": part(late, 50).Seconds(),
		row + "/scan":      scans.took[0].Seconds(),
		row + "/again":     scans.took[1].Seconds(),
	}
	panels.found.note(m, row)
	scans.found.note(m, row+"/scan")
	return m, t.warm(scans.found)
}

// warm checks that a scan found everything.
func (t task) warm(found result) error {
	if each := min(t.Samples, int(warmSpan.Milliseconds()/stepMillis)); found.series != t.Series || found.samples != t.Series*each {
		return errors.Errorf("%d series with %d samples were found, want %d with %d each", found.series, found.samples, t.Series, each)
	}
	return nil
}

// timings are those of the same query, one after the other.
type timings struct {
	first time.Time // when the first one was answered
	took  []time.Duration
	found result
}

// askOften asks a query some times.
func askOften(e engine, q query, times int) (ts timings, err error) {
	for n := range times {
		start := time.Now()
		got, err := e.read(q)
		if err != nil {
			return ts, err
		}
		ts.took = append(ts.took, time.Since(start))
		if n == 0 {
			ts.first, ts.found = time.Now(), got
		}
		if got != ts.found || got.series == 0 {
			return ts, errors.Errorf("%d series were found, and %d before", got.series, ts.found.series)
		}
	}
	return ts, nil
}

// warmFigures are the rows about first queries.
func (c *comparison) warmFigures() (all []figure) {
	t := c.task("warmup")
	for i, row := range warmRows {
		what := []string{"defaults", "without snapshots of the head"}[i]
		found := 0.0
		if ns := c.all[row+"/series"][Ours]; len(ns) > 0 {
			found = ns[0]
		}
		all = append(all, section(fmt.Sprintf("queries of the last hour after a kill, %s, %s: a panel of %s, then all", sizes(t.Series, t.Samples), what, count(int(found))),
			less(row+"/ready", "s, open and first panel").than(1), less(row+"/first", "s, first panel"), less(row+"/second", "s, second panel"),
			less(row+"/hundredth", "s, hundredth panel"), less(row+"/scan", "s, first scan"), less(row+"/again", "s, second scan"))...)
	}
	return all
}
