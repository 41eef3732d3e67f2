package memseries

import (
	"iter"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// Directory is every series of the head, by ref and by label set: it creates series and removes
// them. What is done with their samples its parts do.
type Directory struct {
	// Shards are the locks of the series, and their samples behind them.
	Shards Shards
	// Shelf has the full chunks.
	Shelf Shelf
	// Truncation forgets what blocks have.
	Truncation Truncation
	// Budget bounds what all series take.
	Budget Budget

	pages      pageTable
	labels     labelSets
	chunkBytes *pieceArena

	// Kept says of a series without samples here that somebody else has some, so that it stays. It
	// is called with the shard locked. nil: nobody has.
	Kept func(ref uint64) bool

	live    atomic.Int64 // series that can be found
	nextRef atomic.Uint64

	create struct {
		sync.Mutex
		dead []uint64     // removed since the postings were cleaned
		gone []index.Pair // their label pairs
	}
}

// NewDirectory returns an empty one whose first series gets ref 1.
func NewDirectory(cutting Cutting) *Directory {
	d := &Directory{chunkBytes: newPieceArena()}
	d.labels.postings = index.NewMemPostings()
	d.pages.init()
	d.Shelf.shards, d.Shelf.arena = &d.Shards, d.chunkBytes
	d.Shards.init(&d.pages, cutting, d.chunkBytes, &d.Shelf)
	d.Truncation = Truncation{shards: &d.Shards, shelf: &d.Shelf, arena: d.chunkBytes}
	d.Budget.d = d
	d.nextRef.Store(1)
	return d
}

// Postings returns the index of the label pairs of all series in the directory.
func (d *Directory) Postings() *index.MemPostings { return d.labels.postings }

// Pairs returns the label pairs of a series, sorted by label name. They must not be changed.
func (d *Directory) Pairs(s *Series) []index.Pair { return d.labels.pairsOf(s) }

// Labels returns a copy of the labels of a series.
func (d *Directory) Labels(s *Series) labels.Labels {
	pairs := d.Pairs(s)
	ls := make([]labels.Label, len(pairs))
	for i, p := range pairs {
		ls[i].Name, ls[i].Value = d.Postings().Label(p)
	}
	return labels.New(ls...)
}

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
func (d *Directory) ByRef(ref uint64) *Series { return d.pages.byRef(ref) }

// All yields every series in ascending order of ref.
func (d *Directory) All() iter.Seq[*Series] { return d.pages.all() }

// ByLabels returns the series with these labels, nil if there is none.
func (d *Directory) ByLabels(ls labels.Labels, hash uint64) *Series {
	return d.labels.find(ls, hash, &d.pages)
}

// Past returns what the series were when a commit was the newest.
func (d *Directory) Past(seq uint64) Past { return Past{d, seq} }

// FindPinned returns the series with these labels and pins it, nil if there is none.
func (d *Directory) FindPinned(ls labels.Labels) *Series { return d.pinned(ls, ls.Hash()) }

// GetOrCreate returns the series with these labels and pins it; a new one gets the
// next ref. The labels are valid. For a series that is there, FindPinned waits for nobody.
// Errors: ErrRefs, ErrFull, ErrBudget.
func (d *Directory) GetOrCreate(ls labels.Labels) (s *Series, created bool, err error) {
	hash := ls.Hash()
	refused := d.Budget.refuseBytes()
	d.create.Lock()
	defer d.create.Unlock()
	if s := d.pinned(ls, hash); s != nil {
		return s, false, nil
	}
	if refused == nil {
		refused = d.Budget.refuseSeriesLocked()
	}
	if refused != nil {
		return nil, false, refused
	}
	ref := d.nextRef.Load()
	if ref > uint64(chunks.MaxSeriesRef) {
		return nil, false, ErrRefs
	}
	if !d.Postings().Room(ls.Len()) {
		return nil, false, ErrFull
	}
	d.nextRef.Store(ref + 1)
	s = d.createLocked(ref, ls, hash)
	s.Pin()
	d.Postings().Add(ref, d.Pairs(s))
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

func (d *Directory) createLocked(ref uint64, ls labels.Labels, hash uint64) *Series {
	pairs := d.labels.internLocked(ls)
	s := d.pages.addLocked(ref)
	s.ref, s.hash = ref, hash
	s.pairs, s.npairs = d.labels.pairs.put(pairs), uint16(len(pairs))
	s.open = chunkenc.EncXOR
	s.cutAt, s.prevMaxt = NoTime, NoTime
	s.pendT.Store(NoTime)
	s.slot.Store(slotLive)
	d.labels.table(hash).insert(hash, ref, d.pages.hashOf)
	d.live.Add(1)
	return s
}

// SizeBytes returns the memory that the directory holds: series, labels, symbols,
// postings, chunk buffers, all as allocated, free space in them included.
func (d *Directory) SizeBytes() int64 {
	n := int64(unsafe.Sizeof(*d)) + d.pages.sizeBytes() + d.labels.sizeBytes()
	d.create.Lock()
	n += d.labels.pairs.sizeBytes()
	d.create.Unlock()
	return n + d.Shards.sizeBytes() + d.chunkBytes.sizeBytes() + d.Shelf.sizeBytes()
}
