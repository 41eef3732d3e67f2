package tsdb_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// eventRow is a row of docs/design/events.md.
type eventRow struct {
	levels string
	attrs  []string
}

func eventPage(t *testing.T) map[string]eventRow {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("docs", "design", "events.md"))
	require.NoError(t, err)
	rows := map[string]eventRow{}
	word := regexp.MustCompile("`([a-z_]+)`")
	for _, m := range regexp.MustCompile("(?m)^\\| ([A-Z][^|]*) \\| `([^`]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		row := eventRow{levels: m[1]}
		for _, a := range word.FindAllStringSubmatch(m[3], -1) {
			row.attrs = append(row.attrs, a[1])
		}
		rows[m[2]] = row
	}
	require.NotEmpty(t, rows)
	return rows
}

// failOn makes operations on paths with a part fail.
func failOn(fs *tsdbtest.MemFS, kind tsdbtest.OpKind, part string) {
	fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == kind && strings.Contains(op.Name, part) {
			return syscall.EIO
		}
		return nil
	})
}

// wantEvent checks the events with a message against the page, and returns the last one.
func wantEvent(t *testing.T, log *logRecords, message string) event {
	t.Helper()
	row, ok := eventPage(t)[message]
	require.True(t, ok, "%q is not on the page", message)
	found := log.of(message)
	require.NotEmpty(t, found, "no event %q", message)
	for _, e := range found {
		require.Contains(t, row.levels, e.level.String(), message)
		require.Equal(t, row.attrs, e.names, message)
		for name, v := range e.attrs {
			switch name {
			case "duration", "elapsed":
				require.Equal(t, slog.KindDuration, v.Kind(), "%s: %s", message, name)
			case "error":
				_, isErr := v.Any().(error)
				require.True(t, isErr || v.Any() == nil, "%s: error is a %T", message, v.Any())
				require.NotContains(t, fmt.Sprintf("%+v", v.Any()), "\n", "as a handler for text writes it")
			}
		}
	}
	return found[len(found)-1]
}

func newLogged(t *testing.T, change func(*tsdb.Options)) (*fixture, *logRecords) {
	t.Helper()
	log := &logRecords{}
	return newFixture(t, func(o *tsdb.Options) {
		o.Logger = slog.New(log)
		if change != nil {
			change(o)
		}
	}), log
}

func TestEvents_OfAnOrdinaryLife(t *testing.T) {
	f, log := newLogged(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1}, sample{`{a="c"}`, 1, 1})
	f.reopen()
	opened := wantEvent(t, log, "database opened")
	require.Equal(t, slog.LevelInfo, opened.level)
	require.Equal(t, fixtureDir, opened.attrs["dir"].String())
	require.EqualValues(t, 2, opened.attrs["series"].Int64())
	require.EqualValues(t, 2, opened.attrs["samples"].Uint64())
	closed := wantEvent(t, log, "database closed")
	require.Equal(t, slog.LevelInfo, closed.level)
	require.Nil(t, closed.attrs["error"].Any())
	replayed := wantEvent(t, log, "replayed log")
	require.EqualValues(t, 1, replayed.attrs["segments"].Int64())
	began := wantEvent(t, log, "began log segment")
	require.EqualValues(t, 1, began.attrs["segment"].Int64())
	for message := range eventPage(t) {
		if !strings.Contains("database opened, database closed, replayed log, began log segment", message) {
			require.Empty(t, log.of(message), "nothing is wrong")
		}
	}
}

func TestEvents_OfDamage(t *testing.T) {
	sp := newSpecimen(t)
	data := bytes.Clone(sp.files["wal/00000001"])
	data[sp.spans[4].off+7] ^= 1
	fs, err := diskOf(sp.without("wal/00000001", data))
	require.NoError(t, err)
	log := &logRecords{}
	opts := damageOptions(fs)
	opts.Logger = slog.New(log)
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	e := wantEvent(t, log, "recovery lost data to damaged files")
	require.Equal(t, slog.LevelWarn, e.level)
	r := db.OpenReport()
	require.EqualValues(t, len(r.Damages), e.attrs["damages"].Int64())
	require.EqualValues(t, r.DroppedCommits, e.attrs["dropped_commits"].Int64())
	require.EqualValues(t, r.SamplesUnknown, e.attrs["unknown_samples"].Uint64())
	require.EqualValues(t, r.SamplesInvalid+r.LateInvalid, e.attrs["invalid_samples"].Uint64())
	require.EqualValues(t, len(r.Quarantined), e.attrs["quarantined"].Int64())
}

