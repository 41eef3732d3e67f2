package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// The rows about queries beside a compaction: some kinds of queries, each asked at a steady
// rate, for a second while nothing else happens, and then as long as DB.Compact flushes and
// merges.
const (
	queriedPoints = 120 // samples of a series in two hours: a compaction takes about a second
	queriedEvery  = 5 * time.Millisecond
	queriedQuiet  = time.Second
	queriedLeast  = 100 // queries beside compactions: of fewer there is no 99th percentile
)

// asked is one kind of query, and what it took. The same query of a range that is over by the
// first compaction has the same answer for ever.
type asked struct {
	row, what string
	query
	want        result // of everything, until more is appended
	over        result // of the range that is over
	quiet, busy []time.Duration
}

// early is the query of the first block's range, which is complete when it is asked.
func (a *asked) early() query {
	q := a.query
	q.mint, q.maxt = blockStart, blockStart+blockRange-1
	return q
}

func (t task) asked() []*asked {
	return []*asked{
		{row: "queries/panel", what: "a panel of some series", query: always(readSamples, fewMatchers...)},
		{row: "queries/one", what: "one series", query: always(readSamples, oneMatcher(t.Series))},
	}
}

// queries measures how long queries of blocks and head take, with a compaction and without.
func queries(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	all := t.asked()
	points := t.Samples / busyRanges
	step := int64(blockRange / points)
	v, vs := newValues(t.Series, seed), make([]float64, t.Series)
	for k := range t.Samples {
		v.scrape(vs)
		if k == 0 {
			err = e.create(t.sets(), blockStart, vs, perCommit)
		} else {
			err = scrape(e.appendBatch, blockStart+int64(k)*step, vs, perCommit)
		}
		if err != nil {
			return nil, err
		}
		if k%points == points/2+1 && k > points { // as in the rows about latency
			if err := t.compareRates(e, all); err != nil {
				return nil, err
			}
		}
	}
	if err := t.wasMerged(); err != nil {
		return nil, err
	}
	m = measures{}
	for _, a := range all {
		a.report(m)
	}
	return m, nil
}

// compareRates asks for a while, and then beside a compaction, which must make a block.
func (t task) compareRates(e engine, all []*asked) (err error) {
	for _, a := range all {
		if a.want, err = e.read(a.query); err != nil {
			return err
		}
		if err := a.same(e); err != nil {
			return err
		}
	}
	before, _, err := t.blocks()
	if err != nil {
		return err
	}
	runtime.GC() // what appending left is not collected on one side's time
	quiet := make(chan struct{})
	time.AfterFunc(queriedQuiet, func() { close(quiet) })
	if err := ask(e, all, overAt(quiet), func(a *asked, took time.Duration) { a.quiet = append(a.quiet, took) }); err != nil {
		return err
	}
	done := make(chan struct{})
	var mergeErr error
	go func() {
		defer close(done)
		mergeErr = e.merge()
	}()
	err = ask(e, all, overAt(done), func(a *asked, took time.Duration) { a.busy = append(a.busy, took) })
	<-done
	if mergeErr != nil {
		return mergeErr
	}
	if err != nil {
		return err
	}
	for _, a := range all {
		if err := a.same(e); err != nil {
			return err
		}
	}
	after, _, err := t.blocks()
	if err == nil && !slices.ContainsFunc(after, func(dir string) bool { return !slices.Contains(before, dir) }) {
		err = errors.New("the compaction made no block")
	}
	return err
}

// same checks that the answer about the range that is over is what it was the first time.
func (a *asked) same(e engine) error {
	got, err := e.read(a.early())
	if err != nil {
		return err
	}
	if a.over.series == 0 {
		a.over = got
	}
	if got != a.over || got.samples == 0 {
		return errors.Errorf("%s: %d samples of %d series are in the first block's range, and were %d of %d", a.row, got.samples, got.series, a.over.samples, a.over.series)
	}
	return nil
}

// wasMerged checks that there is a block that was made of others.
func (t task) wasMerged() error {
	dirs, _, err := t.blocks()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
		if err != nil {
			return errors.Wrap(err, "read meta")
		}
		var meta struct {
			Compaction struct {
				Sources []string `json:"sources"`
			} `json:"compaction"`
		}
		if err := json.Unmarshal(text, &meta); err != nil {
			return errors.Wrap(err, "decode meta")
		}
		if len(meta.Compaction.Sources) > 1 {
			return nil
		}
	}
	return errors.Errorf("no block of %d was merged", len(dirs))
}

// ask asks each query at its rate until something is over. A query is begun when its time has come,
// or at once if the one before took longer, and takes as long as its answer comes after that time:
// one that stands still delays all that were due meanwhile. Those are asked even if all is done,
// but none that was due later: of answers that take longer than the time between two queries there
// would be no end. No answer may differ.
func ask(e engine, all []*asked, over *ending, note func(*asked, time.Duration)) error {
	return parallel(len(all), func(i int) error {
		a := all[i]
		begin := time.Now()
		for n := 0; ; n++ {
			due := begin.Add(time.Duration(n) * queriedEvery)
			if n > 0 && !over.isDue(due) {
				return nil
			}
			got, err := e.read(a.query)
			if err != nil {
				return err
			}
			note(a, time.Since(due))
			if got != a.want {
				return errors.Errorf("%s: the same query gave something else", a.row)
			}
		}
	})
}

// ending is when something was done.
type ending struct {
	known chan struct{} // closed when at is set
	at    time.Time
}

func overAt(done <-chan struct{}) *ending {
	e := &ending{known: make(chan struct{})}
	go func() {
		<-done
		e.at = time.Now()
		close(e.known)
	}()
	return e
}

// isDue waits until a query is due, or until the end comes before that. What was due
// before the end is due.
func (e *ending) isDue(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-e.known:
		return due.Before(e.at)
	default:
	}
	select {
	case <-timer.C:
		return true
	case <-e.known:
		return due.Before(e.at)
	}
}

// report gives the rows of one kind of query: none of those beside compactions if they were
// over too soon.
func (a *asked) report(m measures) {
	slices.Sort(a.quiet)
	slices.Sort(a.busy)
	m[a.row+"/p50"] = part(a.quiet, 50).Seconds()
	m[a.row+"/p99"] = part(a.quiet, 99).Seconds()
	if len(a.busy) >= queriedLeast {
		m[a.row+"/p50busy"] = part(a.busy, 50).Seconds()
		m[a.row+"/p99busy"] = part(a.busy, 99).Seconds()
		m[a.row+"/max"] = part(a.busy, 100).Seconds()
		m[a.row+"/slower"] = m[a.row+"/p99busy"] / m[a.row+"/p99"]
	}
	a.want.note(m, a.row)
	a.over.note(m, a.row+"/over")
}

// part returns the duration that so many percent of sorted ones do not pass.
func part(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

// goalSlower is how much longer the 99th percentile of queries may be beside a compaction.
const goalSlower = 1.5

// queryFigures are the rows about queries beside a compaction.
func (c *comparison) queryFigures() (all []figure) {
	t := c.task("queries")
	for _, a := range t.asked() {
		work := fmt.Sprintf("%s of %s series, everything, every %v, while they are flushed and merged", a.what, count(t.Series), queriedEvery)
		all = append(all, section(work,
			less(a.row+"/p50", "s, median, alone"), less(a.row+"/p50busy", "s, median, beside it"),
			less(a.row+"/p99", "s, 99%, alone"), less(a.row+"/p99busy", "s, 99%, beside it"), less(a.row+"/max", "s, longest, beside it"),
			less(a.row+"/slower", "99%, times alone").within(goalSlower))...)
	}
	return all
}
