package pace

import (
	"context"
	"io/fs"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var start = time.UnixMilli(1_700_000_000_000)

// runner is a clock that runs by itself as soon as somebody waits for it. late is by how
// much each tick is late.
type runner struct {
	*tsdbtest.Clock
	late func() time.Duration
}

func newRunner() *runner {
	return &runner{Clock: tsdbtest.NewClock(start), late: func() time.Duration { return 0 }}
}

func (r *runner) NewTicker(d time.Duration) clock.Ticker {
	t := r.Clock.NewTicker(d + r.late())
	go r.Advance(d + r.late())
	return t
}

// write is what reached the disk, and when.
type write struct {
	at time.Time
	n  int
}

// recorder is a file system that only notes writes. A byte takes perByte.
type recorder struct {
	fileutil.FS
	clock   *runner
	perByte float64 // nanoseconds
	writes  []write
}

func (r *recorder) note(n int) {
	r.clock.Advance(time.Duration(float64(n) * r.perByte))
	r.writes = append(r.writes, write{r.clock.Now(), n})
}

func (r *recorder) Create(string) (fileutil.File, error) { return &recordedFile{r: r}, nil }

type recordedFile struct {
	fileutil.File
	r *recorder
}

func (f *recordedFile) Write(b []byte) (int, error) {
	f.r.note(len(b))
	return len(b), nil
}

// perSecond returns the fewest and the most bytes that any whole second holds. A window
// that is extreme begins at a write or right behind one.
func perSecond(ws []write) (least, most int64) {
	least = math.MaxInt64
	end := ws[len(ws)-1].at
	for i, w := range ws {
		with, without := int64(0), int64(0)
		for _, x := range ws[i:] {
			if x.at.Sub(w.at) < time.Second {
				with += int64(x.n)
			}
			if x.at.Sub(w.at) <= time.Second && x.at.After(w.at) {
				without += int64(x.n)
			}
		}
		most = max(most, with)
		if end.Sub(w.at) > time.Second {
			least = min(least, without)
		}
	}
	return least, most
}

// Whatever the sizes of writes, and although sleeps end late and the disk is but twice
// as fast as the rate.
func TestFS_HoldsItsRateWithin10PercentOverAnySecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(2_000, 1<<40).Draw(t, "rate")
		clk := newRunner()
		late := time.Duration(rapid.Int64Range(0, int64(time.Millisecond)).Draw(t, "late"))
		clk.late = func() time.Duration { return late }
		share := rapid.Float64Range(0, 0.5).Draw(t, "share")
		rec := &recorder{clock: clk, perByte: share * float64(time.Second) / float64(rate)}
		l := New(clk, rate)
		f, err := FS(context.Background(), rec, l).Create("a")
		require.NoError(t, err)

		// The bytes are not looked at, so all writes show the same ones.
		clk.Advance(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "idle")))
		bytes := make([]byte, min(rate/4, 1<<16))
		if rate > 1<<16*piecesPerSecond {
			// Too much to hand over: the limiter alone, in the pieces that FS would use.
			for range 3 * piecesPerSecond {
				rec.note(l.piece())
				require.NoError(t, l.Wait(context.Background(), l.piece()))
			}
		} else {
			for total := int64(0); total < 3*rate; {
				n := rapid.IntRange(1, len(bytes)).Draw(t, "n")
				n, err := f.Write(bytes[:n])
				require.NoError(t, err)
				total += int64(n)
			}
		}
		least, most := perSecond(rec.writes)
		require.LessOrEqual(t, float64(most), 1.1*float64(rate))
		require.GreaterOrEqual(t, float64(least), 0.9*float64(rate))
	})
}

func TestLimiter_ZeroIsUnlimited(t *testing.T) {
	clk := tsdbtest.NewClock(start)
	for _, rate := range []int64{0, -1} {
		l := New(clk, rate)
		require.NoError(t, l.Wait(context.Background(), math.MaxInt), "no tick comes: it must not wait")
		fsys := tsdbtest.NewMemFS()
		require.Equal(t, fileutil.FS(fsys), FS(context.Background(), fsys, l))
	}
	require.Zero(t, clk.Tickers())
}

