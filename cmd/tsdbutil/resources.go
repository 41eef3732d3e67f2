package main

import (
	"os"
	"runtime"

	"github.com/shirou/gopsutil/v4/process"
)

// resources is what this process has used so far. What the system does not tell is 0.
type resources struct {
	cpu      float64 // seconds, of all CPUs
	allocs   uint64
	allocB   uint64 // bytes allocated
	heap     uint64 // bytes of live and dead objects
	gcs      uint32
	resident uint64 // bytes
	peak     uint64 // most resident bytes, where the system keeps count
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
	if m, err := p.MemoryInfo(); err == nil {
		r.resident, r.peak = m.RSS, m.HWM
	}
	return r
}

// liveHeap returns the bytes of live objects.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
