package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/clock"
)

func TestSystem_NowIsTheTimeOfDay(t *testing.T) {
	before := time.Now()
	now := clock.System.Now()
	require.False(t, now.Before(before))
	require.False(t, now.After(time.Now()))
}

func TestSystem_TickerTicksUntilStopped(t *testing.T) {
	ticker := clock.System.NewTicker(time.Millisecond)
	<-ticker.C()
	<-ticker.C()
	ticker.Stop()
}
