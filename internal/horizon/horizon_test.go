package horizon_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const day = 24 * time.Hour

// begun returns a horizon that begins at 1,000 days, for what is kept for ten.
func begun() (*horizon.Horizon, int64) {
	h := &horizon.Horizon{Keep: 10 * day}
	t := (1000 * day).Milliseconds()
	h.Begin(t)
	return h, t
}

func TestHorizon_AClockThatOnlyPasses_IsNeverBehind(t *testing.T) {
	h, now := begun()
	for range 100 {
		h.Pass(7 * time.Hour)
		now += (7 * time.Hour).Milliseconds()
		require.Zero(t, h.Look(now, now))
	}
	h.Pass(time.Hour)
	require.Zero(t, h.Look(now-5000, now), "the newest sample is older")
}

func TestHorizon_AJumpForward_WaitsUntilItIsOldByAnyClock(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, 3650 * day} {
		h, now := begun()
		now += jump.Milliseconds()
		require.Equal(t, jump, h.Look(now, now))
		h.Pass(9 * day)
		now += (9 * day).Milliseconds()
		require.Equal(t, jump, h.Look(now, now))
		h.Pass(day)
		now += day.Milliseconds()
		require.Zero(t, h.Look(now, now))
	}
}

func TestHorizon_AJumpThatIsTakenBack_LeavesNothing(t *testing.T) {
	h, now := begun()
	require.Equal(t, 365*day, h.Look(now+(365*day).Milliseconds(), now+(365*day).Milliseconds()))
	require.Zero(t, h.Look(now, now))
	h.Pass(9 * day)
	now += (9 * day).Milliseconds()
	require.Zero(t, h.Look(now, now))
	require.Equal(t, time.Hour, h.Look(now+time.Hour.Milliseconds(), now+time.Hour.Milliseconds()), "doubted anew, and for as long")
	h.Pass(2 * day)
	now += (2*day + time.Hour).Milliseconds()
	require.Equal(t, time.Hour, h.Look(now, now))
}

func TestHorizon_EachJumpWaitsForItself(t *testing.T) {
	h, now := begun()
	for range 5 {
		now += time.Hour.Milliseconds()
		h.Look(now, now)
		h.Pass(day)
		now += day.Milliseconds()
	}
	require.Equal(t, 5*time.Hour, h.Look(now, now))
	h.Pass(5*day - time.Millisecond)
	now += (5*day - time.Millisecond).Milliseconds()
	require.Equal(t, 5*time.Hour, h.Look(now, now))
	h.Pass(time.Millisecond)
	now++
	require.Equal(t, 4*time.Hour, h.Look(now, now))
	h.Pass(day)
	now += day.Milliseconds()
	require.Equal(t, 3*time.Hour, h.Look(now, now))
}

// A clock that is always a little fast makes many doubts: no more than there may be, and they are
// believed in time.
func TestHorizon_AClockThatIsFast_StaysALittleAhead(t *testing.T) {
	h, now := begun()
	for range 4 * 10 * 24 * 60 {
		h.Pass(time.Minute)
		now += time.Minute.Milliseconds() + 60 // a thousandth
		h.Look(now, now)
	}
	require.InDelta(t, 10*24*time.Hour/1000, h.Look(now, now), float64(time.Minute), "as much as in the time that is kept")
	require.LessOrEqual(t, len(horizon.Encode(h, clock.Passed{})), 16<<10)
}

// A machine whose clock was ahead when the directory was made is right again some day.
func TestHorizon_AClockThatWasAheadFromTheBeginning_IsForgotten(t *testing.T) {
	h, now := begun()
	now -= (3650 * day).Milliseconds()
	for range 11 {
		require.Zero(t, h.Look(now, now))
		h.Pass(day)
		now += day.Milliseconds()
	}
	require.Zero(t, h.Look(now, now))
	require.Equal(t, day, h.Look(now+day.Milliseconds(), now+day.Milliseconds()), "it guards again")
}

