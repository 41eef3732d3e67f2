package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/record"
)

func TestCounts_GoByType(t *testing.T) {
	var c record.Counts
	require.Nil(t, c.Names())
	require.Zero(t, c.Total())
	for _, typ := range []record.Type{record.TypeMetadata, 0x33, record.TypeMetadata} {
		c.Add(typ)
	}
	require.Equal(t, map[string]int{"metadata": 2, "unknown type 51": 1}, c.Names())
	require.Equal(t, 3, c.Total())
}

func TestHoldsUnread_SamplesOfWhateverKind(t *testing.T) {
	require.True(t, record.HoldsUnread([]byte{byte(record.TypeHistograms), 1}, 0), "its times cannot be read")
	require.True(t, record.HoldsUnread([]byte{0x33}, 0), "nobody knows what it has")
	require.False(t, record.HoldsUnread([]byte{byte(record.TypeExemplars), 1}, 0))
	require.False(t, record.HoldsUnread(nil, 0))
}
