package read

import (
	"context"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// blockCursor reads the entries of selected series.
type blockCursor struct {
	r     *blockReader
	ids   index.IDs
	done  int
	metas []index.ChunkMeta // what is left of a slab that series get their chunks from
	long  int               // the most chunks of one series so far
	kept  int               // the same, of those in the range

	pairs []index.SymbolPair // labels of the last series

	passed *[]error // gets the entries that cannot be read

	transient bool                         // all of the slab is for one series, the last one
	one       *blockSeries                 // which is this
	near      nearLabels[index.SymbolPair] // of the last one
	symbols   ownSymbols                   // of transient ones
}

// metaSlab is how many chunks there is room for in a slab: a few allocations for a hundred series,
// and a series that somebody holds keeps little else alive. Series themselves are allocated one by
// one: from slabs they take longer.
const metaSlab = 1024

func (c *blockCursor) next(ctx context.Context) (sourceSeries, error) {
	for {
		id, ok := c.ids.Next()
		if !ok {
			return nil, nil
		}
		if c.done%pollEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.done++
		if !c.transient {
			c.makeRoom()
		}
		pairs, metas, err := c.r.Dir.Index().Series(id, c.pairs[:0], c.metas[:0])
		if err != nil {
			if err = c.r.passBy(err, c.passed); err != nil {
				return nil, err
			}
			continue
		}
		c.pairs, c.long = pairs, max(c.long, len(metas))
		all := metas
		if c.transient {
			c.metas = metas
		}
		if metas = c.r.inRange(metas); len(metas) > 0 {
			if !c.transient && len(metas) < len(all) { // the others give their room to the next series
				metas = all[:copy(all, metas)]
			}
			c.kept = max(c.kept, len(metas))
			if p := c.r.presence(id, metas); p != memseries.Absent {
				return c.series(id, metas, p == memseries.Present), nil
			}
		}
	}
}

func (c *blockCursor) most() int        { return c.ids.Len() }
func (c *blockCursor) allPresent() bool { return false }
func (c *blockCursor) place() PlaceID   { return c.r.Place }

// series returns a series with its chunks, which it keeps unless it is transient: then what
// the next one gets begins behind them.
func (c *blockCursor) series(id uint64, metas []index.ChunkMeta, present bool) *blockSeries {
	if !c.transient {
		c.metas = metas[len(metas):]
		return &blockSeries{r: c.r, id: id, metas: metas[:len(metas):len(metas)], known: present}
	}
	if c.one == nil {
		c.one = &blockSeries{}
	}
	*c.one = blockSeries{r: c.r, id: id, metas: metas, known: present, own: c.pairs, of: c}
	return c.one
}

// makeRoom begins a slab, no longer than what is still needed, when little is left of one and a few
// series are to come.
func (c *blockCursor) makeRoom() {
	left := c.ids.Len() + 1
	need := left*max(c.kept, 1) + c.long // an entry is read as a whole
	if left > fewSeries && cap(c.metas) < min(need, max(metaSlab/8, c.long)) {
		c.metas = make([]index.ChunkMeta, 0, min(need, max(metaSlab, c.long)))
	}
}

// blockSeries is one series of a block in a snapshot. If somebody may hold on to it its labels are
// not kept, but read again when they are asked for: of a series that other places have, too, mostly
// nobody does.
type blockSeries struct {
	r     *blockReader
	id    uint64
	metas []index.ChunkMeta  // those in the range
	own   []index.SymbolPair // its labels, if it is transient
	of    *blockCursor       // which has labels of the one before, if it is transient
	known bool               // that it has a sample that may be seen
}

// usualLabels is up to how many labels nothing is allocated.
const usualLabels = 64

// pairs returns the labels, in room unless they are known. They were read once, when the cursor
// came to the series. When they cannot be read again, which only happens to a file that was cut
// under us, the series set ends with the error.
func (s *blockSeries) pairs(room []index.SymbolPair) []index.SymbolPair {
	if len(s.own) > 0 {
		return s.own
	}
	pairs, err := s.r.Dir.Index().SeriesLabels(s.id, room)
	if err != nil {
		s.r.fail(err)
	}
	return pairs
}

// labels returns the labels. Errors are treated as pairs does it.
func (s *blockSeries) labels() labels.Labels {
	var room [usualLabels]index.SymbolPair
	var few [512]byte
	encoded, err := s.r.Dir.Index().AppendLabels(few[:0], s.pairs(room[:0]))
	if err != nil {
		s.r.fail(err)
		return labels.Labels{}
	}
	ls, err := labels.FromEncoded(encoded)
	if err != nil {
		s.r.fail(err)
	}
	return ls
}

// appendLabels appends the labels. Errors are treated as pairs does it.
func (s *blockSeries) appendLabels(dst []labels.Label) []labels.Label {
	if c := s.of; c != nil {
		dst, err := appendBlockLabels(dst, &c.near, s.own, &c.symbols, s.r.Dir.Index())
		if err != nil {
			s.r.fail(err)
		}
		return dst
	}
	var room [usualLabels]index.SymbolPair
	for _, p := range s.pairs(room[:0]) {
		name, err := s.r.symbol(p.Name)
		if err != nil {
			s.r.fail(err)
			return dst
		}
		value, err := s.r.symbol(p.Value)
		if err != nil {
			s.r.fail(err)
			return dst
		}
		dst = append(dst, labels.Label{Name: name, Value: value})
	}
	return dst
}

func (s *blockSeries) number() uint64 { return s.id }

// labelKeys gives a label the numbers of its symbols. Of a foreign block whose labels are
// not in order, or empty, only the text says what they are: labels puts them right.
func (s *blockSeries) labelKeys(dst []uint64) []uint64 {
	var room [usualLabels]index.SymbolPair
	pairs := s.pairs(room[:0])
	for i, p := range pairs {
		if i > 0 && p.Name <= pairs[i-1].Name || p.Value == 0 {
			return dst[:0]
		}
		dst = append(dst, uint64(p.Name)<<32|uint64(p.Value))
	}
	return dst
}

func (s *blockSeries) labelText(dst []byte, key uint64) (text []byte, nameBytes int, err error) {
	name, err := s.r.symbol(uint32(key >> 32)) // kept for the query once many are asked for
	if err != nil {
		return dst, 0, err
	}
	text, err = s.r.Dir.Index().AppendSymbol(append(dst, name...), uint32(key))
	return text, len(name), err
}

func (s *blockSeries) present() bool { return s.known }

func (s *blockSeries) span() (mint, maxt int64) {
	mint, maxt = s.metas[0].MinT, s.metas[0].MaxT
	for _, m := range s.metas[1:] {
		mint, maxt = min(mint, m.MinT), max(maxt, m.MaxT)
	}
	if s.r.whole {
		return mint, maxt
	}
	return max(mint, s.r.mint), min(maxt, s.r.maxt)
}

func (s *blockSeries) outline(*outlineRoom, bool) ([]index.ChunkMeta, samplemerge.Bounds, bool) {
	return s.metas, s.r.visible(s.id), false
}

func (s *blockSeries) open(reuse chunkSource) chunkSource {
	src, ok := reuse.(*blockChunks)
	if !ok {
		src = &blockChunks{}
	}
	src.chunks, src.metas = s.r.Dir.Chunks(), s.metas
	src.run.Reset()
	src.in = s.r.visible(s.id)
	return src
}

// runBytes bounds how far from the first to the last of chunks that are read together: eight
// of those that most series have, 120 samples of thirty bits (BenchmarkSelectBlock).
const runBytes = 4 << 10

// blockChunks gives the chunks of a block's series.
type blockChunks struct {
	chunks *chunks.Segments
	metas  []index.ChunkMeta
	in     samplemerge.Bounds
	last   chunks.BlockRef
	run    chunks.Run // what was read last
	buf    []byte     // the same, of a chunk that is read by itself
}

// Next implements chunkSource.
func (bc *blockChunks) Next(from int64, c *samplemerge.Chunk) (ok bool, err error) {
	for len(bc.metas) > 0 && (bc.metas[0].MaxT < from || len(bc.in.Deleted) > 0 && bc.in.Hides(bc.metas[0].MinT, bc.metas[0].MaxT)) {
		bc.metas = bc.metas[1:]
	}
	if len(bc.metas) == 0 {
		return false, nil
	}
	m := &bc.metas[0]
	if c.Encoding, c.Data, err = bc.read(m.Ref); err != nil {
		return false, err
	}
	c.MinT, c.MaxT, c.Samples, c.Bounds = m.MinT, m.MaxT, nil, bc.in
	bc.last = m.Ref
	bc.metas = bc.metas[1:]
	return true, nil
}

// Place implements chunkSource.
func (bc *blockChunks) Place(err error) error { return bc.chunks.Place(bc.last, err) }

// read returns the chunk that metas begin with. Those behind it are read with it, as far
// as they are near.
func (bc *blockChunks) read(ref chunks.BlockRef) (enc chunkenc.Encoding, data []byte, err error) {
	if enc, data, ok := bc.run.Chunk(ref); ok {
		return enc, data, nil
	}
	last := 0
	for last+1 < len(bc.metas) && bc.metas[last+1].Ref-ref < runBytes {
		last++
	}
	bc.chunks.ReadRun(&bc.run, ref, bc.metas[last].Ref)
	if enc, data, ok := bc.run.Chunk(ref); ok {
		return enc, data, nil
	}
	enc, bc.buf, err = bc.chunks.Read(ref, bc.buf[:0])
	return enc, bc.buf, err
}
