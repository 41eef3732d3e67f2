package tsdb

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// chunkSource gives the chunks of one series in one place (the head, a block), oldest
// first and without overlap.
type chunkSource interface {
	// next returns the next chunk that overlaps the range asked for and does not end
	// before mint, which never falls. Its bytes are checked, and valid until the next
	// call. ok is false at the end and on error.
	next(mint int64) (c sourceChunk, ok bool, err error)
}

// sourceChunk is one chunk as it is stored.
type sourceChunk struct {
	enc        chunkenc.Encoding
	data       []byte
	minT, maxT int64   // closed, of all its samples
	in         *bounds // what may be seen of it
}

// first and last are bounds of the samples that may be seen.
func (c *sourceChunk) first() int64 { return max(c.minT, c.in.mint) }
func (c *sourceChunk) last() int64  { return min(c.maxT, c.in.maxt) }

// whole reports whether every sample may be seen.
func (c *sourceChunk) whole() bool {
	return c.minT >= c.in.mint && c.maxT <= c.in.maxt && !c.in.deleted.Overlaps(c.minT, c.maxT)
}

// bounds is what a reader may see of a series.
type bounds struct {
	mint, maxt int64
	deleted    tombstones.Intervals
}

// clip moves the samples that are inside to the front and returns their number. ts
// ascend.
func (b *bounds) clip(ts []int64, vs []float64) int {
	n := 0
	for i, t := range ts {
		if t >= b.mint && t <= b.maxt && (len(b.deleted) == 0 || !b.deleted.Covers(t)) {
			ts[n], vs[n] = t, vs[i]
			n++
		}
	}
	return n
}

const (
	// ownBatch is how many samples an iterator decodes ahead for Next: a chunk of the
	// usual 120. Twice as many make a query of one series slower and no other one
	// faster (BenchmarkSelectBlock).
	ownBatch = 128
	// clippedRun is the same for a chunk that is not wholly inside the bounds, or that is
	// short: what is behind the bounds need not be decoded.
	clippedRun = 32
)

// seriesIterator is a cursor over runs of decoded samples: each chunk is decoded in
// passes of up to a batch, and clipped only if it is not wholly inside the bounds.
type seriesIterator struct {
	src    chunkSource
	q      *Querier
	mint   int64  // where Seek went
	bounds bounds // of the chunk, from mint on

	chunk sourceChunk
	inner bool // the chunk is wholly inside the bounds
	dec   chunkenc.XORDecoder
	batch chunkenc.Batch // T and V keep their capacity; [0:n] is the run
	oneT  [1]int64
	oneV  [1]float64
	n     int
	at    int // position in the run; n when it is used up
	err   error
	done  bool
}

func (it *seriesIterator) reset(src chunkSource, q *Querier) {
	own := it.batch
	if cap(own.T) < clippedRun {
		own = chunkenc.Batch{}
	}
	*it = seriesIterator{src: src, mint: math.MinInt64, q: q, batch: own, at: -1}
}

// Next implements chunkenc.Iterator.
func (it *seriesIterator) Next() chunkenc.ValueType {
	if it.at+1 < it.n {
		it.at++
		return chunkenc.ValFloat
	}
	if !it.refill() {
		return chunkenc.ValNone
	}
	it.at = 0
	return chunkenc.ValFloat
}

// Seek implements chunkenc.Iterator. Chunks that end before t are not decoded.
func (it *seriesIterator) Seek(t int64) chunkenc.ValueType {
	if it.at >= 0 && it.at < it.n && it.batch.T[it.at] >= t {
		return chunkenc.ValFloat
	}
	it.mint = max(it.mint, t)
	it.bounds.mint = max(it.bounds.mint, t)
	it.inner = it.inner && it.chunk.minT >= t
	for {
		for it.at+1 < it.n {
			it.at++
			if it.batch.T[it.at] >= t {
				return chunkenc.ValFloat
			}
		}
		if !it.refill() {
			return chunkenc.ValNone
		}
		it.at = -1
	}
}

// At implements chunkenc.Iterator.
func (it *seriesIterator) At() (int64, float64) { return it.batch.T[it.at], it.batch.V[it.at] }

// AtT implements chunkenc.Iterator.
func (it *seriesIterator) AtT() int64 { return it.batch.T[it.at] }

// Err implements chunkenc.Iterator.
func (it *seriesIterator) Err() error { return it.err }

