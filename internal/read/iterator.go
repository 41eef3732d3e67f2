package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/wal"
)

const (
	// ownBatch is how many samples an iterator decodes ahead for Next: a chunk of the
	// usual 120. Twice as many make a query of one series slower and no other one
	// faster (BenchmarkSelectBlock).
	ownBatch = 128
	// clippedRun is the same for a chunk that is not wholly inside the bounds, or that is
	// short: what is behind the bounds need not be decoded.
	clippedRun = 32
)

// iterator is a cursor over runs of decoded samples: each chunk of floats is decoded in passes of
// up to a batch, and clipped only if it is not wholly inside the bounds. A sample of another kind
// is a run of its own (iterator_other.go).
type iterator struct {
	src  chunkSource
	gate *Gate
	mint int64 // where Seek went

	chunk samplemerge.Chunk // with its bounds from mint on; Samples are nil once they are given
	given int               // of Samples
	inner bool              // the chunk is wholly inside its bounds
	dec   chunkenc.Decoder
	run
	ahead  bool  // dec stands on the sample behind the run, which is of another kind
	lead   lead  // of the chunk, if it has histograms
	unsure int64 // time of a histogram that may be a reset, whatever its chunk says; noSample: none
	err    error
	done   bool
	pauses foreground.Pauses
}

// run is decoded samples of one kind, and a place among them.
type run struct {
	batch chunkenc.Batch // keeps its capacity; [0:n] is the run
	oneT  [1]int64       // of a batch of one
	oneV  [1]float64
	n     int
	at    int // the current sample; n when the run is used up
	kind  chunkenc.ValueType
}

func (it *iterator) reset(src chunkSource, gate *Gate) {
	own := it.batch
	if cap(own.T) < clippedRun {
		own = chunkenc.Batch{}
	}
	*it = iterator{src: src, mint: math.MinInt64, unsure: noSample, gate: gate, run: run{batch: own, at: -1}, pauses: it.pauses}
}

// begin puts the iterator before the first sample of a series.
func (it *iterator) begin(gate *Gate, s *mergedSeries) {
	if !gate.begin() {
		it.reset(nil, gate)
		it.fail(wal.ErrClosed)
		return
	}
	defer gate.end()
	it.reset(s.open(it.src), gate)
}

// prime is begin, and decodes the first samples. It reports whether there are any; an error counts
// as some, as nobody knows what is behind it.
func (it *iterator) prime(gate *Gate, s *mergedSeries) bool {
	it.begin(gate, s)
	if kind := it.refill(); kind > chunkenc.ValFloat {
		it.ahead, it.n, it.at = true, 0, -1
		return true
	}
	return it.n > 0 || it.err != nil
}

// Next implements chunkenc.Iterator.
func (it *iterator) Next() chunkenc.ValueType {
	if it.at+1 < it.n {
		it.at++
		return chunkenc.ValFloat
	}
	if it.kind > chunkenc.ValFloat && it.dec.Left() > 0 && it.lookAhead() { // of that kind, as the one before
		return it.other()
	}
	kind := it.refill()
	if kind != chunkenc.ValNone {
		it.at = 0
	}
	return kind
}

// Seek implements chunkenc.Iterator. Chunks that end before t are not decoded.
func (it *iterator) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	if it.at >= 0 && it.at < it.n && it.batch.T[it.at] >= t {
		return it.kind
	}
	it.mint = max(it.mint, t)
	it.chunk.From = max(it.chunk.From, t)
	it.inner = it.inner && it.chunk.MinT >= t
	for {
		for it.at+1 < it.n {
			it.at++
			if it.batch.T[it.at] >= t {
				return chunkenc.ValFloat
			}
		}
		switch kind := it.refill(); kind {
		case chunkenc.ValNone:
			return kind
		case chunkenc.ValFloat:
			it.at = -1
		default:
			if it.at = 0; it.batch.T[0] >= t {
				it.noteSought()
				return kind
			}
		}
	}
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (int64, float64) { return it.batch.T[it.at], it.batch.V[it.at] }

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.batch.T[it.at] }

// AtST implements chunkenc.Iterator.
func (it *iterator) AtST() int64 { return it.batch.StartOf(it.at) }

// Err implements chunkenc.Iterator.
func (it *iterator) Err() error { return it.err }

// NextBatch implements chunkenc.Iterator: what is left of the run is copied, runs
// after it are decoded straight into b.
func (it *iterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	grow(b)
	if it.at+1 < it.n {
		n := min(cap(b.T), cap(b.V), it.n-it.at-1)
		b.Cut(0)
		b.Append(&it.batch, it.at+1, it.at+1+n)
		it.at += n
		return chunkenc.ValFloat
	}
	if !it.decode(b) {
		return it.announce()
	}
	it.standOn(b)
	return chunkenc.ValFloat
}

