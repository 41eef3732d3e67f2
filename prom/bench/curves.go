package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/pkg/errors"
)

// Curve is how one figure depends on the number of series.
type Curve struct {
	Name  string `json:"name"` // for machines and for files
	Title string `json:"title"`
	Unit  string `json:"unit"`
	Grows string `json:"grows,omitempty"` // growsEach, growsFlat or nothing
	// Bound is the most that ours may have where it is flat.
	Bound float64 `json:"bound,omitempty"`
	Lines []Line  `json:"lines"`
}

// Line is the curve of one engine with one number of threads.
type Line struct {
	Engine string  `json:"engine"`
	Procs  int     `json:"procs"` // GOMAXPROCS
	Points []Point `json:"points"`
}

// Point is one measurement.
type Point struct {
	Series int     `json:"series"`
	Value  float64 `json:"value"`
}

// curveSamples is how many samples each series has: as many as a server has of a series
// after some minutes.
const curveSamples = 15

// curveFigures are all curves in their order. Appends and selects are by as many goroutines as
// there are threads; what they waited for locks shows whether more threads would help.
var curveFigures = []Curve{
	{Name: "append", Title: "Appending to series that exist, 1000 samples a commit", Unit: "CPU ns/sample", Grows: growsEach},
	{Name: "append-wait", Title: "Appending: all goroutines waiting for locks", Unit: "ms/1M samples"},
	{Name: "create", Title: "New series, a sample each", Unit: "CPU us/series", Grows: growsEach},
	{Name: "memory", Title: "Live heap after recovery", Unit: "B/series", Grows: growsEach},
	{Name: "recovery", Title: "Recovery from log and chunks", Unit: "us/series", Grows: growsEach},
	{Name: "recovery-cpu", Title: "Processor time of recovery", Unit: "CPU us/series", Grows: growsEach},
	{Name: "select", Title: "Selecting one series", Unit: "CPU us", Grows: growsEach},
	{Name: "selectmany", Title: "Selecting a twentieth by regex, with samples", Unit: "CPU us/series found", Grows: growsEach},
	{Name: "select-wait", Title: "Selecting a twentieth: all goroutines waiting for locks", Unit: "ms/1M samples"},
	{Name: "compaction", Title: "Head to block", Unit: "CPU us/series", Grows: growsEach},
}

// curves measures how cost grows. With an error it returns the curves that are whole.
func (c *comparison) curves(ctx context.Context) (curves []Curve, err error) {
	if len(c.Curve) > 0 {
		if curves, err = c.localCurves(ctx); err != nil {
			return nil, err
		}
	}
	if len(c.Selected) > 0 {
		served, err := c.remoteCurves(ctx)
		return append(curves, served...), err
	}
	return curves, nil
}

// allCurves are the curves of every kind.
func allCurves() []Curve {
	all := slices.Clone(curveFigures)
	for _, figure := range remoteCurveFigures {
		all = append(all, figure.Curve)
	}
	return all
}

// localCurves measures how cost grows, with one thread and with all processors.
func (c *comparison) localCurves(ctx context.Context) ([]Curve, error) {
	var lines []Line
	for _, engine := range files {
		lines = append(lines, Line{Engine: engine, Procs: 1})
		if n := runtime.GOMAXPROCS(0); n > 1 {
			lines = append(lines, Line{Engine: engine, Procs: n})
		}
	}
	return c.inTurns(curveFigures, lines, c.Curve, func(l Line, series int) (measures, error) {
		return c.point(ctx, task{Engine: l.Engine, Procs: l.Procs, Series: series, Samples: curveSamples, Time: c.Time}, "grow", "regrow")
	})
}

// inTurns measures all points of all lines as often as rows are measured, one run after the other,
// and returns curves of the medians. measure returns a figure for each curve by its name.
func (c *comparison) inTurns(figures []Curve, lines []Line, sizes []int, measure func(l Line, series int) (measures, error)) ([]Curve, error) {
	curves := slices.Clone(figures)
	for i := range curves {
		for _, line := range lines {
			line.Points = make([]Point, len(sizes))
			curves[i].Lines = append(curves[i].Lines, line)
		}
	}
	values := map[*Point][]float64{}
	for run := range c.Runs {
		for i := range lines {
			line := (i + run) % len(lines) // another one begins
			for at, series := range sizes {
				m, err := measure(lines[line], series)
				if err != nil {
					return nil, err
				}
				for k := range curves {
					p := &curves[k].Lines[line].Points[at]
					p.Series = series
					values[p] = append(values[p], m[curves[k].Name])
				}
			}
		}
	}
	for p, found := range values {
		p.Value = median(found)
	}
	return curves, nil
}

