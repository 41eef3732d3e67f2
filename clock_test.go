package tsdb_test

import (
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
)

// hurriedClock tells the real time and ticks fifty times as fast: what happens once a
// second in operation happens every 20 ms.
type hurriedClock struct{}

func (hurriedClock) Now() time.Time { return time.Now() }

func (hurriedClock) NewTicker(d time.Duration) clock.Ticker {
	return clock.System.NewTicker(d / 50)
}
