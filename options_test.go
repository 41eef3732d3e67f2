package tsdb_test

import (
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

func TestDefaultOptions_AreTheDocumentedOnes(t *testing.T) {
	o := tsdb.DefaultOptions()
	require.Equal(t, tsdb.HeadOptions{SamplesPerChunk: 120, ReplayWorkers: runtime.GOMAXPROCS(0), MaxLateness: time.Minute, SnapshotThreshold: 64 << 20, MaxExemplars: 100_000}, o.Head)
	require.Equal(t, tsdb.CompressionSnappy, tsdb.Compression{})
	require.Equal(t, tsdb.WALOptions{SegmentSize: 128 << 20, Compression: tsdb.CompressionSnappy, Sync: tsdb.SyncInterval(time.Second)}, o.WAL)
	require.Equal(t, tsdb.BlockOptions{Range: 2 * time.Hour, MaxRange: 31 * 24 * time.Hour, Workers: 1}, o.Blocks)
	require.Equal(t, tsdb.Limits{
		MaxFuture: time.Hour, LabelsPerSeries: 64, LabelNameBytes: 256, LabelValueBytes: 4096, LabelSetBytes: 16 << 10, MetadataBytes: 4096,
	}, o.Limits)
	require.NotNil(t, o.Logger)
	require.NotNil(t, o.FS)
	require.NotNil(t, o.Clock)
	require.Nil(t, o.Progress)
	require.False(t, o.Logger.Enabled(ctx, slog.LevelError), "silent without a logger")
	o.Head.SamplesPerChunk = 1
	require.Equal(t, 120, tsdb.DefaultOptions().Head.SamplesPerChunk, "each call gives its own")
}

// openedWith opens a database and returns the options as Open logs them.
func openedWith(t *testing.T, o *tsdb.Options) string {
	t.Helper()
	log := &logRecords{}
	c := *o
	c.FS, c.Clock, c.Logger = tsdbtest.NewMemFS(), tsdbtest.NewClock(testNow), slog.New(log)
	db, err := tsdb.Open("data", &c)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return log.one(t, "database opened").attrs["options"].String()
}

func TestOptions_ZeroMeansTheDefaultOfEachField(t *testing.T) {
	want := tsdb.DefaultOptions().String()
	require.Equal(t, want, openedWith(t, &tsdb.Options{}))
	require.Equal(t, want, openedWith(t, tsdb.DefaultOptions()))
	mine := &tsdb.Options{}
	mine.Head.SamplesPerChunk = 240
	require.Equal(t, strings.Replace(want, "120 samples", "240 samples", 1), openedWith(t, mine))
	require.Equal(t, &tsdb.Options{Head: tsdb.HeadOptions{SamplesPerChunk: 240}}, mine, "Open copies")
}

func TestDB_OptionsAreThoseThatHold(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.WAL.Sync = tsdb.SyncCommit()
		o.Blocks.Retention = 10 * time.Hour
	})
	got := f.db.Options()
	require.Equal(t, tsdb.SyncCommit(), got.WAL.Sync)
	require.Equal(t, 2*time.Hour, got.Blocks.Range, "the default")
	require.Equal(t, 2*time.Hour, got.Blocks.MaxRange, "what follows from the others")
	require.Equal(t, tsdb.DefaultOptions().Limits, got.Limits)
	got.Blocks.Retention = time.Hour
	require.Equal(t, 10*time.Hour, f.db.Options().Blocks.Retention, "it is a copy")
}

func TestOptions_StringNamesWhatMatters(t *testing.T) {
	o := tsdb.DefaultOptions()
	o.Head.ReplayWorkers = 2
	require.Equal(t, "block range 2h0m0s, merged up to 744h0m0s, retention none, 120 samples a chunk, 2 replay workers, head snapshots after 67108864 bytes of log, log segments of 134217728 bytes, "+
		"compression snappy, sync interval(1s), at most 1h0m0s in the future", o.String())
	o.Blocks.Retention, o.Blocks.RetentionBytes, o.Blocks.RetentionPercent = 24*time.Hour, 1<<30, 80
	require.Contains(t, o.String(), "retention 24h0m0s 1073741824 bytes 80% of the disk, ")
	require.Equal(t, "zstd", tsdb.CompressionBy(zstd.Codec).String())
	require.Equal(t, "none", tsdb.CompressionNone.String())
}