// point measures one engine with one number of series and threads: a process that makes the
// series and is ended, and another one that takes over.
func (c *comparison) point(ctx context.Context, t task, kinds ...string) (measures, error) {
	t.Dir = filepath.Join(c.dir, "work")
	all := measures{}
	for _, t.Kind = range kinds {
		c.tell(t.Kind + ", " + t.Engine + ", " + count(t.Series) + " series")
		m, err := c.fork(ctx, t)
		if err != nil {
			return nil, err
		}
		for name, value := range m {
			all[name] = value
		}
	}
	return all, errors.Wrap(os.RemoveAll(t.Dir), "remove data")
}

// grow makes series and leaves the directory as it is: the process must end then.
func grow(t task) (measures, error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	table, err := t.table(newValues(t.Series, seed))
	if err != nil {
		return nil, err
	}
	sets := t.sets()
	before := now()
	if err := e.create(sets, blockStart, table[:t.Series], perCommit); err != nil {
		return nil, err
	}
	made := now()
	if err := t.scrapeParallel(e, table, runtime.GOMAXPROCS(0)); err != nil {
		return nil, err
	}
	added := now().since(made)
	samples := float64(len(table) - t.Series)
	return measures{
		"create":      made.since(before).cpu.Seconds() * 1e6 / float64(t.Series),
		"append":      added.cpu.Seconds() * 1e9 / samples,
		"append-wait": added.runtime.blocked * 1e9 / samples,
	}, nil
}

// regrow recovers what grow left, asks it, and makes a block of it.
func regrow(t task) (m measures, err error) {
	idle := heapBytes()
	before := now()
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	recovery := now().since(before)
	defer closing(e, &err)
	m = measures{
		"recovery":     recovery.wall.Seconds() * 1e6 / float64(t.Series),
		"recovery-cpu": recovery.cpu.Seconds() * 1e6 / float64(t.Series),
		"memory":       (heapBytes() - idle) / float64(t.Series),
	}
	if err := t.askAll(e, m); err != nil {
		return nil, err
	}
	before = now()
	err = e.flush()
	m["compaction"] = now().since(before).cpu.Seconds() * 1e6 / float64(t.Series)
	return m, err
}

// askTimes is how often each query is measured: it takes so little that one measurement may be half
// as much again as the next one.
const askTimes = 3

// askAll measures queries by as many goroutines as there are threads.
func (t task) askAll(e engine, m measures) error {
	one, err := t.ask(e, oneMatcher(t.Series))
	if err != nil {
		return err
	}
	m["select"] = one.cpu * 1e6
	many, err := t.ask(e, someMatchers...)
	if err != nil {
		return err
	}
	if many.found.samples != many.found.series*t.Samples {
		return errors.Errorf("%d samples of %d series were found, want %d of each", many.found.samples, many.found.series, t.Samples)
	}
	m["selectmany"] = many.cpu * 1e6 / float64(many.found.series)
	m["select-wait"] = many.waited * 1e9 / float64(many.found.samples)
	return nil
}

// answered is what one query found and took: seconds, medians of askTimes measurements.
type answered struct {
	found       result
	cpu, waited float64
}

func (t task) ask(e engine, ms ...matcher) (answered, error) {
	var all answered
	var cpu, waited []float64
	for range askTimes {
		times, found, cost, err := readParallel(e, always(readSamples, ms...), runtime.GOMAXPROCS(0), t.Time)
		if err != nil {
			return answered{}, err
		}
		all.found = found
		cpu = append(cpu, cost.cpu.Seconds()/float64(times))
		waited = append(waited, cost.runtime.blocked/float64(times))
	}
	all.cpu, all.waited = median(cpu), median(waited)
	return all, nil
}
