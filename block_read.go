package tsdb

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
)

// blockReader reads one block in a snapshot.
type blockReader struct {
	b          viewBlock
	mint, maxt int64
	whole      bool                   // chunks in the range may be seen beyond it
	failure    *atomic.Pointer[error] // of the Querier
	symbols    *symbolCache           // shared by all Selects of the Querier
	ownSymbols symbolCache            // what symbols is, but for narrowed ones
}

// narrow implements source.
func (r *blockReader) narrow(mint, maxt int64, whole bool) source {
	if mint > maxt || !r.b.overlaps(mint, maxt) {
		return nil
	}
	return &blockReader{b: r.b, mint: mint, maxt: maxt, whole: whole, failure: r.failure, symbols: r.symbols}
}

// visible returns what may be seen of the chunks of a series that are in the range.
func (r *blockReader) visible(id uint64) bounds {
	in := bounds{mint: r.mint, maxt: r.maxt, deleted: r.b.deleted.Of(id)}
	if r.whole {
		in.mint, in.maxt = math.MinInt64, math.MaxInt64
	}
	return in
}

// fewSeries is up to how many series a query makes no table and no slabs for, which would
// be most of its cost (BenchmarkSelectBlock/one).
const fewSeries = 16

// symbol returns a string of the symbol table. It belongs to the caller for ever.
func (r *blockReader) symbol(n uint32) (string, error) { return r.symbols.symbol(r.b.dir.Index(), n) }

// selectSeries returns the series that match and have chunks in the range. Their ids
// ascend as their labels do, so nothing is sorted, and an entry is read when the cursor
// comes to it.
func (r *blockReader) selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, passed *Warnings) (seriesCursor, error) {
	ids, err := r.b.dir.Index().SelectIDs(ctx, ms...)
	if err != nil {
		return nil, err
	}
	if r.b.dir.Disordered() {
		return r.selectDisordered(ctx, ids, passed)
	}
	c := &blockCursor{r: r, ids: ids, transient: transient, passed: passed}
	if n := ids.Len(); n > fewSeries {
		r.symbols.expect(n)
		c.near.slots = symbolSlots(n)
	}
	return c, nil
}

