package bench

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// SustainConfig is the workload of a large server: so many series, each sampled again and
// again at its time, for minutes, while the database does by itself what is due, some series
// are replaced by new ones, and once the process is killed and another one goes on.
type SustainConfig struct {
	Series int           `json:"series"` // active at any time
	Rate   int           `json:"rate"`   // samples a second, of all of them
	Time   time.Duration `json:"time"`   // how long, without the first sample of each and without recovery
	// Range is the wall time in which one block range passes. What is below a minute, the
	// least range there is, makes the times of samples run faster than the clock.
	Range time.Duration `json:"range"`
	Kill  float64       `json:"kill"`  // at which part of Time the process is killed; 0: never
	Churn float64       `json:"churn"` // which part of the series is replaced meanwhile, a few at each scrape

	Writers int           `json:"writers"` // how many goroutines append, each to its own part of the series
	Every   time.Duration `json:"every"`   // how often is looked at what is used

	Dir      string            `json:"-"` // for the data, removed at the end; empty: the system's temporary directory
	Profile  string            `json:"-"` // a file for a processor profile of the last process that writes; empty: none
	Progress func(what string) `json:"-"` // is told what happens. Nil: nobody is
}

// DefaultSustainConfig is a server with 1.7 million series, sampled every four and a half
// seconds, in five and a half minutes: eight or nine flushes, two merges.
func DefaultSustainConfig() SustainConfig {
	return SustainConfig{Series: 1_700_000, Rate: 380_000, Time: 400 * time.Second, Range: 36 * time.Second, Kill: 0.5, Churn: 0.05, Writers: 4, Every: time.Second}
}

// leastBlockRange is the shortest range that blocks can have.
const leastBlockRange = time.Minute

// order is what a process of the workload is told.
func (c SustainConfig) order(dir string) sustainOrder {
	return sustainOrder{
		Dir: dir, Series: c.Series, Rate: c.Rate, Time: c.Time, Churn: c.Churn, Writers: c.Writers, Every: c.Every,
		Range: max(c.Range, leastBlockRange), Speed: max(1, float64(leastBlockRange)/float64(c.Range)),
	}
}

func (c SustainConfig) validate() error {
	switch {
	case min(c.Series, c.Rate, c.Writers) < 1 || min(c.Time, c.Range, c.Every) <= 0:
		return errors.New("every number must be at least 1, every duration more than 0")
	case c.Series < c.Writers:
		return errors.Errorf("%d series are too few for %d writers", c.Series, c.Writers)
	case c.Kill < 0 || c.Kill >= 1:
		return errors.Errorf("the process cannot be killed at %v of the time, want 0 to 1", c.Kill)
	case c.Churn < 0 || c.Churn > 1:
		return errors.Errorf("%v of the series cannot be replaced, want 0 to 1", c.Churn)
	}
	return nil
}

// sustained is one run of Sustain.
type sustained struct {
	SustainConfig
	stopwatch
	order sustainOrder
	rep   SustainReport
}

// stopwatch tells what happens, and when.
type stopwatch struct {
	begin    time.Time
	progress func(what string) // nil: nobody is told
}

func (s stopwatch) tell(what string) {
	if s.progress != nil {
		s.progress(time.Since(s.begin).Round(time.Second).String() + " " + what)
	}
}

// Sustain runs the workload and reads back every sample that the database has acknowledged:
// one that is missing, or another one, is an error. It starts this program again for each
// process, so the program must have called RunChild.
func Sustain(ctx context.Context, c SustainConfig) (rep SustainReport, err error) {
	if err := c.validate(); err != nil {
		return rep, err
	}
	dir, remove, err := scratch(c.Dir)
	if err != nil {
		return rep, err
	}
	defer remove(&err)
	s := &sustained{SustainConfig: c, stopwatch: stopwatch{time.Now(), c.Progress}, order: c.order(dir)}
	s.rep = SustainReport{Date: s.begin.Format(time.DateOnly), System: system(), Config: c, Speed: s.order.Speed}
	load := watchLoad()
	if err := s.processes(ctx); err != nil {
		return rep, err
	}
	s.rep.Load = load.others()
	if err := s.check(ctx); err != nil {
		return rep, err
	}
	s.rep.summarize()
	return s.rep, nil
}