// standOn puts the iterator on the last sample of a caller's batch. One that is only
// read in batches never needs a large batch of its own.
func (it *iterator) standOn(b *chunkenc.Batch) {
	if cap(it.batch.T) == 0 {
		it.batch = chunkenc.Batch{T: it.oneT[:], V: it.oneV[:]}
	}
	it.batch.Cut(0)
	it.batch.Append(b, b.Len()-1, b.Len())
	it.n, it.at, it.kind = 1, 0, chunkenc.ValFloat
}

// grow gives a batch without capacity the usual one.
func grow(b *chunkenc.Batch) {
	if cap(b.T) == 0 || cap(b.V) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
}

// refill decodes the next run into the iterator's own batch, and returns its kind.
func (it *iterator) refill() chunkenc.ValueType {
	for it.dec.Left() == 0 && it.chunk.Samples == nil && !it.done && !it.ahead {
		it.nextChunk()
	}
	it.makeRoom()
	held := it.n
	if !it.decode(&it.batch) {
		if !it.done {
			return it.other()
		}
		// The end is for good. What stood there is undefined now, not out of bounds.
		it.n = 0
		it.batch.T, it.batch.V = it.batch.T[:held], it.batch.V[:held]
		return chunkenc.ValNone
	}
	it.n, it.kind = it.batch.Len(), chunkenc.ValFloat
	return chunkenc.ValFloat
}

// makeRoom sees to it that the own batch is large enough for the chunk.
func (it *iterator) makeRoom() {
	want := clippedRun
	if it.inner && it.dec.Left() > clippedRun || it.chunk.Samples != nil {
		want = ownBatch
	}
	if cap(it.batch.T) < want {
		it.batch = *chunkenc.NewBatch(want)
	}
}

// decode fills b with the next samples inside the bounds; false at the end, on an error, and if the
// next sample is of another kind: then dec stands on it, and it is ahead.
func (it *iterator) decode(b *chunkenc.Batch) bool {
	b.Cut(0)
	for !it.done && !it.ahead {
		if it.dec.Left() == 0 {
			if it.chunk.Samples == nil {
				it.nextChunk()
			} else if it.take(b); b.Len() > 0 {
				return true
			}
			continue
		}
		if it.dec.Kind() != chunkenc.ValFloat {
			if it.lookAhead() {
				return false
			}
			continue
		}
		room := math.MaxInt
		if !it.inner {
			room = clippedRun
		}
		if err := it.dec.Decode(b, room); err != nil {
			it.fail(it.src.Place(err))
		}
		if !it.inner {
			it.clip(b)
		}
		if b.Len() > 0 {
			return true
		}
	}
	return false
}

// clip takes those of the decoded samples that are outside the bounds out of b. When one
// is behind the bounds, so is the rest of the chunk.
func (it *iterator) clip(b *chunkenc.Batch) {
	if n := b.Len(); n > 0 && b.T[n-1] > it.chunk.To {
		it.dec.Stop()
	}
	it.chunk.Clip(b)
}

// take fills b with samples that came merged. A Seek may have gone past them since.
func (it *iterator) take(b *chunkenc.Batch) {
	s := it.chunk.Samples
	n := min(s.Len(), it.given+min(cap(b.T), cap(b.V)))
	b.Append(s, it.given, n)
	if it.given = n; n == s.Len() {
		it.chunk.Samples = nil
	}
	it.chunk.Clip(b)
}

// nextChunk loads the next chunk that is not wholly before the bounds.
func (it *iterator) nextChunk() {
	it.pauses.Step(chunksAPause)
	if !it.gate.begin() {
		it.fail(wal.ErrClosed)
		return
	}
	c := &it.chunk
	ok, err := it.src.Next(it.mint, c)
	it.gate.end()
	if !ok {
		it.fail(err)
		return
	}
	c.From = max(c.From, it.mint)
	it.inner = c.Whole()
	if c.Samples != nil {
		it.given = 0
		return
	}
	it.lead = nothingGiven
	if err := it.dec.Reset(c.Encoding, c.Data); err != nil {
		it.fail(it.src.Place(err))
	}
}

// fail ends the iteration; a nil error is its ordinary end.
//
//go:noinline
func (it *iterator) fail(err error) {
	it.done = true
	if it.err == nil {
		it.err = err
	}
}
