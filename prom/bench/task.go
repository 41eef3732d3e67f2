package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/pkg/errors"
)

// task is one piece of work for one engine. It travels to a child process as JSON.
type task struct {
	Kind    string
	Engine  string
	Dir     string
	Series  int
	Samples int // of each series
	Time    time.Duration
	URL     string // of the server that a client asks,
	Mode    int    // in which mode,
	Mint    int64  // and the closed range that it asks for
	Maxt    int64
	Times   int     // how often it asks, at least once
	Procs   int     // how many threads may work; 0: as many as there are processors
	Peak    float64 // the most memory that the process had which filled the directory,
	Own     float64 // and what of it was no file
	Whole   bool    // only the log is to be read
	Limit   float64 // bytes that Go's runtime may have; 0: any number
	Garbage int     // how many hundredths of what lives may be garbage before it is collected; 0: as usual
	Profile string  // a file for a profile of the processor; empty: none

	Sustain *sustainOrder `json:",omitempty"` // what processes of Sustain and Recover are told
}

// values of rows, by the name of the row.
type measures map[string]float64

// kinds of work, each of which gives the values of some rows.
var kinds = map[string]func(task) (measures, error){
	"fill":        fill,
	"killed":      fillAndLeave,
	"append":      func(t task) (measures, error) { return appendHot(t, "append", engine.append) },
	"appendbatch": func(t task) (measures, error) { return appendHot(t, "appendbatch", engine.appendBatch) },
	"create":      create,
	"churn":       churn,
	"log":         logSizes,
	"sync":        syncs,
	"latency":     latency,
	"queries":     queries,
	"filllate":    fillLate,
	"late":        lateRows,
	"values":      allValues,
	"real":        realLabels,
	"extremes":    pathological,
	"giant":       giant,
	"program":     program,
	"many":        manyDatabases,
	"grow":        grow,
	"regrow":      regrow,
	"replay":      func(t task) (measures, error) { return reopen(t, "replay", true) },
	"reopen":      func(t task) (measures, error) { return reopen(t, "reopen", false) },
	"limited":     limited,
	"warmup":      func(t task) (measures, error) { return warmup(t, "warmup", true) },
	"warmuplog":   func(t task) (measures, error) { return warmup(t, "warmuplog", false) },
	"memory":      memory,
	"select":      headSelects,
	"matchers":    func(t task) (measures, error) { return selects(t, matcherMix(t.Series)) },
	"decode":      decode,
	"flush":       flush,
	"fillblocks":  fillBlocks,
	"blocks":      readBlocks,
	"agg":         aggregate,
	"index":       openIndex,
	"fillmerge":   fillMerge,
	"merge":       mergeBlocks,
	"backfill":    backfill,
	"fillremote":  fillRemote,
	"remote":      serveBlocks,
	"remotehead":  serveHead,
	"write":       write,
	"send":        send,
	"read":        readRemote,
	"discard":     discardRemote,

	"histograms5":   func(t task) (measures, error) { return histograms(t, 5) },
	"histograms20":  func(t task) (measures, error) { return histograms(t, 20) },
	"histograms160": func(t task) (measures, error) { return histograms(t, 160) },

	"sustain":      sustain,
	"sustaincheck": sustainCheck,

	"recoverwrite": recoverWrite,
	"recoveropen":  recoverOpen,
	"recovercheck": recoverCheck,
}

func (t task) run() (measures, error) {
	work, ok := kinds[t.Kind]
	if !ok {
		return nil, errors.Errorf("no task %q", t.Kind)
	}
	if t.Garbage > 0 {
		defer debug.SetGCPercent(debug.SetGCPercent(t.Garbage))
	}
	m, err := work(t)
	return m, errors.WithMessagef(err, "%s with %s", t.Kind, t.Engine)
}

// closing closes a database at the end of a task.
func closing(e engine, err *error) {
	if closeErr := e.close(); *err == nil {
		*err = closeErr
	}
}

