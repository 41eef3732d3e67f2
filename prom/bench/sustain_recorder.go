package bench

import (
	"os"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// What a process is doing.
const (
	phaseOpen   = "open"   // it recovers what is there
	phaseFill   = "fill"   // it makes the series
	phaseRun    = "run"    // it appends at the given rate
	phaseSettle = "settle" // it flushes and merges what is due
	phaseClose  = "close"  // it closes the database
)

// SustainSecond is what happened in a second, or whatever SustainConfig.Every is, up to At.
// What is not a gauge is for each second.
type SustainSecond struct {
	At    float64 `json:"at"`    // seconds since the run began
	Took  float64 `json:"took"`  // how long it was
	Phase string  `json:"phase"` // of the process, at the end

	CPU         float64 `json:"cpu"`     // seconds of processor time
	GC          float64 `json:"gc"`      // of them, for garbage collection; what it takes when nobody else wants it, too
	GCIdle      float64 `json:"gc_idle"` // of those, what nobody else wanted
	Heap        float64 `json:"heap"`    // bytes of objects, dead ones included
	Resident    float64 `json:"resident"`
	PeakSoFar   float64 `json:"peak"` // the most bytes that this process was resident with
	Read        float64 `json:"read"` // bytes, by system calls
	Written     float64 `json:"written"`
	DiskRead    float64 `json:"disk_read"` // bytes, from and to the disk
	DiskWritten float64 `json:"disk_written"`

	Samples float64 `json:"samples"`
	Backlog float64 `json:"backlog"` // seconds that the latest commit was, or is, behind its time
	P50     float64 `json:"p50"`     // seconds that a commit took, staging included
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

// counts are what a process has used so far.
type counts struct {
	at                                   time.Time
	cpu, gc, gcIdle                      float64
	read, written, diskRead, diskWritten float64
}

// recorder tells what a process uses, until it is stopped.
type recorder struct {
	out   *teller
	quit  chan struct{}
	ended chan error

	mu struct {
		sync.Mutex
		last    counts
		phase   string
		writers []*sustainWriter
	}
}

func startRecorder(out *teller, every time.Duration) *recorder {
	r := &recorder{out: out, quit: make(chan struct{}), ended: make(chan error, 1)}
	r.mu.phase, r.mu.last = phaseOpen, countNow()
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-r.quit:
				r.ended <- nil
				return
			}
			if err := r.look(); err != nil {
				r.ended <- err
				return
			}
		}
	}()
	return r
}

// enter says what the process does from here on.
func (r *recorder) enter(phase string, writers []*sustainWriter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.lookLocked()
	r.mu.phase, r.mu.writers = phase, writers
	return err
}

// step is one phase that is an event when it ends.
func (r *recorder) step(phase, event string, do func() error) error {
	if err := r.enter(phase, nil); err != nil {
		return err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return err
	}
	return r.out.event(event, time.Since(begin))
}

// stop ends it. What is left of the last second is not told.
func (r *recorder) stop() error {
	close(r.quit)
	return <-r.ended
}

// look tells what happened since the last look.
func (r *recorder) look() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lookLocked()
}

func (r *recorder) lookLocked() error {
	last, writers := r.mu.last, r.mu.writers
	now := countNow()
	var done taken
	for _, w := range writers {
		w.take(&done, now.at)
	}
	dt := now.at.Sub(last.at).Seconds()
	s := SustainSecond{
		Took: dt, Phase: r.mu.phase, CPU: (now.cpu - last.cpu) / dt, GC: (now.gc - last.gc) / dt, GCIdle: (now.gcIdle - last.gcIdle) / dt,
		Heap: objectBytes(), Resident: processStatus("VmRSS:"), PeakSoFar: peakResident(),
		Read: (now.read - last.read) / dt, Written: (now.written - last.written) / dt,
		DiskRead: (now.diskRead - last.diskRead) / dt, DiskWritten: (now.diskWritten - last.diskWritten) / dt,
		Samples: float64(done.samples) / dt, Backlog: done.backlog.Seconds(),
	}
	if n := len(done.took); n > 0 {
		slices.Sort(done.took)
		s.P50, s.P99, s.Max = done.took[n/2].Seconds(), done.took[n*99/100].Seconds(), done.took[n-1].Seconds()
	}
	r.mu.last = now
	return r.out.tell(sustainMessage{Second: &s})
}

// gcTimes are the metrics of the collector's processor time: all, and what nobody else wanted.
var gcTimes = []string{"/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/gc/mark/idle:cpu-seconds"}

// countNow returns what this process has used so far. Bytes are 0 where the system does
// not say.
func countNow() counts {
	gc := []metrics.Sample{{Name: gcTimes[0]}, {Name: gcTimes[1]}}
	metrics.Read(gc)
	c := counts{at: time.Now(), cpu: cpuTime().Seconds(), gc: gc[0].Value.Float64(), gcIdle: gc[1].Value.Float64()}
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return c
	}
	c.read, c.written = procField(text, "rchar:", 1), procField(text, "wchar:", 1)
	c.diskRead, c.diskWritten = procField(text, "read_bytes:", 1), procField(text, "write_bytes:", 1)
	return c
}
