package backfill

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// joiner passes the chunks of one series on. The newest one waits: if the next one is
// so short that both fit into one chunk, they are put together sample by sample.
type joiner struct {
	out        Output
	mint, maxt int64 // closed
	width      int64 // of the window
	names      []uint32

	// What waits: a chunk as it came, or, when samples were added, one that is being built.
	waiting  Chunk // Num is 0 if there is none, or it is built
	building bool
	built    builder
	buf      []byte
	read     chunkReader

	some bool // the series has a sample in this block
}

// begin starts a series.
func (j *joiner) begin() { j.waiting.Num, j.some, j.building = 0, false, false }

// num returns how many samples wait, and in which encoding.
func (j *joiner) num() (int, chunkenc.Encoding) {
	if j.building {
		return j.built.enc.Len(), j.built.enc.Encoding()
	}
	return j.waiting.Num, j.waiting.Encoding
}

// add takes a chunk that reaches into the range, newer than what came before it.
func (j *joiner) add(h chunkHead, data []byte) error {
	whole := h.minT >= j.mint && h.maxT <= j.maxt
	n, enc := j.num()
	short := n > 0 && enc == chunkenc.EncXOR && h.enc == chunkenc.EncXOR && n+h.num <= chunkenc.TargetSamples
	if whole && !short || n > 0 && enc != chunkenc.EncXOR {
		if err := j.flush(); err != nil {
			return err
		}
	}
	if whole && !short {
		j.buf = append(j.buf[:0], data...)
		j.waiting = Chunk{MinT: h.minT, MaxT: h.maxT, Num: h.num, Encoding: h.enc, Data: j.buf}
		j.some = true
		return nil
	}
	if err := j.build(); err != nil {
		return err
	}
	return j.read.each(h.enc, data, j.addSample)
}

// build has the chunk that waits, or nothing, built.
func (j *joiner) build() error {
	if j.building {
		return nil
	}
	j.building = true
	j.built.enc.Reset()
	waits := j.waiting
	if j.waiting.Num = 0; waits.Num == 0 {
		return nil
	}
	return j.read.each(waits.Encoding, waits.Data, j.addSample)
}

// addSample adds a sample to what is built, if it is in the range. It is newer than what came
// before it.
func (j *joiner) addSample(w *memseries.WideSample) error {
	if w.T < j.mint || w.T > j.maxt {
		return nil
	}
	taken, err := j.built.add(w, j.width)
	if !taken && err == nil {
		if err = j.flush(); err == nil {
			j.building = true
			_, err = j.built.add(w, j.width)
		}
	}
	j.some = true
	return err
}

// flush hands over what waits.
func (j *joiner) flush() error {
	n, _ := j.num()
	c := j.waiting
	if j.building && n > 0 {
		c = j.built.take(j.buf)
		j.buf = c.Data
	}
	if j.building, j.waiting.Num = false, 0; n == 0 {
		return nil
	}
	return j.out.AddChunk(c)
}
