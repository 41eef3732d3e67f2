package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/process"
)

// resources is what this process has used so far. What the system does not tell is 0.
type resources struct {
	cpu    float64 // seconds, of all CPUs
	allocs uint64
	allocB uint64 // bytes allocated
	heap   uint64 // bytes of live and dead objects
	gcs    uint32
	peak   uint64 // most resident bytes, where the system keeps count
}

// takeResources stops the world for a moment.
func takeResources() resources {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := resources{allocs: m.Mallocs, allocB: m.TotalAlloc, heap: m.HeapAlloc, gcs: m.NumGC}
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return r
	}
	if t, err := p.Times(); err == nil {
		r.cpu = t.User + t.System
	}
	r.peak = peakResident()
	return r
}

// peakResident reads what Linux counts; the library has no call for it. 0 elsewhere.
func peakResident() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	rest, _, _ = strings.Cut(rest, "kB")
	kib, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// liveHeap returns the bytes of live objects.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
