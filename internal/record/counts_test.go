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

func TestType_HoldsSamplesOfWhateverKind(t *testing.T) {
	require.True(t, record.TypeHistograms.HoldsSamples())
	require.True(t, record.TypeHistograms.HoldsHistograms())
	require.True(t, record.TypeSamples.HoldsSamples())
	require.False(t, record.TypeSamples.HoldsHistograms())
	require.True(t, record.Type(0x33).HoldsSamples(), "nobody knows what it has")
	require.False(t, record.Type(0x33).HoldsHistograms())
	require.False(t, record.TypeExemplars.HoldsSamples())
	require.False(t, record.TypeNone.HoldsSamples())
}
