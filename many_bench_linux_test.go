package tsdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/labels"
)

// many are databases of one process, each with a hundred series.
type many struct {
	*testing.B
	dir  string
	opts *tsdb.Options
	dbs  []*tsdb.DB
	took []time.Duration // each Open
	cpu  time.Duration   // of an Open
}

// use is what a process takes.
type use struct {
	heap, resident          int64
	goroutines, descriptors int
	cpu                     time.Duration
}

func (m *many) use() (u use) {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	debug.FreeOSMemory()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	u.heap = int64(ms.HeapAlloc)
	u.goroutines = runtime.NumGoroutine()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(m, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	require.NoError(m, err)
	u.resident = pages * int64(os.Getpagesize())
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(m, err)
	u.descriptors = len(fds)
	u.cpu = cpuTime(m.B)
	return u
}

func (m *many) open(n int) {
	m.took = m.took[:0]
	before := cpuTime(m.B)
	defer func() { m.cpu = (cpuTime(m.B) - before) / time.Duration(n) }()
	for i := range n {
		begun := time.Now()
		db, err := tsdb.Open(filepath.Join(m.dir, strconv.Itoa(i)), m.opts)
		m.took = append(m.took, time.Since(begun))
		require.NoError(m, err)
		m.dbs = append(m.dbs, db)
	}
}

// fill commits samples of a hundred series to each.
func (m *many) fill(samples int) {
	now := time.Now().UnixMilli()
	for d, db := range m.dbs {
		refs := make([]tsdb.SeriesRef, 100)
		for k := range samples {
			app := db.Appender()
			for i := range refs {
				var ls labels.Labels
				if refs[i] == 0 {
					ls = labels.FromStrings("__name__", "sensor_"+strconv.Itoa(i%10), "device", fmt.Sprintf("device-%04d", d), "channel", strconv.Itoa(i/10), "site", "north")
				}
				var err error
				refs[i], err = app.Append(refs[i], ls, now+int64(k)*1000, float64(i*k))
				require.NoError(m, err)
			}
			_, err := app.Commit(ctx)
			require.NoError(m, err)
		}
	}
}

func (m *many) close() time.Duration {
	begun := time.Now()
	var wg sync.WaitGroup
	for _, db := range m.dbs {
		wg.Go(func() {
			if err := db.Close(); err != nil {
				m.Error(err)
			}
		})
	}
	wg.Wait()
	m.dbs = nil
	return time.Since(begun)
}

func median(ds []time.Duration) time.Duration {
	ds = slices.Sorted(slices.Values(ds))
	return ds[len(ds)/2]
}

// idle returns the CPU time of a second in which nothing is committed.
func (m *many) idle() time.Duration {
	const seconds = 60 // once a minute is looked for blocks
	pass := func(s time.Duration) {
		t := clock.System.NewTicker(s * time.Second)
		defer t.Stop()
		<-t.C()
	}
	pass(seconds + 6) // what was begun ends, and each directory is listed; later looks only ask whether it has changed
	before := cpuTime(m.B)
	pass(seconds)
	return (cpuTime(m.B) - before) / seconds
}

// BenchmarkManyDatabases measures what each of many databases of a process costs
// (docs/design/many-databases.md): memory with all garbage collected and given back, what is open,
// processor time while nothing happens, and how long it takes to create, open and close them.
func BenchmarkManyDatabases(b *testing.B) {
	for _, n := range []int{200, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for range b.N {
				defer debug.SetGCPercent(debug.SetGCPercent(100))
				m := &many{B: b, dir: b.TempDir()}
				before := m.use()
				m.open(n)
				first, firstCPU := median(m.took), m.cpu
				empty := m.use()
				m.fill(10)
				m.report(b, n, before)
				b.ReportMetric(float64(empty.heap-before.heap)/float64(n)/1024, "empty-KiB")
				b.ReportMetric(float64(first.Microseconds()), "create-us")
				b.ReportMetric(float64(firstCPU.Microseconds()), "create-cpu-us")
				b.ReportMetric(m.close().Seconds(), "close-s")
				m.open(n)
				b.ReportMetric(float64(median(m.took).Microseconds()), "open-us")
				b.ReportMetric(float64(m.cpu.Microseconds()), "open-cpu-us")
				after := m.use()
				b.ReportMetric(float64(after.heap-before.heap)/float64(n)/1024, "reopened-KiB")
				b.ReportMetric(m.close().Seconds(), "reclose-s")
			}
		})
	}
}

func (m *many) report(b *testing.B, n int, before use) {
	after := m.use()
	b.ReportMetric(float64(after.heap-before.heap)/float64(n)/1024, "heap-KiB")
	b.ReportMetric(float64(after.resident-before.resident)/float64(n)/1024, "resident-KiB")
	b.ReportMetric(float64(after.goroutines-before.goroutines)/float64(n), "goroutines")
	b.ReportMetric(float64(after.descriptors-before.descriptors)/float64(n), "descriptors")
	b.ReportMetric(float64(m.idle().Nanoseconds())/float64(n)/1000, "idle-us/s")
}