const (
	perCommit = 1000
	seed      = 1
	// warmScrapes come before the clock starts: as many as fill the first chunks, so
	// that the rate is that of a process that has been running.
	warmScrapes = 130
)

// sets returns the labels of all series.
func (t task) sets() [][]string {
	sets := make([][]string, t.Series)
	for i := range sets {
		sets[i] = pairs(i)
	}
	return sets
}

// feed brings a database to some samples for each series. It is not measured, and
// may be cheaper than what is.
func (t task) feed(e engine, v *values, samples int) error {
	vs := make([]float64, t.Series)
	v.scrape(vs)
	if err := e.create(t.sets(), startMillis, vs, perCommit); err != nil {
		return err
	}
	for k := 1; k < samples; k++ {
		v.scrape(vs)
		if err := scrape(e.appendBatch, startMillis+int64(k)*stepMillis, vs, perCommit); err != nil {
			return err
		}
	}
	return nil
}

// fill writes a directory and closes it.
func fill(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	if err := t.feed(e, newValues(t.Series, seed), t.Samples); err != nil {
		return nil, err
	}
	return nil, nil
}

// settler is an engine that has no log.
type settler interface {
	// settle brings to disk what the end of the process would take away.
	settle() error
}

// fillAndLeave writes a directory and leaves it as it is, with an engine that does by
// itself what it does by default. The process that calls this must end then.
func fillAndLeave(t task) (measures, error) {
	e, err := openWith(t.Engine, t.Dir, false)
	if err != nil {
		return nil, err
	}
	if err := t.feed(e, newValues(t.Series, seed), t.Samples); err != nil {
		return nil, err
	}
	if s, ok := e.(settler); ok {
		if err := s.settle(); err != nil {
			return nil, err
		}
	}
	peak := peakResident()
	return measures{"peak": peak, "own": max(0, peak-residentFiles())}, nil
}

// appendHot measures appends by ref to series that exist and have chunks.
func appendHot(t task, row string, add func(e engine, from, to int, t int64, vs []float64) error) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	v := newValues(t.Series, seed)
	if err := t.feed(e, v, warmScrapes); err != nil {
		return nil, err
	}
	table, err := t.table(v)
	if err != nil {
		return nil, err
	}
	one := func(from, to int, t int64, vs []float64) error { return add(e, from, to, t, vs) }
	before := nowCollected()
	for k := range t.Samples {
		at := startMillis + int64(warmScrapes+k)*stepMillis
		if err := scrape(one, at, table[k*t.Series:(k+1)*t.Series], perCommit); err != nil {
			return nil, err
		}
	}
	cost := now().since(before)
	samples := float64(len(table))
	m = measures{
		row + "/cpu":     samples / cost.cpu.Seconds(),
		row + "/wall":    samples / cost.wall.Seconds(),
		row + "/garbage": float64(cost.allocBytes) / samples,
		row + "/allocs":  float64(cost.allocs) / samples,
	}
	cost.noteGC(m, row+"/gc")
	return m, nil
}

// table makes the values of all scrapes beforehand.
func (t task) table(v *values) ([]float64, error) {
	table, err := offHeap(t.Series * t.Samples)
	if err != nil {
		return nil, err
	}
	for k := range t.Samples {
		v.scrape(table[k*t.Series : (k+1)*t.Series])
	}
	return table, nil
}

