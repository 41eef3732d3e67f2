package backfill

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// joiner passes the chunks of one series on. The newest one waits: if the next one is
// so short that both fit into one chunk, they are put together sample by sample.
type joiner struct {
	out        Output
	mint, maxt int64 // closed
	names      []uint32

	// What waits: a chunk as it came, or, when samples were added, an encoder. num is 0
	// if there is nothing.
	num        int
	minT, maxT int64
	encoding   bool // in enc, not in buf
	buf        []byte
	enc        xorchunk.Encoder

	some bool // the series has a sample in this block

	ts [chunkenc.TargetSamples]int64
	vs [chunkenc.TargetSamples]float64
}

// begin starts a series.
func (j *joiner) begin() { j.num, j.some, j.encoding = 0, false, false }

// add takes a chunk that reaches into the range, newer than what came before it.
func (j *joiner) add(h chunkHead, data []byte) error {
	whole := h.minT >= j.mint && h.maxT <= j.maxt
	if whole && (j.num == 0 || j.num+h.num > chunkenc.TargetSamples) {
		if err := j.flush(); err != nil {
			return err
		}
		j.buf = append(j.buf[:0], data...)
		j.num, j.minT, j.maxT = h.num, h.minT, h.maxT
		j.some = true
		return nil
	}
	if err := j.encode(); err != nil {
		return err
	}
	return j.each(data, j.addSample)
}

// encode turns the chunk that waits, or nothing, into an encoder that has it.
func (j *joiner) encode() error {
	if j.encoding {
		return nil
	}
	j.encoding = true
	j.enc.Reset()
	if j.num == 0 {
		return nil
	}
	return j.each(j.buf, j.enc.Append)
}

// each decodes a chunk.
func (j *joiner) each(data []byte, fn func(t int64, v float64) error) error {
	var d xorchunk.Decoder
	if err := d.Reset(data); err != nil {
		return err
	}
	for d.Left() > 0 {
		n, err := d.Decode(j.ts[:], j.vs[:])
		if err != nil {
			return err
		}
		for i := range n {
			if err := fn(j.ts[i], j.vs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSample adds a sample to the encoder, if it is in the range. It is newer than what came
// before it.
func (j *joiner) addSample(t int64, v float64) error {
	if t < j.mint || t > j.maxt {
		return nil
	}
	if j.num == chunkenc.TargetSamples || j.num > 0 && j.enc.SizeBytes() > chunkenc.TargetBytes {
		if err := j.flush(); err != nil {
			return err
		}
		j.encoding = true
		j.enc.Reset()
	}
	if j.num == 0 {
		j.minT = t
	}
	if err := j.enc.Append(t, v); err != nil {
		return err
	}
	j.num++
	j.maxT, j.some = t, true
	return nil
}

// flush hands over what waits.
func (j *joiner) flush() error {
	if j.num == 0 {
		return nil
	}
	if j.encoding {
		j.buf = j.enc.AppendTo(j.buf[:0])
	}
	c := Chunk{MinT: j.minT, MaxT: j.maxT, Num: j.num, Data: j.buf}
	j.num, j.encoding = 0, false
	return j.out.AddChunk(c)
}
