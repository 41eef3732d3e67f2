package index

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/foreground"
)

// listEntry is a postings list to write. The first one is that of all series, the
// others are in order of their pairs.
type listEntry struct {
	pair  SymbolPair // nothing for the list of all series
	count uint32     // of its series
	off   uint64     // in the file
}

func (l *listEntry) bytes() uint64 {
	return sectionHeadBytes + countBytes + idBytes*uint64(l.count) + crcBytes
}

// layOut decides where each list goes and makes sure that all that is left to write
// fits into its fields. Pairs get the number of their list.
func (w *Writer) layOut() ([]listEntry, error) {
	order := make([]numberedKey, len(w.counts))
	for num, key := range w.pairs.keys {
		order[num] = numberedKey{key, uint32(num)}
	}
	var way foreground.Steps
	sortKeys(order, make([]numberedKey, len(order)), func(a, b numberedKey) bool { return false })
	lists := make([]listEntry, 1, 1+len(order))
	lists[0].count = uint32(w.series)
	for _, k := range order {
		lists = append(lists, listEntry{pair: keyPair(k.key), count: w.counts[k.num]})
	}
	off := uint64(w.out.pos())
	table := uint64(countBytes)
	for i := range lists {
		way.Step(pollEvery)
		l := &lists[i]
		l.off = alignUp(off, listAlign)
		off = l.off + l.bytes()
		w.body = w.appendEntry(w.body[:0], i, l)
		table += uint64(len(w.body))
		if i > 0 {
			w.pairs.set(l.pair, uint32(i))
		}
	}
	switch {
	case table > w.limits.section:
		return nil, errors.WithMessage(ErrTooLarge, "postings offset table")
	case off+sectionHeadBytes+table+crcBytes+tocBytes > w.limits.file:
		return nil, errors.WithMessage(ErrTooLarge, "index file")
	}
	w.toc.labelIndices, w.toc.postings = uint64(w.out.pos()), uint64(w.out.pos())
	w.toc.labelIndicesTable, w.toc.postingsTable = off, off
	return lists, nil
}

