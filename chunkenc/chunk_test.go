package chunkenc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

func TestFromData_UnknownEncodings_AreErrorsWithTheNumber(t *testing.T) {
	for _, enc := range []Encoding{0, 7, 8, 0x70, 0x81, 255} {
		_, err := FromData(enc, make([]byte, 100))
		require.ErrorIs(t, err, ErrUnknownEncoding)
		require.ErrorContains(t, err, "encoding ")
	}
	_, err := FromData(7, nil)
	require.ErrorContains(t, err, "encoding 7")
	require.Equal(t, "encoding 7", Encoding(7).String())
	require.Equal(t, "float histogram with start timestamps", EncFloatHistogramST.String())
	require.Equal(t, "XOR", EncXOR.String())
	require.Equal(t, "XOR2", EncXOR2.String())
	require.Equal(t, "none", EncNone.String())
}

func TestFromData_TooShort_IsDamage(t *testing.T) {
	for n := range headerSize {
		_, err := FromData(EncXOR2, make([]byte, n))
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
	}
	for n := range headerSizeXOR {
		_, err := FromData(EncXOR, make([]byte, n))
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		var it chunkIterator
		it.reset(Chunk{enc: EncXOR, data: make([]byte, n)})
		require.Equal(t, ValNone, it.Next())
		require.ErrorIs(t, it.Err(), encbuf.ErrCorrupt)
	}
	require.Zero(t, Chunk{}.NumSamples())
	require.Equal(t, ValNone, Chunk{}.Iterator(nil).Next())
}

func TestChunk_Iterator_ReusesOnlyItsOwn(t *testing.T) {
	c, err := FromData(EncXOR, encode(t, []sample{{1, 1}, {2, 2}}))
	require.NoError(t, err)
	require.Equal(t, 2, c.NumSamples())
	require.Equal(t, EncXOR, c.Encoding())
	it := c.Iterator(nil)
	require.Equal(t, ValFloat, it.Next())
	require.Same(t, it, c.Iterator(it))
	require.Equal(t, ValFloat, it.Next())
	require.Equal(t, int64(1), it.AtT())
	require.NotSame(t, it, c.Iterator(struct{ Iterator }{}))
	require.NotNil(t, c.Iterator((*chunkIterator)(nil)))
}

func TestChunkIterator_SteadyState_AllocatesNothing(t *testing.T) {
	buf := encode(t, series(120))
	it := Chunk{enc: EncXOR, data: buf}.Iterator(nil)
	batch := &Batch{}
	read := func() {
		it = Chunk{enc: EncXOR, data: buf}.Iterator(it)
		for it.Next() != ValNone {
			it.At()
		}
		it = Chunk{enc: EncXOR, data: buf}.Iterator(it)
		it.Next()
		for it.NextBatch(batch) != ValNone {
			it.At()
		}
	}
	read()
	require.Zero(t, testing.AllocsPerRun(10, read))
}

// Whatever is in a chunk, its header says how many samples there are.
func TestEncoding_NumSamples(t *testing.T) {
	for enc := EncXOR; enc <= EncFloatHistogramST; enc++ {
		require.Zero(t, enc.NumSamples([]byte{1}))
		require.Equal(t, 0x0102, enc.NumSamples([]byte{1, 2}))
	}
	require.Equal(t, 0xc102, EncHistogram.NumSamples([]byte{0xc1, 2}))
	require.Equal(t, 0x0102, EncHistogramST.NumSamples([]byte{0xc1, 2}), "without the flags")
	require.Equal(t, 0x0102, EncFloatHistogramST.NumSamples([]byte{0x81, 2}))
}
