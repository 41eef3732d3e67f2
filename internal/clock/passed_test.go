package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/clock"
)

// wall is a clock that knows the time of day only.
type wall struct{ clock.Clock }

func (wall) Now() time.Time { return time.UnixMilli(1000) }

func TestPassed_CanBeComparedWithinOneBeginning(t *testing.T) {
	first := clock.PassedBy(clock.System)
	d, ok := clock.PassedBy(clock.System).After(first)
	require.True(t, ok)
	require.GreaterOrEqual(t, d, time.Duration(0))
	require.NotEmpty(t, first.Since)

	d, ok = clock.Passed{Since: "a", Time: 5}.After(clock.Passed{Since: "a", Time: 2})
	require.True(t, ok)
	require.EqualValues(t, 3, d)
	d, ok = clock.Passed{Since: "a", Time: 2}.After(clock.Passed{Since: "a", Time: 5})
	require.True(t, ok)
	require.Zero(t, d)
	_, ok = clock.Passed{Since: "a"}.After(clock.Passed{Since: "b"})
	require.False(t, ok)
	_, ok = clock.Passed{}.After(clock.Passed{})
	require.False(t, ok)

	require.Equal(t, clock.Passed{Since: "wall", Time: time.Second}, clock.PassedBy(wall{}))
}