// blockCursor reads the entries of selected series.
type blockCursor struct {
	r     *blockReader
	ids   index.IDs
	done  int
	metas []index.ChunkMeta // what is left of a slab that series get their chunks from
	long  int               // the most chunks of one series so far
	kept  int               // the same, of those in the range

	pairs []index.SymbolPair // labels of the last series

	passed *Warnings // gets the entries that cannot be read

	transient bool         // all of the slab is for one series, the last one
	one       *blockSeries // which is this
	near      nearSymbols  // of the last one
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
		pairs, metas, err := c.r.b.dir.Index().Series(id, c.pairs[:0], c.metas[:0])
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

// maxPassedBy is how many damaged entries a result has warnings of.
const maxPassedBy = 16

// passBy leaves a damaged entry of the index out, with a warning that names block and place: what
// it says is lost, and the others are as good. A device that cannot be read is another matter.
func (r *blockReader) passBy(err error, passed *Warnings) error {
	if !isDamage(err) {
		return err
	}
	if len(*passed) < maxPassedBy {
		*passed = append(*passed, &refusal{ErrMissing, errors.WithMessagef(err, "a series of block %s", r.b.meta.ULID)})
	}
	return nil
}

// isDamage tells damage of what is stored from a device that cannot be read, which may pass.
func isDamage(err error) bool {
	return errors.Is(err, ErrCorrupt) && !errors.Is(err, fileutil.ErrMemoryFault)
}

func (c *blockCursor) most() int        { return c.ids.Len() }
func (c *blockCursor) allPresent() bool { return false }
func (c *blockCursor) place() placeID   { return c.r.b.place }

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
	*c.one = blockSeries{r: c.r, id: id, metas: metas, known: present, own: c.pairs, near: &c.near}
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

// inRange cuts a list of chunks, which are in order, to those that overlap the range.
func (r *blockReader) inRange(metas []index.ChunkMeta) []index.ChunkMeta {
	for len(metas) > 0 && metas[0].MaxT < r.mint {
		metas = metas[1:]
	}
	n := len(metas)
	for n > 0 && metas[n-1].MinT > r.maxt {
		n--
	}
	return metas[:n]
}

// presence tells what the bounds of a series' chunks, and what is deleted, say of samples that may be
// seen. The ends of a chunk are samples.
func (r *blockReader) presence(id uint64, metas []index.ChunkMeta) memseries.Presence {
	in := bounds{mint: r.mint, maxt: r.maxt, deleted: r.b.deleted.Of(id)}
	found := memseries.Absent
	for i := range metas {
		m := &metas[i]
		if in.shows(m.MaxT) || in.shows(m.MinT) {
			return memseries.Present
		}
		if !in.hides(m.MinT, m.MaxT) {
			found = memseries.Possible
		}
	}
	return found
}

// all reports whether the range covers the block, nothing of it is deleted, and no series is without
// chunks, so that every series of the index is visible.
func (r *blockReader) all() bool {
	return r.b.dir.Listed() && r.mint <= r.b.early && r.maxt >= r.b.late-1 && r.b.deleted.Len() == 0
}

// labelNames returns the names that visible matching series have, sorted.
func (r *blockReader) labelNames(ctx context.Context, ms []*labels.Matcher, passed *Warnings) ([]string, error) {
	if r.b.dir.Disordered() {
		return r.labelsOfDisordered(ctx, ms, passed, func(l labels.Label) (string, bool) { return l.Name, true })
	}
	if len(ms) == 0 && r.all() {
		return r.b.dir.Index().LabelNames(ctx)
	}
	return r.labelsOfSelected(ctx, ms, func(p index.SymbolPair) uint32 { return p.Name }, "", passed)
}

// labelValues returns the values of name that visible matching series have, sorted.
func (r *blockReader) labelValues(ctx context.Context, name string, ms []*labels.Matcher, passed *Warnings) ([]string, error) {
	if r.b.dir.Disordered() {
		return r.labelsOfDisordered(ctx, ms, passed, func(l labels.Label) (string, bool) { return l.Value, l.Name == name })
	}
	if len(ms) == 0 && r.all() {
		return r.b.dir.Index().LabelValues(ctx, name)
	}
	return r.labelsOfSelected(ctx, ms, func(p index.SymbolPair) uint32 { return p.Value }, name, passed)
}

// labelsOfSelected collects one side of each label of selected series; with a name, of
// the labels with that name.
func (r *blockReader) labelsOfSelected(ctx context.Context, ms []*labels.Matcher, side func(index.SymbolPair) uint32, name string, passed *Warnings) ([]string, error) {
	cursor, err := r.selectSeries(ctx, ms, true, passed)
	if err != nil {
		return nil, err
	}
	wanted := map[uint32]bool{} // symbols of names, and whether it is the one
	picked := map[uint32]struct{}{}
	var prober sampleProber
	var fresh []uint32
	for {
		next, err := cursor.next(ctx)
		if err != nil {
			return nil, err
		}
		if next == nil {
			break
		}
		s := next.(*blockSeries)
		fresh = fresh[:0]
		for _, p := range s.own {
			ok, known := wanted[p.Name]
			if !known {
				if ok, err = r.isNamed(p.Name, name); err != nil {
					return nil, err
				}
				wanted[p.Name] = ok
			}
			if _, has := picked[side(p)]; ok && !has {
				fresh = append(fresh, side(p))
			}
		}
		if len(fresh) == 0 || !s.known && !prober.hasSample(s.open(prober.src)) {
			continue
		}
		for _, n := range fresh {
			picked[n] = struct{}{}
		}
	}
	return r.strings(picked)
}

// isNamed reports whether a symbol is a name; an empty name is any.
func (r *blockReader) isNamed(symbol uint32, name string) (bool, error) {
	text, err := r.symbol(symbol)
	return name == "" || text == name, err
}

// strings returns symbols in their order, which is that of their numbers.
func (r *blockReader) strings(picked map[uint32]struct{}) ([]string, error) {
	list := make([]string, 0, len(picked))
	for _, n := range slices.Sorted(maps.Keys(picked)) {
		s, err := r.symbol(n)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// blockSeries is one series of a block in a snapshot. If somebody may hold on to it its labels are not
// kept, but read again when they are asked for: of a series that other places have, too, mostly
// nobody does.
type blockSeries struct {
	r     *blockReader
	id    uint64
	metas []index.ChunkMeta  // those in the range
	own   []index.SymbolPair // its labels, if it is transient
	near  *nearSymbols       // of the one before, if it is transient
	known bool               // that it has a sample that may be seen
}

// usualLabels is up to how many labels nothing is allocated.
const usualLabels = 64

// pairs returns the labels, in room unless they are known. They were read once, when the cursor came
// to the series. When they cannot be read again, which only happens to a file that was cut under us,
// the series set ends with the error.
func (s *blockSeries) pairs(room []index.SymbolPair) []index.SymbolPair {
	if len(s.own) > 0 {
		return s.own
	}
	pairs, err := s.r.b.dir.Index().SeriesLabels(s.id, room)
	if err != nil {
		s.r.fail(err)
	}
	return pairs
}

// labels returns the labels. Errors are treated as pairs does it.
func (s *blockSeries) labels() labels.Labels {
	var room [usualLabels]index.SymbolPair
	var few [512]byte
	encoded, err := s.r.b.dir.Index().AppendLabels(few[:0], s.pairs(room[:0]))
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
	if s.near != nil {
		dst, err := s.near.appendLabels(dst, s.own, s.r.b.dir.Index())
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
	text, err = s.r.b.dir.Index().AppendSymbol(append(dst, name...), uint32(key))
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

func (r *blockReader) fail(err error) { r.failure.CompareAndSwap(nil, &err) }

func (s *blockSeries) open(reuse chunkSource) chunkSource {
	src, ok := reuse.(*blockChunks)
	if !ok {
		src = &blockChunks{}
	}
	src.chunks, src.metas = s.r.b.dir.Chunks(), s.metas
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
	in     bounds
	run    chunks.Run // what was read last
	buf    []byte     // the same, of a chunk that is read by itself
}

func (bc *blockChunks) next(mint int64, c *sourceChunk) (ok bool, err error) {
	for len(bc.metas) > 0 && (bc.metas[0].MaxT < mint || len(bc.in.deleted) > 0 && bc.in.hides(bc.metas[0].MinT, bc.metas[0].MaxT)) {
		bc.metas = bc.metas[1:]
	}
	if len(bc.metas) == 0 {
		return false, nil
	}
	m := &bc.metas[0]
	if c.enc, c.data, err = bc.read(m.Ref); err != nil {
		return false, err
	}
	c.minT, c.maxT, c.in = m.MinT, m.MaxT, &bc.in
	bc.metas = bc.metas[1:]
	return true, nil
}

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
