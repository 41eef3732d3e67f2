package read_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// Of ten times as many texts as there are places the last ones are mostly there, every one is its
// own, and their bytes are counted.
func TestKeptTexts_MakeRoomForEachOther(t *testing.T) {
	texts := read.NewKeptTexts(6 << 10)
	text := func(ref int) labels.Labels {
		return labels.FromStrings("i", strings.Repeat("x", ref%300), "ref", fmt.Sprint(ref))
	}
	last := 10 * texts.Places()
	for ref := 1; ref <= last; ref++ {
		texts.Keep(uint64(ref), text(ref))
	}
	found := 0
	for ref := 1; ref <= last; ref++ {
		if got, ok := texts.Find(uint64(ref)); ok {
			require.Equal(t, text(ref), got)
			found++
		}
	}
	require.Equal(t, texts.Places(), found)
	require.Equal(t, texts.TextBytes(), texts.Bytes())
}

// The longest text that is kept, with the largest ref, and the shortest that is not.
func TestKeptTexts_HaveALimit(t *testing.T) {
	for size, kept := range map[int]bool{1 << 10: true, 1<<10 + 1: false} {
		text := labels.FromStrings("i", strings.Repeat("x", size-4)) // two lengths, one of them of two bytes
		require.Equal(t, size, text.SizeBytes())
		texts := read.NewKeptTexts(100)
		const ref = 1<<40 - 1
		texts.Keep(ref, text)
		got, ok := texts.Find(ref)
		require.Equal(t, kept, ok, size)
		if kept {
			require.Equal(t, text, got)
			require.EqualValues(t, texts.TextBytes(), texts.Bytes())
		}
		for _, other := range []uint64{0, 1, ref - 1, 1 << 39} {
			_, ok = texts.Find(other)
			require.False(t, ok)
		}
	}
}

// Who takes a place may leave the tag of one series with the text of another: it is not found.
func TestKeptTexts_ATagOfAnotherIsNoText(t *testing.T) {
	texts := read.NewKeptTexts(100)
	texts.Keep(1, labels.FromStrings("i", "1"))
	_, ok := texts.Find(1)
	require.True(t, ok)
	texts.Mix(1, 2)
	_, ok = texts.Find(2)
	require.False(t, ok)
}