// processes runs those that write, one after the other.
func (s *sustained) processes(ctx context.Context) error {
	if s.Kill == 0 {
		return s.process(ctx, s.Time, false)
	}
	first := time.Duration(s.Kill * float64(s.Time))
	if err := s.process(ctx, first, true); err != nil {
		return err
	}
	return s.process(ctx, s.Time-first, false)
}

// check reads everything back, in a process of its own.
func (s *sustained) check(ctx context.Context) error {
	s.tell("read everything back")
	begin := time.Now()
	m, err := task{Kind: "sustaincheck", Engine: Ours, Sustain: &s.order}.runInChild(ctx)
	if err != nil {
		return err
	}
	s.rep.Summary.Checked, s.rep.Summary.SeriesMade = m["samples"], m["series"]
	s.tell("read " + count(int(m["samples"])) + " samples back in " + time.Since(begin).Round(time.Second).String())
	return nil
}

// process runs one that writes and takes down what it tells. It works for some time and ends
// by itself, or is killed then.
func (s *sustained) process(ctx context.Context, work time.Duration, kill bool) (err error) {
	t := task{Kind: "sustain", Engine: Ours, Sustain: &s.order}
	if s.order.Work = work; kill {
		s.order.Work = 2 * s.Time // it does not know
	} else {
		t.Profile = s.Profile
	}
	p, err := t.start(ctx)
	if err != nil {
		return err
	}
	s.tell("process " + strconv.Itoa(p.cmd.Process.Pid) + " begins")
	var killer *time.Timer
	killed := make(chan time.Time, 1)
	readErr := p.each(func(m sustainMessage) {
		s.note(m)
		if kill && m.Event != nil && m.Event.Kind == eventStart {
			killer = time.AfterFunc(work, func() {
				killed <- time.Now()
				_ = p.cmd.Process.Kill() // one that has ended is noticed below
			})
		}
	})
	if readErr != nil {
		_ = p.cmd.Process.Kill() // nobody reads what it says, so it would wait for ever
	}
	end := sustainEnded{toKill: kill, started: killer != nil, early: killer != nil && killer.Stop(), read: readErr}
	end.process = p.wait()
	end.exited = p.cmd.ProcessState.Exited()
	if end.started && !end.early {
		s.event(SustainEvent{Kind: eventKill, At: (<-killed).Sub(s.begin).Seconds()})
	}
	return end.err()
}

// sustainEnded is how a process of the workload came to its end.
type sustainEnded struct {
	toKill  bool  // it was to be killed
	started bool  // it said, if it was to be killed, that it had begun
	early   bool  // it ended before the time to kill it
	exited  bool  // it ended by itself
	read    error // of what it told
	process error // what it ended with; a signal is an error, too
}

// err says what is wrong with that.
func (e sustainEnded) err() error {
	switch {
	case e.read != nil:
		return e.read
	case !e.toKill:
		return e.process
	case e.process != nil && e.exited:
		return errors.WithMessage(e.process, "process ended by itself instead of being killed")
	case !e.started:
		return errors.Errorf("process ended before it said that it had begun: %v", e.process)
	case e.early:
		return errors.Errorf("process ended before it was killed: %v", e.process)
	case e.exited:
		return errors.New("process ended by itself instead of being killed")
	default:
		return nil
	}
}

// note takes down what a process tells.
func (s *sustained) note(m sustainMessage) {
	at := time.Unix(0, m.Unix).Sub(s.begin).Seconds()
	if m.Second != nil {
		m.Second.At = at
		s.rep.Seconds = append(s.rep.Seconds, *m.Second)
	}
	if m.Event != nil {
		m.Event.At = at
		s.event(*m.Event)
	}
}

func (s *sustained) event(e SustainEvent) {
	s.rep.Events = append(s.rep.Events, e)
	s.tell(e.String())
}

// dataDir and ackFile are what the processes of a run share.
func (o *sustainOrder) dataDir() string { return filepath.Join(o.Dir, "data") }

func (o *sustainOrder) ackFile() string { return filepath.Join(o.Dir, "acknowledged") }
