package chunkenc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecoder_StopForgetsWhatIsLeft(t *testing.T) {
	var e Encoder
	for i := range int64(10) {
		require.NoError(t, e.Append(i, 1, 0))
	}
	var d Decoder
	require.NoError(t, d.Reset(EncXOR, e.AppendTo(nil)))
	b := NewBatch(8)
	require.NoError(t, d.Decode(b, 3))
	require.Equal(t, 3, b.Len())
	d.Stop()
	for range 2 {
		require.NoError(t, d.Decode(b, 8))
		require.Zero(t, b.Len())
		require.Zero(t, d.Left())
	}
}
