package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// The rows about many databases in one process: what each of them costs while it rests.

const (
	manySeries  = 100 // of each database
	manySamples = 10  // of each series
	// manyMore is how many times more databases of ours there are in rows of their own.
	manyMore = 5
)

// databases is how many there are, 200 of the usual size; they have a hundred series each.
func (c *Config) databases() (series, samples int) { return max(2, c.Series/50), manySamples }

// manyDatabases opens databases one after the other, fills them, lets them rest, and closes them.
func manyDatabases(t task) (measures, error) {
	m := measures{}
	if err := t.manyOf(t.Series, "many", m); err != nil || t.Engine != Ours {
		return m, err
	}
	return m, t.manyOf(manyMore*t.Series, "many/more", m)
}

func (t task) manyOf(n int, row string, m measures) (err error) {
	dir := filepath.Join(t.Dir, strconv.Itoa(n))
	before, residentBefore := heapBytes(), residentBytes()
	goroutines, files := runtime.NumGoroutine(), descriptors()
	dbs := make([]engine, 0, n)
	defer func() {
		for _, db := range dbs {
			closing(db, &err)
		}
	}()
	sets := task{Series: manySeries}.sets()
	took := make([]time.Duration, n)
	for i := range n {
		begun := time.Now()
		db, err := openWith(t.Engine, filepath.Join(dir, strconv.Itoa(i)), false)
		if err != nil {
			return err
		}
		took[i] = time.Since(begun)
		if o, ok := db.(*ours); ok {
			o.batch = nil // of who reads; the other engine has none
		}
		dbs = append(dbs, db)
		vs := make([]float64, manySeries)
		if err := db.create(sets, startMillis, vs, perCommit); err != nil {
			return err
		}
		for k := 1; k < t.Samples; k++ {
			if err := db.append(0, manySeries, startMillis+int64(k)*stepMillis, vs); err != nil {
				return err
			}
		}
	}
	slices.Sort(took)
	each := func(what string, value float64) { m[row+"/"+what] = value / float64(n) }
	each("heap", heapBytes()-before)
	debug.FreeOSMemory()
	each("resident", residentBytes()-residentBefore)
	each("goroutines", float64(runtime.NumGoroutine()-goroutines))
	each("files", descriptors()-files)
	m[row+"/open"] = took[n/2].Seconds()
	time.Sleep(20 * t.Time) // what was begun ends
	rest := 200 * t.Time
	cpu := cpuTime()
	time.Sleep(rest)
	each("idle", (cpuTime()-cpu).Seconds()/rest.Seconds())
	begun := time.Now()
	err = closeAll(dbs)
	dbs = nil
	m[row+"/close"] = time.Since(begun).Seconds()
	return err
}

// closeAll closes databases at the same time.
func closeAll(dbs []engine) error {
	errs := make([]error, len(dbs))
	var wg sync.WaitGroup
	for i, db := range dbs {
		wg.Go(func() { errs[i] = db.close() })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return errors.WithMessage(err, "close one of many")
		}
	}
	return nil
}

// descriptors counts what this process has open; 0 where nobody tells.
func descriptors() float64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return float64(len(entries))
}

// manyFigures are the rows about many databases.
func (c *comparison) manyFigures() []figure {
	rows := func(row string, goals bool) []figure {
		all := []figure{
			less(row+"/heap", "heap B each"), less(row+"/resident", "resident B each"), less(row+"/goroutines", "goroutines each"),
			less(row+"/files", "descriptors each"), less(row+"/idle", "CPU s/s each at rest"), less(row+"/open", "s to open one"), less(row+"/close", "s to close all"),
		}
		if goals {
			for i, bound := range []float64{160 << 10, 200 << 10, 1, 3.1, 2e-6, 2e-3, 2} {
				all[i] = all[i].within(bound)
			}
		}
		return all
	}
	n, _ := c.databases()
	return slices.Concat(
		section(strconv.Itoa(n)+" databases in one process, "+strconv.Itoa(manySeries)+" series each", rows("many", false)...),
		section(strconv.Itoa(manyMore*n)+" databases of ours in one process", rows("many/more", true)...))
}