func TestOptions_EachBoundHolds(t *testing.T) {
	const page = 32 << 10
	cases := []struct {
		name   string
		change func(*tsdb.Options)
		want   []string // in the error: the option, its value, what is allowed; nil: it opens
	}{
		{"smallest chunk", func(o *tsdb.Options) { o.Head.SamplesPerChunk = 16 }, nil},
		{"chunk too small", func(o *tsdb.Options) { o.Head.SamplesPerChunk = 15 }, []string{"Head.SamplesPerChunk is 15", "16 to 32767"}},
		{"negative chunk", func(o *tsdb.Options) { o.Head.SamplesPerChunk = -1 }, []string{"Head.SamplesPerChunk is -1", "16 to 32767"}},
		{"largest chunk", func(o *tsdb.Options) { o.Head.SamplesPerChunk = 32767 }, nil},
		{"chunk too large", func(o *tsdb.Options) { o.Head.SamplesPerChunk = 32768 }, []string{"Head.SamplesPerChunk is 32768", "16 to 32767"}},
		{"one worker", func(o *tsdb.Options) { o.Head.ReplayWorkers = 1 }, nil},
		{"negative workers", func(o *tsdb.Options) { o.Head.ReplayWorkers = -1 }, []string{"Head.ReplayWorkers is -1", "1 to 256"}},
		{"most workers", func(o *tsdb.Options) { o.Head.ReplayWorkers = 256 }, nil},
		{"too many workers", func(o *tsdb.Options) { o.Head.ReplayWorkers = 257 }, []string{"Head.ReplayWorkers is 257", "1 to 256"}},
		{"smallest segment", func(o *tsdb.Options) { o.WAL.SegmentSize = page }, nil},
		{"segment too small", func(o *tsdb.Options) { o.WAL.SegmentSize = page - 1 }, []string{"WAL.SegmentSize is 32767 bytes", "multiple of 32768 up to 1073741824"}},
		{"segment of no whole pages", func(o *tsdb.Options) { o.WAL.SegmentSize = page + 1 }, []string{"WAL.SegmentSize is 32769 bytes", "multiple of 32768"}},
		{"negative segment", func(o *tsdb.Options) { o.WAL.SegmentSize = -page }, []string{"WAL.SegmentSize is -32768 bytes", "multiple of 32768"}},
		{"largest segment", func(o *tsdb.Options) { o.WAL.SegmentSize = 1 << 30 }, nil},
		{"segment too large", func(o *tsdb.Options) { o.WAL.SegmentSize = 1<<30 + page }, []string{"WAL.SegmentSize is 1073774592 bytes", "up to 1073741824"}},
		{"last compression", func(o *tsdb.Options) { o.WAL.Compression = tsdb.CompressionNone }, nil},
		{"shortest interval", func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncInterval(1) }, nil},
		{"no interval", func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncInterval(0) }, []string{"WAL.Sync is interval(0s)", "more than 0"}},
		{"negative interval", func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncInterval(-time.Second) }, []string{"WAL.Sync is interval(-1s)", "more than 0"}},
		{"smallest range", func(o *tsdb.Options) { o.Blocks.Range = time.Minute }, nil},
		{"range too small", func(o *tsdb.Options) { o.Blocks.Range = time.Minute - time.Millisecond }, []string{"Blocks.Range is 59.999s", "1m0s to 87600h0m0s in whole milliseconds"}},
		{"largest range", func(o *tsdb.Options) { o.Blocks.Range = 87600 * time.Hour }, nil},
		{"range too large", func(o *tsdb.Options) { o.Blocks.Range = 87600*time.Hour + time.Millisecond }, []string{"Blocks.Range is 87600h0m0.001s", "to 87600h0m0s"}},
		{"range with a fraction", func(o *tsdb.Options) { o.Blocks.Range = time.Minute + 1 }, []string{"Blocks.Range is 1m0.000000001s", "whole milliseconds"}},
		{"no merging", func(o *tsdb.Options) { o.Blocks.MaxRange = o.Blocks.Range + 2*time.Hour }, nil},
		{"merged range too small", func(o *tsdb.Options) { o.Blocks.MaxRange = time.Hour }, []string{"Blocks.MaxRange is 1h0m0s", "Blocks.Range, 2h0m0s, or more"}},
		{"negative lateness", func(o *tsdb.Options) { o.Head.MaxLateness = -1 }, []string{"Head.MaxLateness is -1ns", "0 or more"}},
		{"whole disk", func(o *tsdb.Options) { o.Blocks.RetentionPercent = 100 }, nil},
		{"more than the disk", func(o *tsdb.Options) { o.Blocks.RetentionPercent = 100.5 }, []string{"Blocks.RetentionPercent is 100.5", "at most 100"}},
		{"no part of the disk", func(o *tsdb.Options) { o.Blocks.RetentionPercent = math.NaN() }, []string{"Blocks.RetentionPercent is NaN", "a number of at most 100"}},
		{"all of any disk", func(o *tsdb.Options) { o.Blocks.RetentionPercent = math.Inf(1) }, []string{"Blocks.RetentionPercent is +Inf", "a number of at most 100"}},
		{"less than nothing", func(o *tsdb.Options) { o.Blocks.RetentionPercent = math.Inf(-1) }, []string{"Blocks.RetentionPercent is -Inf", "a number of at most 100"}},
		{"retention off", func(o *tsdb.Options) {
			o.Blocks.Retention, o.Blocks.RetentionBytes, o.Blocks.RetentionPercent = -1, -1, -1
		}, nil},
		{"most mergers", func(o *tsdb.Options) { o.Blocks.Workers = 64 }, nil},
		{"too many mergers", func(o *tsdb.Options) { o.Blocks.Workers = 65 }, []string{"Blocks.Workers is 65", "1 to 64"}},
		{"slowest pace", func(o *tsdb.Options) { o.Blocks.BytesPerSecond = 64 << 10 }, nil},
		{"pace too slow", func(o *tsdb.Options) { o.Blocks.BytesPerSecond = 64<<10 - 1 }, []string{"Blocks.BytesPerSecond is 65535", "65536 or more"}},
		{"negative pace", func(o *tsdb.Options) { o.Blocks.BytesPerSecond = -1 }, []string{"Blocks.BytesPerSecond is -1"}},
		{"most labels", func(o *tsdb.Options) { o.Limits.LabelsPerSeries = 4096 }, nil},
		{"too many labels", func(o *tsdb.Options) { o.Limits.LabelsPerSeries = 4097 }, []string{"Limits.LabelsPerSeries is 4097", "at most 4096"}},
		{"limits off", func(o *tsdb.Options) { o.Limits = tsdb.Limits{-1, -1, -1, -1, -1, -1, false, nil} }, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fs := tsdbtest.NewMemFS()
			o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
			c.change(o)
			db, err := tsdb.Open("data", o)
			if c.want == nil {
				require.NoError(t, err)
				app := db.Appender()
				_, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
				require.NoError(t, err)
				_, err = app.Commit(ctx)
				require.NoError(t, err)
				require.NoError(t, db.Close())
				return
			}
			require.Nil(t, db)
			for _, text := range c.want {
				require.ErrorContains(t, err, text)
			}
			require.Empty(t, fs.Files(), "nothing was touched")
		})
	}
}

