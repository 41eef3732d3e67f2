package memseries

import (
	"iter"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	pageBits = 7
	pageLen  = 1 << pageBits // series in a page: 20 KiB, so that a small database stays small

	// A page further away than this many pages, and twice as far as there are pages,
	// would cost more in the page table than its series are worth.
	farPages = 8192

	seriesBytes = int64(unsafe.Sizeof(Series{}))
	farBytes    = 128 // a sync.Map entry beside its series
)

// page holds series by the low bits of their ref, and nothing else: with a few bytes
// more it would take 21 KiB of the heap.
type page struct {
	series [pageLen]Series
}

// pageCount is how many slots of a page were live once, and are dead and forgotten.
type pageCount struct{ used, dead uint16 }

// pageTable finds series by ref, without a lock: in pages, or one by one if they are far
// away from the rest. What ends in Locked is called under the directory's creation lock.
type pageTable struct {
	pages atomic.Pointer[[]atomic.Pointer[page]]
	far   sync.Map // ref to *Series: refs far away from the rest

	numPages atomic.Int64
	numFar   atomic.Int64

	counts []pageCount // by number of the page; guarded by the creation lock
}

func (p *pageTable) init() { p.pages.Store(new([]atomic.Pointer[page])) }

// byRef returns a series, nil if there is none with that ref.
func (p *pageTable) byRef(ref uint64) *Series {
	pages := *p.pages.Load()
	if n := ref >> pageBits; n < uint64(len(pages)) {
		if pg := pages[n].Load(); pg != nil {
			if s := &pg.series[ref&(pageLen-1)]; s.slot.Load() == slotLive {
				return s
			}
		}
	}
	if p.numFar.Load() == 0 {
		return nil
	}
	return p.farByRef(ref)
}

func (p *pageTable) farByRef(ref uint64) *Series {
	if s, ok := p.far.Load(ref); ok && s.(*Series).slot.Load() == slotLive {
		return s.(*Series)
	}
	return nil
}

// slotOf returns the slot of a series that is live or was, and nil if there is none.
func (p *pageTable) slotOf(ref uint64) *Series {
	pages := *p.pages.Load()
	if n := ref >> pageBits; n < uint64(len(pages)) {
		if pg := pages[n].Load(); pg != nil && pg.series[ref&(pageLen-1)].ref == ref {
			return &pg.series[ref&(pageLen-1)]
		}
	}
	if s, ok := p.far.Load(ref); ok {
		return s.(*Series)
	}
	return nil
}

// removed reports whether a series with this ref was there and still holds its slot.
func (p *pageTable) removed(ref uint64) bool {
	s := p.slotOf(ref)
	return s != nil && s.slot.Load() == slotDead
}

// hashOf gives the hash of a series for the tables, dead or alive.
func (p *pageTable) hashOf(ref uint64) uint64 {
	s := p.slotOf(ref)
	if s == nil {
		panic("BUG: ref in the table of label sets without a series")
	}
	return s.hash
}

// addLocked returns the empty slot of a ref, in a page or on its own.
func (p *pageTable) addLocked(ref uint64) *Series {
	pages := *p.pages.Load()
	n := ref >> pageBits
	if n >= uint64(len(pages)) {
		if n > farPages+2*uint64(p.numPages.Load()) {
			s := new(Series)
			p.far.Store(ref, s)
			p.numFar.Add(1)
			return s
		}
		pages = p.growLocked(n)
	}
	pg := pages[n].Load()
	if pg == nil {
		pg = new(page)
		pages[n].Store(pg)
		p.numPages.Add(1)
	}
	p.counts[n].used++
	return &pg.series[ref&(pageLen-1)]
}

// growLocked makes the table long enough for page n. Readers of the old
// table find the same pages there.
func (p *pageTable) growLocked(n uint64) []atomic.Pointer[page] {
	old := *p.pages.Load()
	grown := make([]atomic.Pointer[page], max(16, 2*len(old), int(n)+1))
	for i := range old {
		grown[i].Store(old[i].Load())
	}
	p.pages.Store(&grown)
	p.counts = append(p.counts, make([]pageCount, len(grown)-len(p.counts))...)
	return grown
}

// freeLocked gives up the slot of a dead series, and its page when it was the last
// one there. A page that still gets new refs, as next is there, stays.
func (p *pageTable) freeLocked(ref, next uint64) {
	if _, ok := p.far.LoadAndDelete(ref); ok {
		p.numFar.Add(-1)
		return
	}
	n := ref >> pageBits
	count := &p.counts[n]
	count.dead++
	if count.dead == count.used && n != next>>pageBits {
		(*p.pages.Load())[n].Store(nil)
		p.numPages.Add(-1)
		*count = pageCount{}
	}
}

// all yields every series in ascending order of ref.
// It is not inlined: its loops would be copied to each place.
//
//go:noinline
func (p *pageTable) all() iter.Seq[*Series] {
	return func(yield func(*Series) bool) {
		far := p.farSorted()
		for s := range p.paged() {
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
func (p *pageTable) paged() iter.Seq[*Series] {
	return func(yield func(*Series) bool) {
		pages := *p.pages.Load()
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

func (p *pageTable) farSorted() []*Series {
	var far []*Series
	p.far.Range(func(_, v any) bool {
		if s := v.(*Series); s.slot.Load() == slotLive {
			far = append(far, s)
		}
		return true
	})
	sort.Slice(far, func(i, k int) bool { return far[i].ref < far[k].ref })
	return far
}

// sizeBytes returns the memory of the series, dead ones and free slots included.
func (p *pageTable) sizeBytes() int64 {
	n := p.numPages.Load()*int64(unsafe.Sizeof(page{})) + p.numFar.Load()*(seriesBytes+farBytes)
	return n + int64(len(*p.pages.Load()))*8
}
