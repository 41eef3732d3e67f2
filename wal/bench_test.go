package wal

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// appendSamples appends a samples record of n series at time t: the bytes that a
// commit of one scrape brings.
func appendSamples(dst []byte, n int, t int64) []byte {
	dst = append(dst, 2)
	dst = encbuf.AppendBE64(dst, 1)
	dst = encbuf.AppendBE64(dst, uint64(t))
	for i := range n {
		dst = encbuf.AppendVarint(dst, int64(i))
		dst = encbuf.AppendVarint(dst, 0)
		v := 1e6 + float64(i)*17 + float64(t/1000%977)
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

func benchLog(b *testing.B, policy SyncPolicy, comp Compression) *Log {
	b.Helper()
	l, err := Open(Options{FS: fileutil.OS, Dir: filepath.Join(b.TempDir(), "wal"), Sync: policy, Compression: codecOf(comp)}, Position{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.Close()) })
	return l
}

// benchCommit commits samples of one scrape.
func benchCommit(b testing.TB, l *Log, c *Commit, samples int, t int64) {
	c.Reset()
	c.End(appendSamples(c.Begin(), samples, t))
	err := l.Enqueue(c)
	if err == nil {
		err = l.Write(c)
	}
	if err != nil {
		b.Error(err)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		for _, samples := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("%s/samples=%d", comp, samples), func(b *testing.B) {
				l := benchLog(b, SyncNever(), comp)
				var c Commit
				b.ReportAllocs()
				t := int64(1_700_000_000_000)
				for b.Loop() {
					benchCommit(b, l, &c, samples, t)
					t += 15000
				}
				st := l.Stats()
				b.ReportMetric(float64(st.Bytes)/float64(st.Commits)/float64(samples), "B/sample")
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*samples), "ns/sample")
			})
		}
	}
}

// BenchmarkCommitParallel: writers that do not wait for a sync.
func BenchmarkCommitParallel(b *testing.B) {
	for _, writers := range []int{1, 2, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l := benchLog(b, SyncNever(), CompressionSnappy)
			b.ReportAllocs()
			b.ResetTimer()
			parallel(writers, b.N, func(c *Commit, t int64) { benchCommit(b, l, c, 10, t) })
			b.StopTimer()
			b.ReportMetric(float64(l.Stats().Commits)/float64(max(l.Stats().Writes, 1)), "commits/write")
		})
	}
}

// BenchmarkSyncCommit: commits of ten samples, each on stable storage.
func BenchmarkSyncCommit(b *testing.B) {
	for _, writers := range []int{1, 2, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l := benchLog(b, SyncCommit(), CompressionSnappy)
			b.ReportAllocs()
			b.ResetTimer()
			parallel(writers, b.N, func(c *Commit, t int64) { benchCommit(b, l, c, 10, t) })
			b.StopTimer()
			st := l.Stats()
			b.ReportMetric(float64(st.Commits)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(st.Commits)/float64(max(st.Syncs, 1)), "commits/sync")
			b.ReportMetric(float64(st.SyncTime.Microseconds())/float64(max(st.Syncs, 1)), "us/sync")
		})
	}
}

// parallel shares n calls among writers.
func parallel(writers, n int, do func(c *Commit, t int64)) {
	var wg sync.WaitGroup
	for w := range writers {
		own := n / writers
		if w < n%writers {
			own++
		}
		wg.Go(func() {
			var c Commit
			for i := range own {
				do(&c, 1_700_000_000_000+int64(i)*15000)
			}
		})
	}
	wg.Wait()
}

