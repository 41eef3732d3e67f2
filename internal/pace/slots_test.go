package pace_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/pace"
)

func TestSlots_BoundHowManyAreTaken(t *testing.T) {
	s := pace.NewSlots(3)
	var now, most atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				if err := s.Take(t.Context()); err != nil {
					t.Error(err)
				}
				if n := now.Add(1); n > 3 {
					most.Store(n)
				}
				now.Add(-1)
				s.Give()
			}
		})
	}
	wg.Wait()
	require.Zero(t, most.Load(), "never more than three")

	for range 3 {
		require.NoError(t, s.Take(t.Context()))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, s.Take(ended), context.Canceled)
	s.Give()
	require.NoError(t, s.Take(t.Context()))
}

func TestSlots_NilBoundsNothing(t *testing.T) {
	var s pace.Slots
	for range 100 {
		require.NoError(t, s.Take(t.Context()))
	}
	s.Give()
}
