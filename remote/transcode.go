package remote

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// transcoder makes chunks without start timestamps of those with some, for clients that do not know
// their encodings. It keeps its buffers; the zero value is ready.
type transcoder struct {
	it     chunkenc.Iterator
	batch  chunkenc.Batch
	ints   histogram.Histogram
	floats histogram.FloatHistogram
	enc    chunkenc.Encoder
	buf    []byte
}

// transcode gives add a chunk as it is if it needs no change, else chunks that are valid during the
// call: one, unless another engine has put histograms together that do not belong into one.
func (x *transcoder) transcode(c tsdb.ChunkMeta, add func(tsdb.ChunkMeta) error) error {
	switch c.Chunk.Encoding() {
	case chunkenc.EncXOR2:
		return x.transcodeFloats(c, add)
	case chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST:
		return x.transcodeHistograms(c, add)
	default:
		return add(c)
	}
}

func (x *transcoder) transcodeFloats(c tsdb.ChunkMeta, add func(tsdb.ChunkMeta) error) error {
	x.it = c.Chunk.Iterator(x.it)
	x.enc.Reset()
	for x.it.NextBatch(&x.batch) != chunkenc.ValNone {
		for i, t := range x.batch.T {
			if err := x.enc.Append(t, x.batch.V[i], 0); err != nil {
				return err
			}
		}
	}
	if err := x.it.Err(); err != nil {
		return err
	}
	return x.give(c.MinT, c.MaxT, add)
}

func (x *transcoder) transcodeHistograms(c tsdb.ChunkMeta, add func(tsdb.ChunkMeta) error) error {
	x.it = c.Chunk.Iterator(x.it)
	x.enc.Reset()
	mint, maxt := c.MinT, c.MinT
	for kind := x.it.Next(); kind != chunkenc.ValNone; kind = x.it.Next() {
		err := x.append(kind)
		if errors.Is(err, chunkenc.ErrChunkFull) {
			if err := x.give(mint, maxt, add); err != nil {
				return err
			}
			x.enc.Reset()
			mint, err = x.it.AtT(), x.append(kind)
		}
		if err != nil {
			return err
		}
		maxt = x.it.AtT()
	}
	if err := x.it.Err(); err != nil {
		return err
	}
	return x.give(mint, c.MaxT, add)
}

// append encodes the histogram that the iterator stands on.
func (x *transcoder) append(kind chunkenc.ValueType) error {
	if kind == chunkenc.ValHistogram {
		return x.enc.AppendHistogram(x.it.AtHistogram(&x.ints), &x.ints, 0)
	}
	return x.enc.AppendFloatHistogram(x.it.AtFloatHistogram(&x.floats), &x.floats, 0)
}

// give gives add what is encoded.
func (x *transcoder) give(mint, maxt int64, add func(tsdb.ChunkMeta) error) error {
	x.buf = x.enc.AppendTo(x.buf[:0])
	chunk, err := chunkenc.FromData(x.enc.Encoding(), x.buf)
	if err != nil {
		return err
	}
	return add(tsdb.ChunkMeta{MinT: mint, MaxT: maxt, Chunk: chunk})
}
