package tsdbtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestClock_StandsStillUntilItIsMoved(t *testing.T) {
	c := tsdbtest.NewClock(noon)
	require.Equal(t, noon, c.Now())
	c.Advance(time.Minute)
	require.Equal(t, noon.Add(time.Minute), c.Now())
	c.Advance(0)
	require.Equal(t, noon.Add(time.Minute), c.Now())
	c.Set(noon.AddDate(-10, 0, 0))
	require.Equal(t, noon.AddDate(-10, 0, 0), c.Now())
	require.Panics(t, func() { c.Advance(-1) })
	require.Panics(t, func() { c.NewTicker(0) })
}

func TestClock_EveryTickArrivesInOrder(t *testing.T) {
	c := tsdbtest.NewClock(noon)
	fast, slow := c.NewTicker(2*time.Second), c.NewTicker(3*time.Second)
	type tick struct {
		name string
		at   time.Duration
	}
	var got []tick
	done := make(chan struct{})
	go func() {
		defer close(done)
		for len(got) < 5 {
			select {
			case now := <-fast.C():
				got = append(got, tick{"fast", now.Sub(noon)})
			case now := <-slow.C():
				got = append(got, tick{"slow", now.Sub(noon)})
			}
		}
	}()
	c.Advance(6 * time.Second)
	<-done
	require.Equal(t, []tick{
		{"fast", 2 * time.Second}, {"slow", 3 * time.Second}, {"fast", 4 * time.Second},
		{"fast", 6 * time.Second}, {"slow", 6 * time.Second},
	}, got)
	require.Equal(t, noon.Add(6*time.Second), c.Now())
}

func TestClock_ReceiverSeesTheTimeOfItsTick(t *testing.T) {
	c := tsdbtest.NewClock(noon)
	ticker := c.NewTicker(time.Second)
	seen := make(chan time.Time, 3)
	go func() {
		for range 3 {
			<-ticker.C()
			seen <- c.Now()
		}
		ticker.Stop()
	}()
	for i := range 3 {
		c.Advance(time.Second)
		require.Equal(t, noon.Add(time.Duration(i+1)*time.Second), <-seen)
	}
	c.Advance(time.Hour)
}

func TestClock_StopReleasesAnAdvanceThatWaits(t *testing.T) {
	c := tsdbtest.NewClock(noon)
	ticker := c.NewTicker(time.Second)
	require.Equal(t, 1, c.Tickers())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Advance(time.Hour)
	}()
	<-ticker.C()
	ticker.Stop()
	ticker.Stop()
	<-done
	require.Zero(t, c.Tickers())
	require.Equal(t, noon.Add(time.Hour), c.Now())
}

func TestClock_SettingItMovesNoTicker(t *testing.T) {
	c := tsdbtest.NewClock(noon)
	ticker := c.NewTicker(time.Minute)
	defer ticker.Stop()
	c.Set(noon.Add(24 * time.Hour))
	c.Advance(59 * time.Second)
	select {
	case <-ticker.C():
		t.Fatal("ticked")
	default:
	}
	got := make(chan time.Time, 1)
	go func() { got <- <-ticker.C() }()
	c.Advance(time.Second)
	require.Equal(t, noon.Add(24*time.Hour+time.Minute), <-got)
}

func TestOp_StringsName(t *testing.T) {
	for k := tsdbtest.OpCreate; k <= tsdbtest.OpClose; k++ {
		require.NotContains(t, k.String(), "OpKind", k)
	}
	require.Equal(t, "OpKind(0)", tsdbtest.OpKind(0).String())
	require.Equal(t, "OpKind(99)", tsdbtest.OpKind(99).String())
	require.Equal(t, "#3 rename a -> b", tsdbtest.Op{Kind: tsdbtest.OpRename, Name: "a", NewName: "b", N: 3}.String())
	require.Equal(t, "#4 write a (10)", tsdbtest.Op{Kind: tsdbtest.OpWrite, Name: "a", N: 4, Bytes: 10}.String())
}
