package memseries

import (
	"iter"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

const (
	pageBits = 8
	pageLen  = 1 << pageBits // series in a page: 40 KiB, and one shard

	// A page further away than this many pages, and twice as far as there are pages,
	// would cost more in the page table than its series are worth.
	farPages = 4096

	seriesBytes = int64(unsafe.Sizeof(Series{})) // for SizeBytes only
)

// page holds series by the low bits of their ref, and nothing else: with a few bytes
// more it would take 48 KiB of the heap.
type page struct {
	series [pageLen]Series
}

// pageCount is how many slots of a page were live once, and are dead and forgotten.
type pageCount struct{ used, dead uint16 }

// Directory is every series of the head: by ref through pages, without a lock; by
// label set through a hash table.
type Directory struct {
	postings *index.MemPostings
	shards   [NumShards]Shard
	tables   [tableCount]table
	arena    pairArena

	chunkBytes *pieceArena

	pages atomic.Pointer[[]atomic.Pointer[page]]
	far   sync.Map // ref to *Series: refs far away from the rest

	live     atomic.Int64 // series that can be found
	numPages atomic.Int64
	numFar   atomic.Int64

	fullBytes atomic.Int64 // full chunks that no file has yet
	nextRef   atomic.Uint64

	collected      []byte       // of CollectFull, for the next one
	collectedBytes atomic.Int64 // its capacity

	create struct {
		sync.Mutex
		last   []labels.Label // of the series that was created last, and their pairs
		pairs  []index.Pair
		dead   []uint64     // removed since the postings were cleaned
		gone   []index.Pair // their label pairs
		counts []pageCount  // by number of the page
	}
}

// NewDirectory returns an empty one whose first series gets ref 1.
func NewDirectory(cutting Cutting) *Directory {
	d := &Directory{postings: index.NewMemPostings(), chunkBytes: newPieceArena()}
	for i := range d.shards {
		d.shards[i].init(cutting, d.chunkBytes, &d.fullBytes)
	}
	d.pages.Store(new([]atomic.Pointer[page]))
	d.nextRef.Store(1)
	return d
}

// Postings returns the index of the label pairs of all series in the directory.
func (d *Directory) Postings() *index.MemPostings { return d.postings }

// Len returns the number of series.
func (d *Directory) Len() int { return int(d.live.Load()) }

// NextRef returns the smallest ref never handed out.
func (d *Directory) NextRef() uint64 { return d.nextRef.Load() }

// RaiseNextRef makes sure that refs below next are never handed out. What nothing could
// ever be handed out above, as only damage or malice names it, changes nothing.
func (d *Directory) RaiseNextRef(next uint64) {
	if next > uint64(chunks.MaxSeriesRef)+1 {
		return
	}
	d.create.Lock()
	defer d.create.Unlock()
	d.nextRef.Store(max(d.nextRef.Load(), next))
}

// ByRef returns a series, nil if there is none with that ref.
func (d *Directory) ByRef(ref uint64) *Series {
	pages := *d.pages.Load()
	if p := ref >> pageBits; p < uint64(len(pages)) {
		if pg := pages[p].Load(); pg != nil {
			if s := &pg.series[ref&(pageLen-1)]; s.slot.Load() == slotLive {
				return s
			}
		}
	}
	if d.numFar.Load() == 0 {
		return nil
	}
	return d.farByRef(ref)
}

func (d *Directory) farByRef(ref uint64) *Series {
	if s, ok := d.far.Load(ref); ok && s.(*Series).slot.Load() == slotLive {
		return s.(*Series)
	}
	return nil
}

// ByLabels returns the series with these labels, nil if there is none.
func (d *Directory) ByLabels(ls labels.Labels, hash uint64) *Series {
	var found *Series
	d.tables[hash%tableCount].find(hash, func(ref uint64) bool {
		s := d.ByRef(ref)
		if s == nil || s.hash != hash || !d.hasLabels(s, ls) {
			return false
		}
		found = s
		return true
	})
	return found
}

func (d *Directory) hasLabels(s *Series, ls labels.Labels) bool {
	if ls.Len() != int(s.npairs) {
		return false
	}
	pairs := d.Pairs(s)
	i := 0
	for l := range ls.All() {
		name, value := d.postings.Label(pairs[i])
		if l.Value != value || l.Name != name {
			return false
		}
		i++
	}
	return true
}

// FindPinned returns the series with these labels and pins it, nil if there is none.
func (d *Directory) FindPinned(ls labels.Labels) *Series { return d.pinned(ls, ls.Hash()) }

// GetOrCreate returns the series with these labels and pins it; a new one gets the
// next ref. The labels are valid. For a series that is there, FindPinned waits for nobody.
// Errors: ErrRefs, ErrFull.
func (d *Directory) GetOrCreate(ls labels.Labels) (s *Series, created bool, err error) {
	hash := ls.Hash()
	d.create.Lock()
	defer d.create.Unlock()
	if s := d.pinned(ls, hash); s != nil {
		return s, false, nil
	}
	ref := d.nextRef.Load()
	if ref > uint64(chunks.MaxSeriesRef) {
		return nil, false, ErrRefs
	}
	if !d.postings.Room(ls.Len()) {
		return nil, false, ErrFull
	}
	d.nextRef.Store(ref + 1)
	s = d.createLocked(ref, ls, hash)
	s.Pin()
	d.postings.Add(ref, d.Pairs(s))
	return s, true, nil
}

// pinned finds a series and pins it, unless it is removed at that moment.
func (d *Directory) pinned(ls labels.Labels, hash uint64) *Series {
	s := d.ByLabels(ls, hash)
	if s == nil {
		return nil
	}
	s.Pin()
	if s.Dead() {
		s.Unpin()
		return nil
	}
	return s
}

// Restore makes a series with a given ref, as recovery reads it from the log. The
// postings learn of it by FinishRestore. The ref is not in use; the labels are new, have
// that hash, and are not kept. Errors: ErrRefs, ErrRefUsed, ErrFull.
func (d *Directory) Restore(ref uint64, ls labels.Labels, hash uint64) (*Series, error) {
	if ref == 0 || ref > uint64(chunks.MaxSeriesRef) {
		return nil, ErrRefs
	}
	d.create.Lock()
	defer d.create.Unlock()
	if d.removed(ref) {
		return nil, ErrRefUsed
	}
	if !d.postings.Room(ls.Len()) {
		return nil, ErrFull
	}
	d.nextRef.Store(max(d.nextRef.Load(), ref+1))
	return d.createLocked(ref, ls, hash), nil
}

// removed reports whether a series with this ref was there and still holds its slot.
func (d *Directory) removed(ref uint64) bool {
	pages := *d.pages.Load()
	if p := ref >> pageBits; p < uint64(len(pages)) {
		if pg := pages[p].Load(); pg != nil && pg.series[ref&(pageLen-1)].Dead() {
			return true
		}
	}
	s, ok := d.far.Load(ref)
	return ok && s.(*Series).Dead()
}

func (d *Directory) createLocked(ref uint64, ls labels.Labels, hash uint64) *Series {
	pairs := d.internLocked(ls)
	s := d.slotLocked(ref)
	s.ref, s.hash = ref, hash
	s.pairs, s.npairs = d.arena.put(pairs), uint16(len(pairs))
	s.open = chunkenc.EncXOR
	s.cutAt, s.prevMaxt = NoTime, NoTime
	s.pendT.Store(NoTime)
	s.slot.Store(slotLive)
	d.tables[hash%tableCount].insert(hash, ref, d.hashOf)
	d.live.Add(1)
	return s
}

// internLocked returns the pairs of labels, good until the next call. Series that are
// created one after the other differ in few labels, so most stand where the one before had
// them, and cost a comparison instead of a search (BenchmarkOpenSnapshot).
func (d *Directory) internLocked(ls labels.Labels) []index.Pair {
	last, pairs := d.create.last, d.create.pairs
	i := 0
	for l := range ls.All() {
		if i == len(last) {
			last, pairs = append(last, labels.Label{}), append(pairs, 0)
		}
		if last[i] != l {
			pairs[i] = d.postings.Intern(l.Name, l.Value)
			last[i].Name, last[i].Value = d.postings.Label(pairs[i]) // whose strings stay, others may not
		}
		i++
	}
	d.create.last, d.create.pairs = last[:i], pairs[:i]
	return pairs[:i]
}

// removePostingsLocked takes the dead refs out of the lists of pairs. Pairs may go with
// them, and be given out again for other labels.
func (d *Directory) removePostingsLocked(pairs []index.Pair) {
	d.forgetInternedLocked()
	d.postings.Remove(d.removed, pairs...)
}

// forgetInternedLocked makes internLocked look for each pair: the numbers that it has may be
// given to others.
func (d *Directory) forgetInternedLocked() {
	d.create.last, d.create.pairs = d.create.last[:0], d.create.pairs[:0]
}

// slotLocked returns the empty slot of a ref, in a page or on its own.
func (d *Directory) slotLocked(ref uint64) *Series {
	pages := *d.pages.Load()
	p := ref >> pageBits
	if p >= uint64(len(pages)) {
		if p > farPages+2*uint64(d.numPages.Load()) {
			s := new(Series)
			d.far.Store(ref, s)
			d.numFar.Add(1)
			return s
		}
		pages = d.growPagesLocked(p)
	}
	pg := pages[p].Load()
	if pg == nil {
		pg = new(page)
		pages[p].Store(pg)
		d.numPages.Add(1)
	}
	d.create.counts[p].used++
	return &pg.series[ref&(pageLen-1)]
}

// growPagesLocked makes the page table long enough for page p. Readers of the old
// table find the same pages there.
func (d *Directory) growPagesLocked(p uint64) []atomic.Pointer[page] {
	old := *d.pages.Load()
	grown := make([]atomic.Pointer[page], max(16, 2*len(old), int(p)+1))
	for i := range old {
		grown[i].Store(old[i].Load())
	}
	d.pages.Store(&grown)
	d.create.counts = append(d.create.counts, make([]pageCount, len(grown)-len(d.create.counts))...)
	return grown
}

// hashOf gives the hash of a series for the tables, dead or alive.
func (d *Directory) hashOf(ref uint64) uint64 {
	pages := *d.pages.Load()
	if p := ref >> pageBits; p < uint64(len(pages)) {
		if pg := pages[p].Load(); pg != nil && pg.series[ref&(pageLen-1)].ref == ref {
			return pg.series[ref&(pageLen-1)].hash
		}
	}
	if s, ok := d.far.Load(ref); ok {
		return s.(*Series).hash
	}
	panic("BUG: ref in the table of label sets without a series")
}

// All yields every series in ascending order of ref.
func (d *Directory) All() iter.Seq[*Series] {
	return func(yield func(*Series) bool) {
		far := d.farSorted()
		for s := range d.paged() {
			for len(far) > 0 && far[0].ref < s.ref {
				if !yield(far[0]) {
					return
				}
				far = far[1:]
			}
			if !yield(s) {
				return
			}
		}
		for _, s := range far {
			if !yield(s) {
				return
			}
		}
	}
}

// paged yields the series that live in pages.
func (d *Directory) paged() iter.Seq[*Series] {
	return func(yield func(*Series) bool) {
		pages := *d.pages.Load()
		for i := range pages {
			pg := pages[i].Load()
			if pg == nil {
				continue
			}
			for j := range pg.series {
				if s := &pg.series[j]; s.slot.Load() == slotLive && !yield(s) {
					return
				}
			}
		}
	}
}

func (d *Directory) farSorted() []*Series {
	var far []*Series
	d.far.Range(func(_, v any) bool {
		if s := v.(*Series); s.slot.Load() == slotLive {
			far = append(far, s)
		}
		return true
	})
	sort.Slice(far, func(i, k int) bool { return far[i].ref < far[k].ref })
	return far
}
