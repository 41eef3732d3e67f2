package bench

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// The rows about data as it should not be: there must be no cliff.
const (
	wideLabels = 64   // of a series
	longBytes  = 4096 // of a value
)

// extreme is one kind of such data.
type extreme struct {
	row, what string
	factor    float64 // of the number of series of a task
	set       func(i int) []string
	find      func(series int) matcher // for the last one
}

var extremes = []extreme{
	{"extremes/short", "series of one sample each", 10, pairs, func(n int) matcher { return matcher{"=", "shard", strconv.Itoa(n - 1)} }},
	{"extremes/values", "values under one name, one found by its end", 100, pairs, func(n int) matcher { return matcher{"=~", "shard", ".*" + strconv.Itoa(n-1)} }},
	{"extremes/wide", "series of " + strconv.Itoa(wideLabels) + " labels", 1, wideSet, func(n int) matcher { return matcher{"=", "l63", "v63-" + strconv.Itoa(n-1)} }},
	{"extremes/long", "series with a value of 4 KiB", 0.5, longSet, func(n int) matcher { return matcher{"=", "long", longValue(n - 1)} }},
}

// of is how many series there are.
func (x extreme) of(series int) int { return int(x.factor * float64(series)) }

// wideSet has a name and 63 labels; every fourth one has a value that no other series has.
func wideSet(i int) []string {
	set := []string{"__name__", "wide_total"}
	for k := 1; k < wideLabels; k++ {
		value := "v" + strconv.Itoa(k)
		if k%4 == 3 {
			value += "-" + strconv.Itoa(i)
		}
		set = append(set, "l"+strconv.Itoa(100 + k)[1:], value)
	}
	return set
}

func longSet(i int) []string { return []string{"__name__", "long_total", "long", longValue(i)} }

func longValue(i int) string {
	number := strconv.Itoa(i) + "-"
	return number + strings.Repeat("x", longBytes-len(number))
}

// pathological measures all extremes, one after the other.
func pathological(t task) (measures, error) {
	all := measures{}
	for _, x := range extremes {
		of := t
		of.Dir, of.Series = filepath.Join(t.Dir, filepath.Base(x.row)), x.of(t.Series)
		if err := of.extreme(x, all); err != nil {
			return nil, errors.WithMessage(err, x.row)
		}
	}
	t.Dir = filepath.Join(t.Dir, "one")
	return all, errors.WithMessage(t.oneSeries("extremes/one", all), "extremes/one")
}

// giant measures a series that is ten times as long. The reference would take hours: to find a full
// chunk of the head it walks a list of all.
func giant(t task) (measures, error) {
	m := measures{}
	return m, t.oneSeries("giant", m)
}

// extreme makes series with a sample each, looks for some, and opens the directory again.
func (t task) extreme(x extreme, m measures) (err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return err
	}
	sets, vs := make([][]string, t.Series), make([]float64, t.Series)
	for i := range sets {
		sets[i] = x.set(i)
	}
	idle := heapBytes()
	before := now()
	err = e.create(sets, startMillis, vs, perCommit)
	m[x.row+"/create"] = float64(t.Series) / now().since(before).cpu.Seconds()
	m[x.row+"/heap"] = (heapBytes() - idle) / float64(t.Series)
	runtime.KeepAlive(sets) // or they would be taken off
	if err == nil {
		err = selection{row: x.row + "/find", query: always(readSamples, x.find(t.Series)), series: 1, samples: 1}.measure(e, t, m)
	}
	closing(e, &err)
	if err != nil {
		return err
	}
	before = now()
	if e, err = open(t.Engine, t.Dir); err != nil {
		return err
	}
	m[x.row+"/reopen"] = now().since(before).cpu.Seconds() * 1e6 / float64(t.Series)
	closing(e, &err)
	return err
}

// history appends the samples of the only series from the second one on.
func history(e engine, vs []float64) error {
	for from := 1; from < len(vs); from += perCommit {
		to := min(from+perCommit, len(vs))
		if err := e.history(startMillis+int64(from)*stepMillis, stepMillis, vs[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// oneSeries measures a series that has as many samples as others have together.
func (t task) oneSeries(row string, m measures) (err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return err
	}
	samples := t.Series * t.Samples
	t.Series, t.Samples = 1, samples
	table, err := t.table(newValues(1, seed))
	if err == nil {
		err = e.create([][]string{pairs(0)}, startMillis, table[:1], 1)
	}
	before := now()
	if err == nil {
		err = history(e, table)
	}
	m[row+"/append"] = float64(samples) / now().since(before).cpu.Seconds()
	if err == nil {
		s := selection{row: row, query: always(readSamples, matcher{"=", "shard", "0"}), series: 1, samples: samples, rate: true}
		err = s.measure(e, t, m)
	}
	closing(e, &err)
	if err != nil {
		return err
	}
	before = now()
	if e, err = open(t.Engine, t.Dir); err != nil {
		return err
	}
	m[row+"/reopen"] = now().since(before).cpu.Seconds() * 1e9 / float64(samples)
	closing(e, &err)
	return err
}

// extremeFigures are the rows about data as it should not be.
func (c *comparison) extremeFigures() (all []figure) {
	t := c.task("extremes")
	for _, x := range extremes {
		all = append(all, section(fmt.Sprintf("%s %s", count(x.of(t.Series)), x.what),
			more(x.row+"/create", "new series/CPU s"), less(x.row+"/heap", "heap B/series"),
			less(x.row+"/find/time", "s to find one"), less(x.row+"/reopen", "CPU us/series to reopen"))...)
	}
	return append(append(all, oneFigures("extremes/one", t)...), oneFigures("giant", c.task("giant"))...)
}

// oneFigures are the rows about a single series.
func oneFigures(row string, t task) []figure {
	return section(fmt.Sprintf("one series of %s samples", count(t.Series*t.Samples)),
		more(row+"/append", "samples/CPU s"), more(row+"/rate", "samples read/CPU s"), less(row+"/reopen", "CPU ns/sample to reopen"))
}
