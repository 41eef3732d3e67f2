package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// Row is one line of the comparison: a figure of which less is better.
type Row struct {
	Name string
	Unit string
	// Child: memory is measured, so each engine gets a process of its own.
	Child bool
	// Goal is the ratio, reference to ours, that this version must reach; 0: none.
	Goal float64
	Run  func(e Engine, dir string, s Sizes) (float64, error)
}

// Sizes of the rows.
type Sizes struct {
	Series  int // of append and replay
	Samples int // of each of them
	Many    int // series of memory and select
}

// Rows returns all of them.
func Rows() []Row {
	return []Row{
		{Name: "append + commit by ref, 1000 a commit", Unit: "CPU ns/sample", Goal: 1.5, Run: runAppend},
		{Name: "garbage, the same work", Unit: "B/sample", Run: runGarbage},
		{Name: "full replay, no snapshot, no chunk files: wall", Unit: "ns/sample", Goal: 2, Run: runReplayWall},
		{Name: "full replay, no snapshot, no chunk files: CPU", Unit: "CPU ns/sample", Run: runReplayCPU},
		{Name: "heap after recovery, 10 labels", Unit: "B/series", Child: true, Goal: 1 / 0.6, Run: runMemory},
		{Name: "select one series of many", Unit: "us", Run: selectRow(SelectOne)},
		{Name: "select by regexp and equality", Unit: "us", Run: selectRow(SelectRegexp)},
		{Name: "select everything", Unit: "us", Run: selectRow(SelectAll)},
		{Name: "decode chunks of 120: our batches, its iterator", Unit: "ns/sample", Goal: 1.6, Run: runDecode},
	}
}

// written writes the workload into dir and returns the open store and what appending
// cost: wall and CPU time without creating the series.
func written(e Engine, dir string, w *Workload) (store Store, cpu time.Duration, garbage float64, err error) {
	store, err = e.Open(dir)
	if err != nil {
		return nil, 0, 0, err
	}
	if err := store.Create(w); err != nil {
		return nil, 0, 0, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	for k := 1; k < w.Samples; k++ {
		if err := store.Scrape(w, k); err != nil {
			return nil, 0, 0, err
		}
	}
	cpu = cpuTime() - start
	runtime.ReadMemStats(&after)
	return store, cpu, float64(after.TotalAlloc - before.TotalAlloc), nil
}

func runAppend(e Engine, dir string, s Sizes) (float64, error) {
	w := NewWorkload(s.Series, s.Samples, 1000)
	store, cpu, _, err := written(e, dir, w)
	if err != nil {
		return 0, err
	}
	return perSample(cpu, w), store.Close()
}

func runGarbage(e Engine, dir string, s Sizes) (float64, error) {
	w := NewWorkload(s.Series, s.Samples, 1000)
	store, _, garbage, err := written(e, dir, w)
	if err != nil {
		return 0, err
	}
	return garbage / float64(w.Total()), store.Close()
}

func perSample(d time.Duration, w *Workload) float64 {
	return float64(d.Nanoseconds()) / float64(w.Total())
}

func runReplayWall(e Engine, dir string, s Sizes) (float64, error) {
	wall, _, err := replay(e, dir, s)
	return wall, err
}

func runReplayCPU(e Engine, dir string, s Sizes) (float64, error) {
	_, cpu, err := replay(e, dir, s)
	return cpu, err
}

// replay writes a directory, takes its chunk files away, so that every sample must
// come from the log, and opens it. It counts only if all samples are there.
func replay(e Engine, dir string, s Sizes) (wall, cpu float64, err error) {
	w := NewWorkload(s.Series, s.Samples, 1000)
	store, _, _, err := written(e, dir, w)
	if err != nil {
		return 0, 0, err
	}
	if err := store.Close(); err != nil {
		return 0, 0, err
	}
	if err := os.RemoveAll(filepath.Join(dir, "chunks_head")); err != nil {
		return 0, 0, errors.Wrap(err, "remove chunk files")
	}
	runtime.GC()
	start, startCPU := time.Now(), cpuTime()
	store, err = e.Open(dir)
	elapsed, elapsedCPU := time.Since(start), cpuTime()-startCPU
	if err != nil {
		return 0, 0, err
	}
	if _, n, err := store.Read(SelectAll); err != nil || n != w.Total() {
		return 0, 0, errors.Errorf("replay gave %d of %d samples: %v", n, w.Total(), err)
	}
	return perSample(elapsed, w), perSample(elapsedCPU, w), store.Close()
}

func runMemory(e Engine, dir string, s Sizes) (float64, error) {
	w := NewWorkload(s.Many, 15, 1000)
	store, _, _, err := written(e, dir, w)
	if err != nil {
		return 0, err
	}
	if err := store.Close(); err != nil {
		return 0, err
	}
	*w, store = Workload{}, nil // what was written is not to be counted
	before := heap()
	store, err = e.Open(dir)
	if err != nil {
		return 0, err
	}
	after := heap()
	return float64(after-before) / float64(s.Many), store.Close()
}

func heap() int64 {
	var m runtime.MemStats
	for range 3 { // pools survive a collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func selectRow(sel Selection) func(Engine, string, Sizes) (float64, error) {
	return func(e Engine, dir string, s Sizes) (float64, error) {
		w := NewWorkload(s.Many, 30, 1000)
		store, _, _, err := written(e, dir, w)
		if err != nil {
			return 0, err
		}
		series, samples, err := store.Read(sel) // warm
		if err != nil || samples != series*w.Samples || series == 0 {
			return 0, errors.Errorf("read %d series with %d samples: %v", series, samples, err)
		}
		rounds := 0
		start := time.Now()
		for ; rounds == 0 || time.Since(start) < 300*time.Millisecond; rounds++ {
			if _, _, err := store.Read(sel); err != nil {
				return 0, err
			}
		}
		return float64(time.Since(start).Nanoseconds()) / float64(rounds) / 1000, store.Close()
	}
}

func runDecode(e Engine, _ string, _ Sizes) (float64, error) {
	const series, perChunk = 400, 120
	w := NewWorkload(series, perChunk, 1000)
	chunks := make([][]byte, series)
	for i := range chunks {
		var enc chunkenc.XOREncoder
		for k := range perChunk {
			if err := enc.Append(int64(k)*Step, w.Row(k)[i]); err != nil {
				return 0, err
			}
		}
		chunks[i] = enc.AppendTo(nil)
	}
	n := 0
	start := cpuTime()
	for cpuTime()-start < 300*time.Millisecond {
		got, err := e.Decode(chunks)
		if err != nil || got != w.Total() {
			return 0, errors.Errorf("decoded %d of %d samples: %v", got, w.Total(), err)
		}
		n += got
	}
	return float64((cpuTime() - start).Nanoseconds()) / float64(n), nil
}
