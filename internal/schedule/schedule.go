// Package schedule runs what databases do from time to time. However many there are, one goroutine
// and one ticker look after all that is done as often; work that is due has a goroutine of its own,
// which is gone when nothing is left to do. So a database that rests costs a look, and no
// goroutine. It knows when, and nothing of what is done.
package schedule

import (
	"sync"
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
)

// Scheduler has the tickers of those who share it. It has no goroutine but between the first Every
// and the last Stop. It is safe for concurrent use.
type Scheduler struct {
	clock clock.Clock
	// inStep: jobs that a tick began end before the next one is received. So a test that moves a
	// clock.Stepped knows when they are done. By other clocks a slow one makes no other late.
	inStep bool

	mu struct {
		sync.Mutex
		beats []*beat // few
	}
}

// New returns a Scheduler that goes by a clock.
//
//go:noinline
func New(c clock.Clock) *Scheduler {
	_, inStep := c.(clock.Stepped)
	return &Scheduler{clock: c, inStep: inStep}
}

// System is shared by all databases of the process that go by the system's clock and have no
// Scheduler of a group.
var System = New(clock.System)

// For returns System for its clock, and else a new Scheduler: nothing is known of other clocks.
func For(c clock.Clock) *Scheduler {
	if c == clock.System {
		return System
	}
	return New(c)
}

// beat is one ticker.
type beat struct {
	every   time.Duration
	ticker  clock.Ticker
	members []*Member // guarded by Scheduler.mu
	now     []*Member // of the tick that is looked at
	stop    chan struct{}
	ended   chan struct{}
}

// Member is what is looked after at each tick.
type Member struct {
	s    *Scheduler
	beat *beat
	look func()
	jobs []*Job
	at   int // in beat.members; -1: it is stopped
}

// Every has look called at each tick, once every d, until Stop. Many wait for it, so it must be
// quick, wait for no lock that is held for long, and leave work to jobs, which are those that it
// may begin. Where it is nil each tick begins all jobs.
func (s *Scheduler) Every(d time.Duration, look func(), jobs ...*Job) *Member {
	m := &Member{s: s, look: look, jobs: jobs}
	if look == nil {
		m.look = m.beginAll
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.beatLocked(d)
	m.beat, m.at = b, len(b.members)
	b.members = append(b.members, m)
	return m
}

func (s *Scheduler) beatLocked(every time.Duration) *beat {
	for _, b := range s.mu.beats {
		if b.every == every {
			return b
		}
	}
	b := &beat{every: every, ticker: s.clock.NewTicker(every), stop: make(chan struct{}), ended: make(chan struct{})}
	s.mu.beats = append(s.mu.beats, b)
	go s.run(b)
	return b
}

func (m *Member) beginAll() {
	for _, j := range m.jobs {
		j.Begin()
	}
}

// Stop ends it and its jobs: it waits for those that run, and none runs any more. A look that is
// under way may end later. No job may call it.
func (m *Member) Stop() {
	for _, j := range m.jobs {
		j.stop()
	}
	if b := m.s.leave(m); b != nil {
		<-b.ended
	}
}

// leave takes a member away, and returns its beat if that was the last.
func (s *Scheduler) leave(m *Member) (last *beat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.at < 0 {
		return nil
	}
	b := m.beat
	n := len(b.members) - 1
	b.members[m.at] = b.members[n]
	b.members[m.at].at = m.at
	b.members[n] = nil
	b.members, m.at = b.members[:n], -1
	if n > 0 {
		return nil
	}
	for i := range s.mu.beats {
		if last := len(s.mu.beats) - 1; s.mu.beats[i] == b {
			s.mu.beats[i], s.mu.beats[last] = s.mu.beats[last], nil
			s.mu.beats = s.mu.beats[:last]
			break
		}
	}
	close(b.stop)
	return b
}

// run looks after the members of a beat.
func (s *Scheduler) run(b *beat) {
	defer close(b.ended)
	defer b.ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-b.ticker.C():
		}
		s.mu.Lock()
		b.now = append(b.now[:0], b.members...)
		s.mu.Unlock()
		for _, m := range b.now {
			m.look()
		}
		for _, m := range b.now {
			for _, j := range m.jobs {
				if s.inStep {
					j.wait()
				}
			}
		}
		clear(b.now) // keeps nobody alive
	}
}

// Job is work that one goroutine at a time does. The zero value is none; make one with NewJob.
type Job struct {
	step func()

	mu struct {
		sync.Mutex
		idle                    sync.Cond // signalled when it does not run any more
		running, again, stopped bool
	}
}

// NewJob returns a Job that calls step each time it is begun.
func NewJob(step func()) *Job {
	j := &Job{step: step}
	j.mu.idle.L = &j.mu.Mutex
	return j
}

// Begin has step called, and does not wait for it: at once in a goroutine, or once more when a call
// ends that is under way. It reports whether it was the former. A Job that is stopped does nothing.
func (j *Job) Begin() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.mu.stopped:
		return false
	case j.mu.running:
		j.mu.again = true
		return false
	}
	j.mu.running = true
	go j.run()
	return true
}

// Idle reports whether Begin would begin at once.
func (j *Job) Idle() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.mu.running && !j.mu.stopped
}

func (j *Job) run() {
	for more := true; more; {
		j.step()
		j.mu.Lock()
		more = j.mu.again && !j.mu.stopped
		j.mu.again, j.mu.running = false, more
		if !more {
			j.mu.idle.Broadcast()
		}
		j.mu.Unlock()
	}
}

// wait returns when it does not run.
func (j *Job) wait() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.mu.running {
		j.mu.idle.Wait()
	}
}

// stop is wait behind which it never runs again.
func (j *Job) stop() {
	j.mu.Lock()
	j.mu.stopped = true
	j.mu.Unlock()
	j.wait()
}