func TestLimiter_EndsWithItsContext(t *testing.T) {
	clk := tsdbtest.NewClock(start)
	l := New(clk, 1)
	ctx, cancel := context.WithCancel(context.Background())
	waits := make(chan error)
	go func() { waits <- l.Wait(ctx, 3600) }()
	for clk.Tickers() == 0 {
		select {
		case err := <-waits:
			require.Fail(t, "did not wait", "%v", err)
		default:
		}
	}
	second := make(chan error)
	go func() { second <- l.Wait(ctx, 1) }()
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
	require.ErrorIs(t, <-second, context.Canceled)
	require.Zero(t, clk.Tickers())
	require.ErrorIs(t, l.Wait(ctx, 0), context.Canceled)

	// What was not waited for is forgiven.
	done := make(chan error)
	go func() { done <- l.Wait(context.Background(), 1) }()
	for clk.Tickers() == 0 {
		continue
	}
	clk.Advance(time.Second)
	require.NoError(t, <-done)
}

func TestLimiter_AClockThatIsSetTenYearsOff_CostsNothing(t *testing.T) {
	const tenYears = 10 * 365 * 24 * time.Hour
	for _, step := range []time.Duration{-tenYears, tenYears} {
		clk := newRunner()
		l := New(clk, 1000)
		require.NoError(t, l.Wait(context.Background(), 1000))
		clk.Set(clk.Now().Add(step))
		before := clk.Now()
		require.NoError(t, l.Wait(context.Background(), 1000))
		require.InDelta(t, time.Second, clk.Now().Sub(before), float64(slack))
	}
}

func TestLimiter_OneByteASecondAndMoreThanADaysDebt(t *testing.T) {
	clk := newRunner()
	l := New(clk, 1)
	require.Equal(t, 1, l.piece())
	require.NoError(t, l.Wait(context.Background(), math.MaxInt32))
	require.LessOrEqual(t, clk.Now().Sub(start), maxDebt)
	require.Equal(t, 1<<30, New(clk, math.MaxInt64).piece())
}

func TestFS_PassesOnErrorsAndDiskSpace(t *testing.T) {
	mem := tsdbtest.NewMemFS()
	fsys := FS(context.Background(), mem, New(newRunner(), 100))
	_, err := fsys.OpenWrite("missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, fsys.MkdirAll("d"))
	f, err := fsys.Create("d/a")
	require.NoError(t, err)
	_, err = fsys.Create("d/a")
	require.ErrorIs(t, err, fs.ErrExist)
	n, err := f.Write(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.NoError(t, fileutil.DropCache(f))
	require.NoError(t, f.Close())
	n, err = f.Write(make([]byte, 10))
	require.Error(t, err)
	require.Zero(t, n)
	free, total, err := fileutil.DiskSpace(mem, "d")
	free2, total2, err2 := fileutil.DiskSpace(fsys, "d")
	require.Equal(t, []any{free, total, err}, []any{free2, total2, err2})
	abs, err := fileutil.Abs(FS(context.Background(), fileutil.OS, New(newRunner(), 100)), "d")
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(abs))
}

func TestFS_PassesOnAdvice(t *testing.T) {
	under := &faultfs.AdvisedFile{}
	f := &pacedFile{File: under}
	fileutil.StartWriteback(f, 10, 20)
	require.NoError(t, fileutil.DropCache(f))
	require.Equal(t, &faultfs.AdvisedFile{Begun: [][2]int64{{10, 20}}, Dropped: 1}, under)

	disk := &faultfs.Advised{FS: tsdbtest.NewMemFS(), Direct: true}
	_, _, err := fileutil.OpenDirect(FS(context.Background(), disk, New(newRunner(), 100)), "missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, []string{"missing"}, disk.Directly)
}
