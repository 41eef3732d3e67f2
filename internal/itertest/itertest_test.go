package itertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// comesBack is an iterator with the fault that Check is for: at its end a Seek finds the last
// sample again.
type comesBack struct{ chunkenc.Iterator }

func (c comesBack) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	if got := c.Iterator.Seek(t); got != chunkenc.ValNone || t > 3 {
		return got
	}
	return chunkenc.ValFloat
}

func oneToThree(t *testing.T) (want []Sample, open func() chunkenc.Iterator) {
	var enc xorchunk.Encoder
	for i := range int64(3) {
		require.NoError(t, enc.Append(i+1, float64(i)))
		want = append(want, Sample{T: i + 1, V: float64(i)})
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR, enc.AppendTo(nil))
	require.NoError(t, err)
	return want, func() chunkenc.Iterator { return c.Iterator(nil) }
}

func TestCheckAll_FindsAnIteratorThatComesBackFromItsEnd(t *testing.T) {
	want, open := oneToThree(t)
	require.NoError(t, CheckAll(want, 3, open))
	err := CheckAll(want, 3, func() chunkenc.Iterator { return comesBack{open()} })
	require.ErrorContains(t, err, "it is at its end")
}

func TestCheckAll_FindsAMissingAndASurplusSample(t *testing.T) {
	want, open := oneToThree(t)
	require.Error(t, CheckAll(want[:2], 1, open))
	require.Error(t, CheckAll(append(want, Sample{T: 4}), 3, open))
	want[1].V = 7
	require.Error(t, CheckAll(want, 2, open))
}