func TestLimits_EachHoldsAtItsValueAndCanBeTurnedOff(t *testing.T) {
	pairs := func(n int) labels.Labels {
		var b labels.Builder
		for i := range n {
			b.Set(strings.Repeat("x", i+1), "v")
		}
		return b.Labels()
	}
	for _, c := range []struct {
		name     string
		limit    func(*tsdb.Limits) *int
		at, over labels.Labels // with a limit of 10
	}{
		{"LabelsPerSeries", func(l *tsdb.Limits) *int { return &l.LabelsPerSeries }, pairs(10), pairs(11)},
		{"LabelNameBytes", func(l *tsdb.Limits) *int { return &l.LabelNameBytes },
			labels.FromStrings(strings.Repeat("n", 10), "v"), labels.FromStrings(strings.Repeat("n", 11), "v")},
		{"LabelValueBytes", func(l *tsdb.Limits) *int { return &l.LabelValueBytes },
			labels.FromStrings("n", strings.Repeat("v", 10)), labels.FromStrings("n", strings.Repeat("v", 11))},
		{"LabelSetBytes", func(l *tsdb.Limits) *int { return &l.LabelSetBytes },
			labels.FromStrings("abc", "de", "fgh", "ij"), labels.FromStrings("abc", "de", "fgh", "ijk")},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) { *c.limit(&o.Limits) = 10 })
			app := f.db.Appender()
			_, err := app.Append(0, c.at, 1, 1)
			require.NoError(t, err)
			_, err = app.Append(0, c.over, 1, 1)
			require.ErrorIs(t, err, tsdb.ErrLimit)
			require.ErrorContains(t, err, "Limits."+c.name+" is 10")
			require.NoError(t, app.Rollback())

			f = newFixture(t, func(o *tsdb.Options) { *c.limit(&o.Limits) = -1 })
			app = f.db.Appender()
			_, err = app.Append(0, c.over, 1, 1)
			require.NoError(t, err)
			require.NoError(t, app.Rollback())
		})
	}
}

func TestLimits_MaxFutureIsMeasuredAgainstTheClock(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Limits.MaxFuture = time.Minute })
	edge := testNow.Add(time.Minute).UnixMilli()
	app := f.db.Appender()
	ref, err := app.Append(0, series(t, `{a="b"}`), edge, 1)
	require.NoError(t, err)
	_, err = app.Append(ref, labels.Labels{}, edge+1, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	f.clock.Advance(time.Millisecond)
	_, err = app.Append(ref, labels.Labels{}, edge+1, 1)
	require.NoError(t, err)
	_, err = app.Append(0, series(t, `{c="d"}`), math.MinInt64, 1)
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds, "no sample can be there")
	require.NoError(t, app.Rollback())
}
