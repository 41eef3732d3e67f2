package horizon_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A retention that is turned on, off and on again knows what time has passed, and doubts the rest.
func TestWatch_SetRetention_KeepsCountingWhileItIsOff(t *testing.T) {
	fsys, c := tsdbtest.NewMemFS(), tsdbtest.NewClock(time.UnixMilli((1000 * day).Milliseconds()))
	require.NoError(t, fileutil.MkdirSync(fsys, "data"))
	w := horizon.NewWatch(horizon.Config{FS: fsys, Dir: "data", Clock: c, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, w.Read())
	newest := func() int64 { return c.Now().UnixMilli() }
	w.Open(newest())
	require.NoError(t, w.Save(true))
	_, err := fsys.Stat("data/" + horizon.FileName)
	require.Error(t, err, "there is no retention by time, and so no file")

	require.NoError(t, w.SetRetention(10*day, newest()))
	c.Advance(day)
	require.Zero(t, w.Look(newest()))
	require.NoError(t, w.Save(true))
	h, _, err := horizon.Read(fsys, "data")
	require.NoError(t, err)
	require.True(t, h.Known())

	w.Note(3, time.Hour)
	require.Equal(t, time.Hour, w.Behind())
	require.NoError(t, w.SetRetention(0, newest()))
	require.Zero(t, w.Behind(), "nothing waits for it any more")
	c.Advance(20 * day)
	require.NoError(t, w.SetRetention(5*day, newest()))
	require.Zero(t, w.Look(newest()), "time passed while it was off")
	c.Set(c.Now().Add(365 * day))
	require.Equal(t, 365*day, w.Look(newest()))
	c.Advance(5 * day)
	require.Zero(t, w.Look(newest()), "as long as is kept now")
}

// What the clock went further than time is in doubt for as long as things are kept, also if that
// became longer since.
func TestWatch_SetRetention_Longer_DoubtsForLonger(t *testing.T) {
	fsys, c := tsdbtest.NewMemFS(), tsdbtest.NewClock(time.UnixMilli((1000 * day).Milliseconds()))
	require.NoError(t, fileutil.MkdirSync(fsys, "data"))
	w := horizon.NewWatch(horizon.Config{FS: fsys, Dir: "data", Clock: c, Logger: slog.New(slog.DiscardHandler), Retention: day})
	newest := func() int64 { return c.Now().UnixMilli() }
	require.NoError(t, w.Read())
	w.Open(newest())
	c.Set(c.Now().Add(365 * day))
	require.Equal(t, 365*day, w.Look(newest()))
	require.NoError(t, w.SetRetention(30*day, newest()))
	c.Advance(29 * day)
	require.Equal(t, 365*day, w.Look(newest()))
	require.NoError(t, w.SetRetention(day, newest()))
	c.Advance(day)
	require.Zero(t, w.Look(newest()))
}

// A retention that was under way when it was turned off has nothing to say any more.
func TestWatch_Note_BehindTheEndOfRetention_IsNothing(t *testing.T) {
	fsys, c := tsdbtest.NewMemFS(), tsdbtest.NewClock(time.UnixMilli((1000 * day).Milliseconds()))
	require.NoError(t, fileutil.MkdirSync(fsys, "data"))
	w := horizon.NewWatch(horizon.Config{FS: fsys, Dir: "data", Clock: c, Logger: slog.New(slog.DiscardHandler), Retention: day})
	require.NoError(t, w.Read())
	w.Open(c.Now().UnixMilli())
	require.NoError(t, w.SetRetention(0, c.Now().UnixMilli()))
	w.Note(3, time.Hour)
	require.Zero(t, w.Behind())
}
