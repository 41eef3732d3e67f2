package index

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// idList are the series ids of a postings list as they stand in the file: be32 words.
type idList []byte

func (l idList) len() int { return len(l) / idBytes }

func (l idList) at(i int) uint64 { return uint64(binary.BigEndian.Uint32(l[i*idBytes:])) }

// all gives the ids as they stand there.
func (l idList) all(yield func(id uint64) bool) {
	for i := range l.len() {
		if !yield(l.at(i)) {
			return
		}
	}
}

func (l idList) appendTo(dst []uint64) []uint64 {
	n := len(dst)
	dst = slices.Grow(dst, l.len())[:n+l.len()]
	for i := range dst[n:] {
		dst[n+i] = uint64(binary.BigEndian.Uint32(l[i*idBytes:]))
	}
	return dst
}

// gallop returns the index of the first id from index i on that is not below id. It
// doubles its step, so that a near one is found at once.
func (l idList) gallop(i int, id uint64) int {
	lo, step := i, 1
	for lo+step <= l.len() && l.at(lo+step-1) < id {
		lo += step
		step *= 2
	}
	hi := min(lo+step, l.len())
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if l.at(mid) < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// mark adds the ids that lie in the range of the bitmap.
func (l idList) mark(b *bitmap) {
	for i := l.gallop(0, b.lo); i < l.len(); i++ {
		id := l.at(i)
		if id > b.hi {
			return
		}
		if id < b.lo { // the bytes have changed since they were checked
			continue
		}
		b.words[(id-b.lo)/64] |= 1 << ((id - b.lo) % 64)
	}
}

// appendSet appends the ids that the bitmap has.
func (l idList) appendSet(dst []uint64, b *bitmap) []uint64 {
	for i := l.gallop(0, b.lo); i < l.len(); i++ {
		id := l.at(i)
		if id > b.hi {
			break
		}
		if id >= b.lo && b.bit(id-b.lo) == 1 { // below: the bytes have changed since they were checked
			dst = append(dst, id)
		}
	}
	return dst
}

// keep keeps the refs that the list has, or those that it does not have, in place.
func (l idList) keep(refs []uint64, in bool) []uint64 {
	kept, i := refs[:0], 0
	for _, ref := range refs {
		i = l.gallop(i, ref)
		if (i < l.len() && l.at(i) == ref) == in {
			kept = append(kept, ref)
		}
	}
	return kept
}

// checkedLists remembers the lists whose bytes were found good, a bit for each entry of
// the table. Safe for concurrent use.
type checkedLists []atomic.Uint64

func newCheckedLists(n int) checkedLists { return make(checkedLists, (n+63)/64) }

func (c checkedLists) has(num int) bool { return c[num/64].Load()>>(num%64)&1 == 1 }

func (c checkedLists) add(num int) { c[num/64].Or(1 << (num % 64)) }

// list returns the ids of a list: checked when it is first used, by its checksum and
// its order, so that whoever reads it may rely on ids of possible entries that never descend.
func (r *Reader) list(num int, e tableEntry) (idList, error) {
	off, end := e.list, r.toc.postingsTable
	if off < r.toc.postings || off > end || end-off < sectionHeadBytes+countBytes+crcBytes {
		return nil, r.corrupt(r.table.base, "postings list lies outside of its section")
	}
	length := uint64(binary.BigEndian.Uint32(r.b[off:]))
	content := off + sectionHeadBytes
	if length < countBytes || length > end-content-crcBytes {
		return nil, r.corrupt(int(off), "postings list is longer than its section")
	}
	ids := idList(r.b[content+countBytes : content+length])
	if count := binary.BigEndian.Uint32(r.b[content:]); uint64(count)*idBytes != uint64(len(ids)) {
		return nil, r.corrupt(int(off), "postings list has another length than its number of series")
	}
	if r.checked.has(num) {
		return ids, nil
	}
	if err := r.checkList(int(off), r.b[content:content+length], ids); err != nil {
		return nil, err
	}
	r.checked.add(num)
	return ids, nil
}

func (r *Reader) checkList(off int, content []byte, ids idList) error {
	end := off + sectionHeadBytes + len(content)
	if binary.BigEndian.Uint32(r.b[end:]) != encbuf.Checksum(content) {
		return r.corrupt(off, "checksum of the postings list does not match")
	}
	for i := 1; i < ids.len(); i++ {
		if ids.at(i) < ids.at(i-1) { // old writers name a series twice that has a label twice
			return r.corrupt(off, "series ids of the postings list do not ascend")
		}
	}
	if n := ids.len(); n > 0 && (!r.holds(ids.at(0)) || !r.holds(ids.at(n-1))) {
		return r.corrupt(off, "postings list has a series outside of the series section")
	}
	return nil
}

// allPostings are all series, decoded a few at a time: mapped bytes are only touched
// where a fault is caught.
type allPostings struct {
	r    *Reader
	ids  idList
	buf  [256]uint64
	rest refPostings // of buf
	err  error
}

// AllSeries returns the ids of all series, ascending. They end with an error if the
// list is damaged or its memory faults; the reader must stay open meanwhile.
func (r *Reader) AllSeries() Postings {
	p := &allPostings{r: r}
	p.err = r.guard(func() (err error) {
		p.ids, err = r.allIDs()
		return err
	})
	return p
}

// allIDs returns the list of all series.
func (r *Reader) allIDs() (idList, error) {
	c := r.table.cursor(0)
	e, ok := c.next()
	if !ok {
		return nil, r.tableCorrupt()
	}
	return r.list(0, e)
}

func (p *allPostings) Next() bool {
	return p.rest.Next() || p.refill() && p.rest.Next()
}

// refill decodes the next ids; false if there are none.
func (p *allPostings) refill() bool {
	n := min(p.ids.len(), len(p.buf))
	if n == 0 || p.err != nil {
		return false
	}
	p.err = p.r.guard(func() error {
		p.ids[:n*idBytes].appendTo(p.buf[:0])
		return nil
	})
	p.ids = p.ids[n*idBytes:]
	p.rest = refPostings{rest: p.buf[:n], at: p.rest.at}
	return p.err == nil
}

func (p *allPostings) Seek(ref uint64) bool {
	if p.err != nil || p.rest.Seek(ref) {
		return p.err == nil
	}
	p.err = p.r.guard(func() error {
		p.ids = p.ids[p.ids.gallop(0, ref)*idBytes:]
		return nil
	})
	return p.err == nil && p.Next()
}

func (p *allPostings) At() uint64 { return p.rest.At() }
func (p *allPostings) Err() error { return p.err }

var _ Postings = (*allPostings)(nil)

// guard runs fn, which reads mapped bytes, and gives faults of the memory as errors.
func (r *Reader) guard(fn func() error) error {
	if r.closed.Load() {
		return ErrClosed
	}
	return r.placed(fileutil.GuardFaults(fn))
}

// placed gives a fault of the memory the name of the file: it is damage like other kinds.
func (r *Reader) placed(err error) error {
	if errors.Is(err, fileutil.ErrMemoryFault) {
		return &unreadable{encbuf.Corrupt(0, err.Error()).At(r.name, 0)}
	}
	return err
}

// unreadable is damage that a fault of the memory has shown.
type unreadable struct{ damage *encbuf.CorruptError }

func (u *unreadable) Error() string   { return u.damage.Error() }
func (u *unreadable) Unwrap() []error { return []error{u.damage, fileutil.ErrMemoryFault} }