// create measures series that are new: the first sample by labels, then the others by ref.
// The figures are those of the first one alone, and of all.
func create(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	sets, v := t.sets(), newValues(t.Series, seed)
	table, err := t.table(v)
	if err != nil {
		return nil, err
	}
	before := now()
	if err := e.create(sets, startMillis, table[:t.Series], perCommit); err != nil {
		return nil, err
	}
	first := now().since(before)
	for k := 1; k < t.Samples; k++ {
		if err := scrape(e.append, startMillis+int64(k)*stepMillis, table[k*t.Series:(k+1)*t.Series], perCommit); err != nil {
			return nil, err
		}
	}
	all := now().since(before)
	return measures{
		"create/first":   float64(t.Series) / first.cpu.Seconds(),
		"create/cpu":     float64(len(table)) / all.cpu.Seconds(),
		"create/wall":    float64(len(table)) / all.wall.Seconds(),
		"create/garbage": float64(all.allocBytes) / float64(len(table)),
		"create/peak":    peakResident(),
	}, nil
}

// reopen measures recovery of a directory that was left by a process that was killed: of
// the whole log, if what could spare that is taken away, else with what there is.
func reopen(t task, row string, whole bool) (m measures, err error) {
	if whole {
		if err := t.onlyLog(); err != nil {
			return nil, err
		}
	}
	before := now()
	e, err := openWith(t.Engine, t.Dir, false)
	if err != nil {
		return nil, err
	}
	cost, peak, files := now().since(before), peakResident(), residentFiles()
	defer closing(e, &err)
	if err := t.complete(e, whole); err != nil {
		return nil, err
	}
	m = measures{
		row + "/wall": cost.wall.Seconds(),
		row + "/cpu":  cost.cpu.Seconds(),
		row + "/peak": peak,
		row + "/own":  max(0, peak-files),
	}
	if t.Peak > 0 {
		m[row+"/grown"] = peak / t.Peak
	}
	return m, nil
}

// limited is recovery from the log alone when Go's runtime may have as much memory as the process
// that wrote the directory ever had of its own, without mapped files, and collects garbage as often
// as that needs.
func limited(t task) (measures, error) {
	if t.Own <= 0 {
		return nil, errors.New("the memory of the process that wrote the directory is not known")
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(t.Own)))
	return reopen(t, "limited", true)
}

// onlyLog removes chunks and snapshots of the head.
func (t task) onlyLog() error {
	return t.remove("chunks_head", "head_snapshot.*", "chunk_snapshot.*")
}

// remove takes away what some patterns match.
func (t task) remove(patterns ...string) error {
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(t.Dir, pattern))
		if err != nil {
			return errors.Wrap(err, "list directory")
		}
		for _, name := range names {
			if err := os.RemoveAll(name); err != nil {
				return errors.Wrap(err, "remove data")
			}
		}
	}
	return nil
}

// complete checks that recovery did the work: every series is there, and every sample came
// from the log if all of it had to be read. Where the engine does not count, or had other
// sources, every hundredth series is read.
func (t task) complete(e engine, whole bool) error {
	got, want := e.recovered(), int64(t.Series)*int64(t.Samples)
	if got.series >= 0 && got.series != int64(t.Series) {
		return errors.Errorf("%d of %d series were recovered", got.series, t.Series)
	}
	if whole && got.logged >= 0 {
		if got.logged != want {
			return errors.Errorf("%d samples were recovered from the log, want %d", got.logged, want)
		}
		return nil
	}
	for i := 0; i < t.Series; i += max(1, t.Series/100) {
		res, err := e.read(always(readSamples, matcher{"=", "shard", pairs(i)[shardName+1]}))
		if err != nil {
			return err
		}
		if res.series != 1 || res.samples != t.Samples {
			return errors.Errorf("%d series with %d samples were recovered of series %d, want 1 with %d", res.series, res.samples, i, t.Samples)
		}
	}
	return nil
}

// memory measures what a recovered head holds on the heap.
func memory(t task) (m measures, err error) {
	before := heapBytes()
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	after, peak := heapBytes(), peakResident()
	if err := t.complete(e, false); err != nil {
		return nil, err
	}
	return measures{
		"memory/heap": (after - before) / float64(t.Series),
		"memory/peak": peak,
	}, nil
}

// sizeOf adds up the files below a directory.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, errors.Wrap(err, "size of directory")
}