// NextBatch implements chunkenc.Iterator: what is left of the run is copied, runs
// after it are decoded straight into b.
func (it *seriesIterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	grow(b)
	if it.at+1 < it.n {
		n := copy(b.T[:cap(b.T)], it.batch.T[it.at+1:it.n])
		n = copy(b.V[:min(n, cap(b.V))], it.batch.V[it.at+1:it.n])
		b.T, b.V = b.T[:n], b.V[:n]
		it.at += n
		return chunkenc.ValFloat
	}
	n := it.decode(b.T[:cap(b.T)], b.V[:cap(b.V)])
	b.T, b.V = b.T[:n], b.V[:n]
	if n == 0 {
		return chunkenc.ValNone
	}
	it.standOn(b.T[n-1], b.V[n-1])
	return chunkenc.ValFloat
}

// standOn puts the iterator on the last sample of a caller's batch. One that is only
// read in batches never needs a large batch of its own.
func (it *seriesIterator) standOn(t int64, v float64) {
	if cap(it.batch.T) == 0 {
		it.batch = chunkenc.Batch{T: it.oneT[:], V: it.oneV[:]}
	}
	it.batch.T, it.batch.V = append(it.batch.T[:0], t), append(it.batch.V[:0], v)
	it.n, it.at = 1, 0
}

// grow gives a batch without capacity the usual one.
func grow(b *chunkenc.Batch) {
	if cap(b.T) == 0 || cap(b.V) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
}

// refill decodes the next run into the iterator's own batch.
func (it *seriesIterator) refill() bool {
	for it.dec.Left() == 0 && !it.done {
		it.nextChunk()
	}
	it.makeRoom()
	last := it.at
	n := it.decode(it.batch.T[:cap(it.batch.T)], it.batch.V[:cap(it.batch.V)])
	if n == 0 {
		it.at = last
		return false
	}
	it.batch.T, it.batch.V = it.batch.T[:n], it.batch.V[:n]
	it.n = n
	return true
}

// makeRoom sees to it that the own batch is large enough for the chunk.
func (it *seriesIterator) makeRoom() {
	want := clippedRun
	if it.inner && it.dec.Left() > clippedRun {
		want = ownBatch
	}
	if cap(it.batch.T) < want {
		it.batch = *chunkenc.NewBatch(want)
	}
}

// decode fills ts and vs with the next samples inside the bounds; 0 at the end or on
// error.
func (it *seriesIterator) decode(ts []int64, vs []float64) int {
	for !it.done {
		if it.dec.Left() == 0 {
			it.nextChunk()
			continue
		}
		room := len(ts)
		if !it.inner {
			room = min(room, clippedRun)
		}
		n, err := it.dec.Decode(ts[:room], vs)
		if err != nil {
			it.fail(err)
		}
		if !it.inner {
			n = it.clip(ts[:n], vs[:n])
		}
		if n > 0 {
			return n
		}
	}
	return 0
}

// clip moves those of the decoded samples that are inside the bounds to the front and
// returns their number. When one is behind the bounds, so is the rest of the chunk.
func (it *seriesIterator) clip(ts []int64, vs []float64) int {
	if n := len(ts); n > 0 && ts[n-1] > it.bounds.maxt {
		it.dec = chunkenc.XORDecoder{}
	}
	return it.bounds.clip(ts, vs)
}

// nextChunk loads the next chunk that is not wholly before the bounds.
func (it *seriesIterator) nextChunk() {
	if !it.q.begin() {
		it.fail(ErrClosed)
		return
	}
	c, ok, err := it.src.next(it.mint)
	it.q.end()
	if !ok {
		it.fail(err)
		return
	}
	if c.enc != chunkenc.EncXOR {
		it.fail(errors.WithMessagef(chunkenc.ErrUnknownEncoding, "read chunk of encoding %d", c.enc))
		return
	}
	it.chunk, it.inner = c, c.whole() && c.minT >= it.mint
	it.bounds = *c.in
	it.bounds.mint = max(it.bounds.mint, it.mint)
	if err := it.dec.Reset(c.data); err != nil {
		it.fail(err)
	}
}

// fail ends the iteration; a nil error is its ordinary end.
func (it *seriesIterator) fail(err error) {
	it.done = true
	if it.err == nil {
		it.err = err
	}
}
