package remote

import (
	"github.com/seed347100a3/tsdb/chunkenc"
)

// xorTranscoder makes XOR chunks of those of the other encoding of floats, for clients that
// know no other one. It keeps its buffers; the zero value is ready.
type xorTranscoder struct {
	it    chunkenc.Iterator
	batch chunkenc.Batch
	enc   chunkenc.Encoder
	buf   []byte
}

// transcode returns the chunk as it is if it need not be changed, else one that is valid
// until the next call. Start timestamps, for which XOR has no place, are left out.
func (x *xorTranscoder) transcode(c chunkenc.Chunk) (chunkenc.Chunk, error) {
	if c.Encoding() != chunkenc.EncXOR2 {
		return c, nil
	}
	x.it = c.Iterator(x.it)
	x.enc.Reset()
	for x.it.NextBatch(&x.batch) != chunkenc.ValNone {
		for i, t := range x.batch.T {
			if err := x.enc.Append(t, x.batch.V[i], 0); err != nil {
				return c, err
			}
		}
	}
	if err := x.it.Err(); err != nil {
		return c, err
	}
	x.buf = x.enc.AppendTo(x.buf[:0])
	return chunkenc.FromData(chunkenc.EncXOR, x.buf)
}