// A clock that was wrong for so long that it is believed, is set right, and goes wrong again: what
// was written between is kept for as long as anything is.
func TestHorizon_AWrongClockThatWasBelieved_IsDoubtedWhenItComesBack(t *testing.T) {
	h, now := begun()
	jump := (3650 * day).Milliseconds()
	require.Equal(t, 3650*day, h.Look(now+jump, now+jump))
	h.Pass(11 * day)
	now += (11 * day).Milliseconds()
	require.Zero(t, h.Look(now+jump, now+jump), "it is believed")
	require.Zero(t, h.Look(now, now))
	h.Pass(9 * day)
	now += (9 * day).Milliseconds()
	require.Zero(t, h.Look(now, now))
	require.Equal(t, 3650*day, h.Look(now+jump, now+jump))
	h.Pass(10 * day)
	now += (10 * day).Milliseconds()
	require.Zero(t, h.Look(now+jump, now+jump))
}

// A machine that was just started may show 1970 for a moment: that begins no doubt.
func TestHorizon_AClockThatIsBehindForAMoment_ChangesNothing(t *testing.T) {
	h, now := begun()
	h.Look(0, 0)
	h.Pass(30 * time.Second)
	now += (30 * time.Second).Milliseconds()
	require.Zero(t, h.Look(30_000, 30_000))
	require.Zero(t, h.Look(now, now))
	h.Back(now + 1)
	require.Zero(t, h.Look(now, now))
	h.Back(now - time.Hour.Milliseconds())
	require.Equal(t, time.Hour, h.Look(now, now), "unless samples are taken by it")
}

// Whatever the clock does: what is counted back from is never further than an honest clock, until
// a jump was doubted for as long as anything is kept.
func TestHorizon_GoesNoFurtherThanTimePassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, honest := begun()
		off, passed := int64(0), time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "jump") {
				off = rapid.Int64Range(-(1<<40), 1<<40).Draw(t, "off")
			}
			d := time.Duration(rapid.Int64Range(0, int64(day/4)).Draw(t, "passes")) / time.Millisecond * time.Millisecond
			h.Pass(d)
			passed += d
			honest += d.Milliseconds()
			now := honest + off
			at := min(now, now-rapid.Int64Range(-10, 1<<40).Draw(t, "older"))
			behind := h.Look(at, now)
			require.GreaterOrEqual(t, behind, time.Duration(0))
			if passed < h.Keep {
				require.LessOrEqual(t, at-behind.Milliseconds(), honest)
			}
			file := horizon.Encode(h, clock.Passed{Since: "x", Time: passed})
			again, mark, err := horizon.Decode(file)
			require.NoError(t, err)
			require.Equal(t, clock.Passed{Since: "x", Time: passed}, mark)
			require.Equal(t, file, horizon.Encode(again, mark))
		}
	})
}

func TestFile_DamageIsNamed(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.MkdirAll("d"))
	h, mark, err := horizon.Read(m, "d")
	require.NoError(t, err)
	require.Nil(t, h)
	h, now := begun()
	h.Look(now+1000, now+1000)
	require.NoError(t, horizon.Write(m, "d", h, mark))
	good, err := m.ReadFile("d/" + horizon.FileName)
	require.NoError(t, err)
	for i := range len(good) {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		require.NoError(t, m.WriteFile("d/"+horizon.FileName, bad))
		_, _, err := horizon.Read(m, "d")
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		require.ErrorContains(t, err, horizon.FileName)
		require.NoError(t, m.WriteFile("d/"+horizon.FileName, good[:i]))
		_, _, err = horizon.Read(m, "d")
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
	}
	require.NoError(t, m.WriteFile("d/"+horizon.FileName, make([]byte, 1<<20)))
	_, _, err = horizon.Read(m, "d")
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.NoError(t, m.MkdirAll("e/"+horizon.FileName))
	_, _, err = horizon.Read(m, "e")
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
}

func FuzzDecode(f *testing.F) {
	h, now := begun()
	h.Look(now+1000, now+1000)
	f.Add(horizon.Encode(h, clock.Passed{Since: "x"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, at, err := horizon.Decode(b); err == nil {
			again, _, err := horizon.Decode(horizon.Encode(h, at))
			require.NoError(t, err)
			require.Equal(t, h, again)
		}
	})
}
