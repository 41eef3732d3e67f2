package blockplan

import (
	"context"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
)

func TestBusy_TakesAllOrNothing(t *testing.T) {
	var b Busy
	one, two, three := numberedULID(1), numberedULID(2), numberedULID(3)
	require.True(t, b.Take([]ulid.ULID{one, two}))
	require.False(t, b.Take([]ulid.ULID{three, two}))
	require.False(t, b.Has(three))
	require.Equal(t, []ulid.ULID{one, two}, b.All())
	b.Give([]ulid.ULID{two})
	require.True(t, b.Take([]ulid.ULID{three, two}))
}

func TestBusy_WaitsUntilNoneIsBusyOrTheContextEnds(t *testing.T) {
	var b Busy
	one, two := []ulid.ULID{numberedULID(1)}, []ulid.ULID{numberedULID(2)}
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, b.Wait(ctx, one))
	require.True(t, b.Take(one) && b.Take(two))
	done := make(chan error)
	go func() { done <- b.Wait(ctx, append(one, two...)) }()
	b.Give(two)
	b.Give(one)
	require.NoError(t, <-done)
	require.True(t, b.Take(one))
	cancel()
	require.ErrorIs(t, b.Wait(ctx, one), context.Canceled)
}

func TestBusy_TakesThoseThatAreNot(t *testing.T) {
	var b Busy
	one, two, three := numberedULID(1), numberedULID(2), numberedULID(3)
	require.True(t, b.Take([]ulid.ULID{two}))
	taken, busy := b.TakeEach([]ulid.ULID{one, two, three})
	require.Equal(t, []ulid.ULID{one, three}, taken)
	require.Equal(t, []ulid.ULID{two}, busy)
	require.True(t, b.Has(one) && b.Has(two) && b.Has(three))
	b.Give(taken)
	require.Equal(t, []ulid.ULID{two}, b.All())
	taken, busy = b.TakeEach(nil)
	require.Empty(t, append(taken, busy...))
}
