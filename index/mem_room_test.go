package index

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A head that has all the text that it can hold says so, and has room again when some of it goes.
func TestMemPostings_Room_EndsBeforeTheText(t *testing.T) {
	m := NewMemPostings()
	require.True(t, m.Room(4096))
	p := m.Intern("name", strings.Repeat("v", textMaxPacked+1)) // a block of its own
	m.Add(1, []Pair{p})
	m.pairs.values.text.owned = append(m.pairs.values.text.owned, make([]textBlock, textMaxBlocks-3-len(m.pairs.values.text.owned))...)
	require.True(t, m.Room(3))
	require.False(t, m.Room(4))
	m.pairs.values.text.free = append(m.pairs.values.text.free, 5)
	require.True(t, m.Room(4))

	m = NewMemPostings()
	m.pairs.names.next = maxGroups - 2
	require.True(t, m.Room(2))
	require.False(t, m.Room(3))
}