// writeLists writes the lists in groups that fit into memory.
func (w *Writer) writeLists(lists []listEntry) error {
	seriesEnd := w.out.pos()
	if err := w.out.flush(); err != nil {
		return err
	}
	var g listGroup
	most := w.postingsBytes(lists)
	for first := 0; first < len(lists); {
		end, size := first, 0
		for end < len(lists) && (end == first || size+idBytes*int(lists[end].count) <= most) {
			if uint64(size)+idBytes*uint64(lists[end].count) > math.MaxInt {
				return errors.WithMessage(ErrTooLarge, "postings list")
			}
			size += idBytes * int(lists[end].count)
			end++
		}
		g.reset(first, lists[first:end], size)
		scan := seriesScan{f: w.out.f, off: w.firstSeries, end: seriesEnd}
		if err := g.gather(&scan, w.pairs); err != nil {
			return err
		}
		if err := g.write(&w.out); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// postingsBytes is how much memory a group of lists may take.
func (w *Writer) postingsBytes(lists []listEntry) int {
	if w.opts.PostingsBytes > 0 {
		return w.opts.PostingsBytes
	}
	all := uint64(0)
	for i := range lists {
		all += idBytes * uint64(lists[i].count)
	}
	return max(defaultPostingsBytes, int(min(all/defaultGroups, math.MaxInt)))
}

// listGroup are neighbouring lists that are gathered in one pass over the series.
type listGroup struct {
	first uint32 // number of the first list
	lists []listEntry
	ids   []byte // of all lists, one after the other, as they stand in the file
	next  []int  // where the next id of each list goes
}

func (g *listGroup) reset(first int, lists []listEntry, size int) {
	g.first, g.lists = uint32(first), lists
	g.ids = slices.Grow(g.ids[:0], size)[:size]
	g.next = slices.Grow(g.next[:0], len(lists))[:0]
	at := 0
	for i := range lists {
		g.next = append(g.next, at)
		at += idBytes * int(lists[i].count)
	}
}

// keys returns the closed range of the keys of the lists' pairs. The list of all series
// belongs to none.
func (g *listGroup) keys() (first, last uint64) {
	if g.first == 0 {
		if len(g.lists) == 1 {
			return 1, 0
		}
		return pairKey(g.lists[1].pair), pairKey(g.lists[len(g.lists)-1].pair)
	}
	return pairKey(g.lists[0].pair), pairKey(g.lists[len(g.lists)-1].pair)
}

// gather puts the id of each series into its lists. A series' pairs are in the order of their
// keys, as the lists are: those behind the last one are not looked at.
func (g *listGroup) gather(scan *seriesScan, pairs *pairIndex) error {
	first, last := g.keys()
	var way foreground.Steps
	for {
		way.Step(wayEvery)
		off, body, err := scan.next()
		if err != nil || body == nil {
			return err
		}
		id := uint32(off / seriesAlign)
		if g.first == 0 {
			g.add(0, id)
		}
		d := encbuf.NewDec(body)
		for range d.Count(2) {
			p := SymbolPair{uint32(d.Uvarint()), uint32(d.Uvarint())}
			if key := pairKey(p); key > last {
				break
			} else if key >= first {
				num, _ := pairs.find(p)
				g.add(num-g.first, id)
			}
		}
	}
}

func (g *listGroup) add(i, id uint32) {
	binary.BigEndian.PutUint32(g.ids[g.next[i]:], id)
	g.next[i] += idBytes
}

// write writes each list:
//
//	+------------------+-------+--------------------------+-----+-------------+
//	| length (be32)    | count | series id, ascending     | crc | zeros up to |
//	| 4 + 4 * count    | be32  | be32, count times        |     | 4 bytes     |
//	+------------------+-------+--------------------------+-----+-------------+
func (g *listGroup) write(out *blockOut) error {
	from := 0
	var way foreground.Steps
	for i := range g.lists {
		way.Step(wayEvery)
		l, ids := &g.lists[i], g.ids[from:g.next[i]]
		from = g.next[i]
		out.align(listAlign)
		if out.pos() != int64(l.off) || len(ids) != idBytes*int(l.count) {
			panic("BUG: postings list is not where it was laid out")
		}
		out.buf = encbuf.AppendBE32(out.buf, countBytes+idBytes*l.count)
		out.buf = encbuf.AppendBE32(out.buf, l.count)
		crc := encbuf.UpdateChecksum(encbuf.Checksum(out.buf[len(out.buf)-countBytes:]), ids)
		if err := out.write(ids); err != nil {
			return err
		}
		out.buf = encbuf.AppendBE32(out.buf, crc)
		if err := out.flushFull(); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes the postings offset table, an entry for each list.
func (w *Writer) writeTable(lists []listEntry) error {
	size := uint32(countBytes)
	var way foreground.Steps
	for i := range lists {
		way.Step(pollEvery)
		w.body = w.appendEntry(w.body[:0], i, &lists[i])
		size += uint32(len(w.body))
	}
	out := &w.out
	if out.pos() != int64(w.toc.postingsTable) {
		panic("BUG: postings offset table is not where it was laid out")
	}
	out.buf = encbuf.AppendBE32(out.buf, size)
	out.buf = encbuf.AppendBE32(out.buf, uint32(len(lists)))
	crc := encbuf.Checksum(out.buf[len(out.buf)-countBytes:])
	for i := range lists {
		way.Step(pollEvery)
		w.body = w.appendEntry(w.body[:0], i, &lists[i])
		crc = encbuf.UpdateChecksum(crc, w.body)
		out.buf = append(out.buf, w.body...)
		if err := out.flushFull(); err != nil {
			return err
		}
	}
	out.buf = encbuf.AppendBE32(out.buf, crc)
	return nil
}

// appendEntry appends the entry of list i to b:
//
//	+---+----------------------+-----------------------+-------------------------+
//	| 2 | name: length, bytes  | value: length, bytes  | offset of list, uvarint |
//	+---+----------------------+-----------------------+-------------------------+
func (w *Writer) appendEntry(b []byte, i int, l *listEntry) []byte {
	b = append(b, tableStrings)
	if i == 0 {
		b = append(b, 0, 0)
	} else {
		b = append(b, w.symbols.encoded(l.pair.Name)...)
		b = append(b, w.symbols.encoded(l.pair.Value)...)
	}
	return encbuf.AppendUvarint(b, l.off)
}