// TestSyncCommit_WritersShareSyncs holds the promise that 8 and 64 writers get 5 and 20 times the
// commits of one: a sync has to serve that many. A sync of this disk takes a fixed time, or as long
// as writers need to come back, if others have the processors. Commits are counted for each sync
// and not for each second, which on a busy machine says more about the machine. Such a machine
// can take the processor from a leader while it waits for the others, which only lowers the count:
// the best of some tries is held to the promise.
func TestSyncCommit_WritersShareSyncs(t *testing.T) {
	const least, most = 200 * time.Microsecond, time.Second
	const tries = 10
	perSync := func(writers int) float64 {
		var active, waiting atomic.Int32 // writers
		fsys := tsdbtest.NewMemFS()
		fsys.SetHook(func(op tsdbtest.Op) error {
			if op.Kind == tsdbtest.OpSync {
				for begin := time.Now(); time.Since(begin) < least || waiting.Load() < active.Load() && time.Since(begin) < most; {
					runtime.Gosched()
				}
			}
			return nil
		})
		l := openLog(t, fsys, Options{Compression: &Snappy}, Position{})
		active.Store(int32(writers))
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				defer active.Add(-1)
				var c Commit
				for i := range int64(100) {
					c.End(appendSamples(c.Begin(), 10, 1_700_000_000_000+i*15000))
					err := l.Enqueue(&c)
					waiting.Add(1)
					if err == nil {
						err = l.Write(&c)
					}
					waiting.Add(-1)
					if err != nil {
						t.Error(err)
						return
					}
					c.Reset()
				}
			})
		}
		wg.Wait()
		st := l.Stats()
		require.EqualValues(t, 100*writers, st.Commits)
		t.Logf("%d writers: %.1f commits/sync", writers, float64(st.Commits)/float64(st.Syncs))
		return float64(st.Commits) / float64(st.Syncs)
	}
	best := func(writers int, enough float64) (best float64) {
		for range tries {
			if best = max(best, perSync(writers)); best > enough {
				break
			}
		}
		return best
	}
	require.Equal(t, 1.0, perSync(1))
	require.Greater(t, best(8, 5), 5.0)
	require.Greater(t, best(64, 20), 20.0)
}

func TestCommit_AllocatesNothingInSteadyState(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		l := openLog(t, discardFS{tsdbtest.NewMemFS()}, Options{Compression: codecOf(comp)}, Position{})
		var c Commit
		n := testing.AllocsPerRun(200, func() {
			c.Reset()
			c.End(appendSamples(c.Begin(), 100, 1000))
			c.End(append(c.Begin(), "\x01series"...))
			if l.Enqueue(&c) != nil || l.Write(&c) != nil {
				t.Error("commit failed")
			}
		})
		require.Zero(t, n, comp.String())
	}
}

// discardFS drops what is written, so that only the log allocates.
type discardFS struct{ fileutil.FS }

func (d discardFS) Create(name string) (fileutil.File, error) {
	f, err := d.FS.Create(name)
	return discardFile{f}, err
}

type discardFile struct{ fileutil.File }

func (discardFile) Write(p []byte) (int, error) { return len(p), nil }
func (discardFile) Sync() error                 { return nil }

// replayLog writes a log of about the given number of samples.
func replayLog(b *testing.B, comp Compression, samples, perCommit int) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "wal")
	l, err := Open(Options{FS: fileutil.OS, Dir: dir, Sync: SyncNever(), Compression: codecOf(comp)}, Position{})
	require.NoError(b, err)
	var c Commit
	for i := range samples / perCommit {
		benchCommit(b, l, &c, perCommit, 1_700_000_000_000+int64(i)*15000)
	}
	require.NoError(b, l.Close())
	return dir
}

func BenchmarkReplay(b *testing.B) {
	const samples = 20_000_000
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		for _, perCommit := range []int{10, 1000} {
			b.Run(fmt.Sprintf("%s/samples=%d", comp, perCommit), func(b *testing.B) {
				dir := replayLog(b, comp, samples, perCommit)
				b.ReportAllocs()
				var r *ReplayReport
				for b.Loop() {
					var err error
					r, err = Replay(context.Background(), ReplayOptions{FS: fileutil.OS, Dir: dir, Decoders: runtime.GOMAXPROCS(0)})
					require.NoError(b, err)
					require.Equal(b, samples/perCommit, r.Commits)
				}
				b.SetBytes(r.Bytes)
				b.ReportMetric(float64(r.ReaderBusy.Nanoseconds())/samples, "reader-ns/sample")
				b.ReportMetric(float64(r.DecoderBusy.Nanoseconds())/samples, "decoder-ns/sample")
				b.ReportMetric(float64(r.ApplyBusy.Nanoseconds())/samples, "rules-ns/sample")
			})
		}
	}
}

// BenchmarkRepair: the segment of a killed process is written again.
func BenchmarkRepair(b *testing.B) {
	dir := replayLog(b, CompressionSnappy, 15_000_000, 1000)
	for b.Loop() {
		b.StopTimer()
		r, err := Replay(context.Background(), ReplayOptions{FS: fileutil.OS, Dir: dir})
		require.NoError(b, err)
		r.Watermark = 1
		b.SetBytes(r.Bytes)
		b.StartTimer()
		_, err = Repair(context.Background(), fileutil.OS, dir, filepath.Join(dir, "../quarantine"), filepath.Dir(dir), r)
		require.NoError(b, err)
	}
}
