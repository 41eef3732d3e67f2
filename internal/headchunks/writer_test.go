package headchunks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// A Writer that writes now and then keeps its memory; one that has written nothing since the last
// Rest gives it up.
func TestRest_GivesUpMemoryThatNobodyUsed(t *testing.T) {
	w := &Writer{fulls: make([]memseries.Full, 0, 9), files: make([]chunks.Full, 0, 9)}
	for range 3 {
		w.Written.Add(1)
		w.Rest()
		require.Equal(t, []int{9, 9}, []int{cap(w.fulls), cap(w.files)})
	}
	w.Rest()
	require.Nil(t, w.fulls)
	require.Nil(t, w.files)
}

func TestWoken_IsAskedOnce(t *testing.T) {
	var w Writer
	require.False(t, w.Woken())
	w.woken.Store(true)
	require.True(t, w.Woken())
	require.False(t, w.Woken())
}
