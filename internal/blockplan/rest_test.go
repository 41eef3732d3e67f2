package blockplan

import (
	"math"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
)

func TestRest_DoublesUpToAnHour(t *testing.T) {
	require.Equal(t, time.Minute, restOf(1))
	require.Equal(t, 2*time.Minute, restOf(2))
	require.Equal(t, time.Hour, restOf(7))
	require.Equal(t, time.Hour, restOf(math.MaxInt))
}

func TestRest_EndsBySuccessByForgetAndWhenTheClockIsSetBack(t *testing.T) {
	var r Rest
	a, b, now := numberedULID(1), numberedULID(2), time.UnixMilli(1_700_000_000_000)
	require.False(t, r.Resting(a, now))
	r.Failed([]ulid.ULID{a, b}, now)
	require.True(t, r.Resting(a, now.Add(time.Minute-1)))
	require.False(t, r.Resting(a, now.Add(time.Minute)))
	require.False(t, r.Resting(a, now.Add(-time.Hour)))
	r.Merged([]ulid.ULID{a})
	require.False(t, r.Resting(a, now))
	require.True(t, r.Resting(b, now))
	r.Forget()
	require.False(t, r.Resting(b, now))
}
