package bench

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// usage is what this process has used up to a moment.
type usage struct {
	at         time.Time
	cpu        time.Duration // of all threads, user and system
	allocs     uint64
	allocBytes uint64
}

func now() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: cpuTime(), allocs: m.Mallocs, allocBytes: m.TotalAlloc}
}

// since returns what was used after an earlier moment.
func (u usage) since(before usage) spent {
	return spent{
		wall: u.at.Sub(before.at), cpu: u.cpu - before.cpu,
		allocs: u.allocs - before.allocs, allocBytes: u.allocBytes - before.allocBytes,
	}
}

// spent is what some work cost.
type spent struct {
	wall, cpu          time.Duration
	allocs, allocBytes uint64
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
func peakResident() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err == nil {
				return kib * 1024
			}
		}
	}
	return 0
}