func TestEvents_OfAFullDisk(t *testing.T) {
	f, log := newLogged(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1})
	require.NoError(t, f.db.Close())
	f.fs.SetCapacity(f.fs.Used())
	f.open()
	e := wantEvent(t, log, "disk is full: reading only until there is room")
	require.Equal(t, slog.LevelWarn, e.level)
	require.ErrorIs(t, e.attrs["error"].Any().(error), syscall.ENOSPC)
	require.ErrorIs(t, f.db.Health(), tsdb.ErrDiskFull)
	require.Equal(t, points(1, 1), f.all()[`{a="b"}`])
	f.fs.SetCapacity(0)
	for range 2 {
		f.clock.Advance(time.Second)
	}
	require.NoError(t, f.db.Health())
	wantEvent(t, log, "recovery finished, database takes writes")
	require.Len(t, log.of("recovery finished, database takes writes"), 1)
	f.commit(sample{`{a="b"}`, 2, 1})
}

// Who makes room and asks for a flush need not wait until recovery is tried again.
func TestFlush_WithRoomAgain_FinishesRecovery(t *testing.T) {
	f, log := newLogged(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1})
	require.NoError(t, f.db.Close())
	f.fs.SetCapacity(f.fs.Used())
	f.open()
	require.ErrorIs(t, f.db.Flush(ctx), tsdb.ErrDiskFull)
	f.fs.SetCapacity(0)
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Health())
	require.Len(t, log.of("recovery finished, database takes writes"), 1)
	require.Len(t, f.db.Blocks(), 1)
	f.commit(sample{`{a="b"}`, 2, 1})
	require.Equal(t, points(1, 1, 2, 1), f.all()[`{a="b"}`])
}

func TestEvents_OfChunkFilesThatCannotBeWritten(t *testing.T) {
	f, log := newLogged(t, func(o *tsdb.Options) {
		o.Head.SamplesPerChunk, o.Head.ReplayWorkers = 16, 1
		o.WAL.Sync = tsdb.SyncCommit()
	})
	refs, values := make([]tsdb.SeriesRef, 200), make([]float64, 200)
	for k := range 400 {
		app := f.db.Appender()
		for i := range refs {
			values[i] = math.Sqrt(float64(k*1000 + i))
			if refs[i] == 0 {
				ref, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), int64(k), values[i])
				require.NoError(t, err)
				refs[i] = ref
				values[i] = 0
			}
		}
		if k > 0 {
			_, err := app.AppendBatch(int64(k), refs, values, nil)
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	want := f.all()
	failOn(f.fs, tsdbtest.OpCreate, "chunks_head")
	for range 2 {
		f.clock.Advance(time.Second)
	}
	e := wantEvent(t, log, "write head chunks")
	require.Equal(t, slog.LevelWarn, e.level)
	require.ErrorIs(t, e.attrs["error"].Any().(error), syscall.EIO)

	disk := f.fs.KillClone()
	f.fs.SetHook(nil)
	require.NoError(t, f.db.Close())
	f.fs, f.opts.FS = disk, disk
	failOn(f.fs, tsdbtest.OpCreate, "chunks_head")
	f.open()
	e = wantEvent(t, log, "write head chunks during replay")
	require.ErrorIs(t, e.attrs["error"].Any().(error), syscall.EIO)
	r := f.db.OpenReport()
	require.True(t, r.Clean())
	require.Equal(t, want, f.all(), "they are in memory")
	f.fs.SetHook(nil)
	for range 2 {
		f.clock.Advance(time.Second)
	}
	require.Zero(t, f.db.Stats().FullBytes)
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

func TestEvents_OfAFailedSync(t *testing.T) {
	f, log := newLogged(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1})
	failOn(f.fs, tsdbtest.OpSync, "wal")
	for range 3 {
		f.clock.Advance(time.Second)
	}
	e := wantEvent(t, log, "sync log")
	require.Equal(t, slog.LevelError, e.level)
	require.ErrorIs(t, e.attrs["error"].Any().(error), tsdb.ErrPoisoned)
	require.Len(t, log.of("sync log"), 1, "it is not tried again")
	f.fs.SetHook(nil)
	require.ErrorIs(t, f.db.Close(), tsdb.ErrPoisoned)
	closed := wantEvent(t, log, "database closed")
	require.Equal(t, slog.LevelError, closed.level)
	require.ErrorIs(t, closed.attrs["error"].Any().(error), tsdb.ErrPoisoned)
	f.open()
}
