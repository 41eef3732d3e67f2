package index

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/internal/encbuf"
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

// blockLists are the postings lists of a block. They have the numbers of their entries in
// the offset table.
type blockLists struct {
	file       *blockFile
	table      *offsetTable
	series     *seriesSection
	first, end uint64 // offsets in the file
	checked    checkedLists
}

// get returns the ids of a list, whose entry has that number: checked when it is first used, by its
// checksum and its order, so that whoever reads it may rely on ids of possible entries that never
// descend.
func (bl *blockLists) get(num int, e tableEntry) (idList, error) {
	off, end := e.list, bl.end
	if off < bl.first || off > end || end-off < sectionHeadBytes+countBytes+crcBytes {
		return nil, bl.file.corrupt(bl.table.base, "postings list lies outside of its section")
	}
	length := uint64(binary.BigEndian.Uint32(bl.file.b[off:]))
	content := off + sectionHeadBytes
	if length < countBytes || length > end-content-crcBytes {
		return nil, bl.file.corrupt(int(off), "postings list is longer than its section")
	}
	ids := idList(bl.file.b[content+countBytes : content+length])
	if count := binary.BigEndian.Uint32(bl.file.b[content:]); uint64(count)*idBytes != uint64(len(ids)) {
		return nil, bl.file.corrupt(int(off), "postings list has another length than its number of series")
	}
	if bl.checked.has(num) {
		return ids, nil
	}
	if err := bl.check(int(off), bl.file.b[content:content+length], ids); err != nil {
		return nil, err
	}
	bl.checked.add(num)
	return ids, nil
}

// check verifies the checksum and the order of a list.
func (bl *blockLists) check(off int, content []byte, ids idList) error {
	end := off + sectionHeadBytes + len(content)
	if binary.BigEndian.Uint32(bl.file.b[end:]) != encbuf.Checksum(content) {
		return bl.file.corrupt(off, "checksum of the postings list does not match")
	}
	for i := 1; i < ids.len(); i++ {
		if ids.at(i) < ids.at(i-1) { // old writers name a series twice that has a label twice
			return bl.file.corrupt(off, "series ids of the postings list do not ascend")
		}
	}
	if n := ids.len(); n > 0 && (!bl.series.holds(ids.at(0)) || !bl.series.holds(ids.at(n-1))) {
		return bl.file.corrupt(off, "postings list has a series outside of the series section")
	}
	return nil
}

// all returns the list of all series.
func (bl *blockLists) all() (idList, error) {
	c := bl.table.cursor(0)
	e, ok := c.next()
	if !ok {
		return nil, bl.table.corrupt()
	}
	return bl.get(0, e)
}

// each gives lists to use, and looks at the context every thousand of them.
func (bl *blockLists) each(ctx context.Context, pairs []Pair, use func(idList)) error {
	c := bl.table.cursor(0)
	for i, p := range pairs {
		if i%pollEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if int(p) < c.num {
			c = bl.table.cursor(int(p))
		}
		c.seek(int(p))
		e, ok := c.next()
		if !ok {
			return bl.table.corrupt()
		}
		ids, err := bl.get(int(p), e)
		if err != nil {
			return err
		}
		use(ids)
	}
	return nil
}

// cost is the number of series in the lists.
func (bl *blockLists) cost(ctx context.Context, pairs []Pair) (n int, err error) {
	err = bl.each(ctx, pairs, func(ids idList) { n += ids.len() })
	return n, err
}

// read is that of listSource.
func (bl *blockLists) read(ctx context.Context, pairs []Pair, use func(refList)) error {
	return bl.each(ctx, pairs, func(ids idList) { use(refList{ids: ids}) })
}

// bounds is that of listSource.
func (bl *blockLists) bounds(ctx context.Context, one []Pair) (lo, hi uint64, err error) {
	err = bl.each(ctx, one, func(ids idList) {
		if ids.len() > 0 {
			lo, hi = ids.at(0), ids.at(ids.len()-1)
		}
	})
	return lo, hi, err
}

// allPostings are all series, decoded a few at a time: mapped bytes are only touched
// where a fault is caught.
type allPostings struct {
	file *blockFile
	ids  idList
	buf  [256]uint64
	rest refPostings // of buf
	err  error
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
	p.err = p.file.guard(func() error {
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
	p.err = p.file.guard(func() error {
		p.ids = p.ids[p.ids.gallop(0, ref)*idBytes:]
		return nil
	})
	return p.err == nil && p.Next()
}

func (p *allPostings) At() uint64 { return p.rest.At() }
func (p *allPostings) Err() error { return p.err }

var _ Postings = (*allPostings)(nil)
