package bench

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
)

// usage is what this process has used up to a moment.
type usage struct {
	at         time.Time
	cpu        time.Duration // of all threads, user and system
	allocs     uint64
	allocBytes uint64
	collected  uint32 // how many collections of garbage have ended
	runtime    runtimeTime
}

// nowCollected is now just behind a collection of garbage: none of the time since the one
// before belongs to what follows.
func nowCollected() usage {
	runtime.GC()
	return now()
}

func now() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: cpuTime(), allocs: m.Mallocs, allocBytes: m.TotalAlloc, collected: m.NumGC, runtime: readRuntimeTime()}
}

// since returns what was used after an earlier moment.
func (u usage) since(before usage) spent {
	return spent{
		wall: u.at.Sub(before.at), cpu: u.cpu - before.cpu,
		allocs: u.allocs - before.allocs, allocBytes: u.allocBytes - before.allocBytes,
		collections: u.collected - before.collected, runtime: u.runtime.since(before.runtime),
	}
}

// spent is what some work cost.
type spent struct {
	wall, cpu          time.Duration
	allocs, allocBytes uint64
	collections        uint32
	runtime            runtimeTime
}

// noteGC gives the row about the part of the processor time that went to garbage collection.
// The runtime counts what a collection took when it ends, so the work must have begun with
// nowCollected. Work whose garbage did not make one end gets one behind it, counted as a whole,
// which is more than its share.
func (s spent) noteGC(m measures, row string) {
	gc := s.runtime.gc
	if s.collections == 0 {
		before := readRuntimeTime()
		runtime.GC()
		gc = readRuntimeTime().since(before).gc
	}
	m[row] = gc / s.cpu.Seconds()
}

// runtimeTime is what the runtime counts, in seconds.
type runtimeTime struct {
	gc      float64 // of processors that collected garbage, idle ones included
	blocked float64 // of all goroutines that waited for a lock
}

func readRuntimeTime() runtimeTime {
	sample := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/sync/mutex/wait/total:seconds"},
	}
	metrics.Read(sample)
	seconds := func(i int) float64 { return sample[i].Value.Float64() }
	return runtimeTime{gc: seconds(0), blocked: seconds(1)}
}

func (r runtimeTime) since(before runtimeTime) runtimeTime {
	return runtimeTime{r.gc - before.gc, r.blocked - before.blocked}
}

// heapBytes returns the bytes of live objects.
func heapBytes() float64 {
	runtime.GC()
	runtime.GC() // what finalizers of the first one let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// heapWatch looks for the greatest heap while some work is done.
type heapWatch struct {
	done chan struct{}
	peak chan float64
}

// heapEvery is how often a heapWatch looks: often enough to see a heap that grows by a
// few MB between two looks.
const heapEvery = 2 * time.Millisecond

// watchHeap begins with a heap that was just collected: what is on it is not counted.
func watchHeap() heapWatch {
	idle := heapBytes()
	w := heapWatch{make(chan struct{}), make(chan float64)}
	go func() {
		peak := 0.0
		tick := time.NewTicker(heapEvery)
		defer tick.Stop()
		for {
			peak = max(peak, objectBytes()-idle)
			select {
			case <-tick.C:
			case <-w.done:
				w.peak <- peak
				return
			}
		}
	}()
	return w
}

// stop returns the greatest number of bytes on the heap, garbage included, above what
// was there before.
func (w heapWatch) stop() float64 {
	close(w.done)
	return <-w.peak
}

// leastMemory returns the bytes that Go's runtime needs here: all that it has from the system,
// without garbage and free room on the heap.
func leastMemory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys - m.HeapSys + m.HeapAlloc)
}

// objectBytes returns the bytes of objects on the heap, dead ones included, without
// stopping anybody.
func objectBytes() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// peakResident returns the most bytes that this process had in memory, mapped files
// included; 0 where the system does not say. The counter of getrusage is of no use: a
// new process inherits it.
func peakResident() float64 { return processStatus("VmHWM:") }

// residentFiles returns the bytes of mapped files that this process has in memory, the program
// itself among them.
func residentFiles() float64 { return processStatus("RssFile:") }

// processStatus returns a size that Linux knows of this process, in bytes; 0 where it does not say.
func processStatus(name string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	return procField(text, name, 1024)
}

// procField returns the number behind a name at the begin of a line, times a unit.
func procField(text []byte, name string, unit float64) float64 {
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == name {
			if n, err := strconv.ParseFloat(fields[1], 64); err == nil {
				return n * unit
			}
		}
	}
	return 0
}

// processWatch looks how much memory a process has, on Linux.
type processWatch struct {
	done, ended chan struct{}
	once        sync.Once
	// The most bytes with mapped files, and the most that it was seen with without; to be read
	// behind stop. 0: not known.
	peak, own float64
}

// processEvery is how often a processWatch looks.
const processEvery = 10 * time.Millisecond

func watchProcess(pid int) *processWatch {
	w := &processWatch{done: make(chan struct{}), ended: make(chan struct{})}
	name := "/proc/" + strconv.Itoa(pid) + "/status"
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(processEvery)
		defer tick.Stop()
		for {
			if text, err := os.ReadFile(name); err == nil {
				w.peak = max(w.peak, procField(text, "VmHWM:", 1024))
				w.own = max(w.own, procField(text, "RssAnon:", 1024))
			}
			select {
			case <-tick.C:
			case <-w.done:
				return
			}
		}
	}()
	return w
}

// stop ends it; more than once, too.
func (w *processWatch) stop() {
	w.once.Do(func() { close(w.done) })
	<-w.ended
}
