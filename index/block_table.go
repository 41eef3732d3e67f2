package index

import (
	"bytes"
	"encoding/binary"
	"sort"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/foreground"
)

// tableStride is how far apart the entries are whose places are kept in memory.
const tableStride = 32

// minEntryBytes is the shortest entry: number of strings, two empty ones, an offset.
const minEntryBytes = 4

// offsetTable tells where the postings list of each label pair is. Its entries stay in
// the file. They have numbers, in order of name and value; 0 is the list of all series.
type offsetTable struct {
	file   *blockFile
	b      []byte
	base   int      // offset of b in the file
	count  int      // of entries
	stride int      // between places; 1 for version 1, which is in no order
	places []uint32 // in b, of every stride-th entry
	names  []nameRange
}

// nameRange are the entries of one name.
type nameRange struct {
	name       string
	first, end int // numbers
}

// tableEntry is an entry of the table; the strings alias the file.
type tableEntry struct {
	name, value []byte
	list        uint64 // offset in the file
}

// openTable reads the content of the postings offset table, which starts at base.
func openTable(content []byte, base, version int) (offsetTable, error) {
	d := encbuf.NewDec(content)
	count := d.BE32()
	if uint64(count) > uint64(d.Len()/minEntryBytes) {
		d.Fail("number of entries exceeds the postings offset table")
	}
	if d.Err() != nil {
		return offsetTable{}, d.Err()
	}
	t := offsetTable{b: content[countBytes:], base: base + countBytes, count: int(count), stride: tableStride}
	if version == 1 {
		t.stride = 1
	}
	if version == 1 {
		if err := t.sortPlaces(); err != nil {
			return offsetTable{}, err
		}
	}
	return t, t.readEntries()
}

// sortPlaces fills places in order of the entries, which are in no order in the file.
func (t *offsetTable) sortPlaces() error {
	off := 0
	for range t.count {
		t.places = append(t.places, uint32(off))
		next := t.skip(off)
		if next < 0 {
			return encbuf.Corrupt(countBytes+off, "entry of the postings offset table is malformed")
		}
		off = next
	}
	sort.Slice(t.places, func(i, j int) bool {
		a, _ := t.entry(int(t.places[i]))
		b, _ := t.entry(int(t.places[j]))
		if c := bytes.Compare(a.name, b.name); c != 0 {
			return c < 0
		}
		return bytes.Compare(a.value, b.value) < 0
	})
	return nil
}

// readEntries finds the names, and the places if they are not known yet. It makes sure
// that entries fill the table, ascend, and begin with the list of all series.
func (t *offsetTable) readEntries() error {
	var prev tableEntry
	off, end, sorted := 0, 0, len(t.places) > 0
	if !sorted {
		t.places = make([]uint32, 0, (t.count+t.stride-1)/t.stride)
	}
	var way foreground.Steps
	for n, place := 0, 0; n < t.count; n++ { // a division for each entry would be a sixth of the time
		way.Step(waySteps)
		switch {
		case sorted:
			off = int(t.places[n])
		case n == place:
			t.places = append(t.places, uint32(off))
			place += t.stride
		}
		e, next := t.entry(off)
		if next < 0 {
			return encbuf.Corrupt(countBytes+off, "entry of the postings offset table is malformed")
		}
		if reason := t.follow(n, prev, e); reason != "" {
			return encbuf.Corrupt(countBytes+off, reason)
		}
		end = max(end, next)
		prev, off = e, next
	}
	if t.count == 0 || end != len(t.b) {
		return encbuf.Corrupt(countBytes+end, "postings offset table has another length than its entries")
	}
	return nil
}

// follow counts entry n among those of its name and returns why it cannot stand behind
// the one before, nothing if it can.
func (t *offsetTable) follow(n int, prev, e tableEntry) string {
	switch sameName := n > 0 && bytes.Equal(e.name, prev.name); {
	case n == 0 && !isAll(e):
		return "postings offset table does not begin with the list of all series"
	case sameName && bytes.Compare(prev.value, e.value) >= 0, !sameName && bytes.Compare(prev.name, e.name) > 0:
		return "entries of the postings offset table do not ascend"
	case !sameName:
		t.names = append(t.names, nameRange{name: string(e.name), first: n})
	}
	t.names[len(t.names)-1].end = n + 1
	return ""
}

// skip returns the offset behind the entry at off, -1 if it is malformed.
func (t *offsetTable) skip(off int) int {
	if off < 0 || off >= len(t.b) || t.b[off] != tableStrings {
		return -1
	}
	off = skipString(t.b, skipString(t.b, off+1))
	if off < 0 {
		return -1
	}
	if off < len(t.b) && t.b[off] < 0x80 {
		return off + 1
	}
	_, n := binary.Uvarint(t.b[off:])
	if n <= 0 {
		return -1
	}
	return off + n
}

// entry returns the entry at off and the offset behind it, -1 if it is malformed.
func (t *offsetTable) entry(off int) (e tableEntry, next int) {
	value, list := t.short(off)
	if list < 0 {
		return t.longEntry(off)
	}
	if e.list, next = uvarint(t.b, list); next >= 0 {
		e.name, e.value = t.b[off+2:value-1], t.b[value:list]
	}
	return e, next
}

// short returns where the value of the entry at off begins and where it ends, which may be behind
// the table, if both strings have less than 128 bytes; -1 if not. It takes 0.67 of the time of
// cutting any strings (BenchmarkOpenReader), and is little enough to be inlined.
//
//go:noinline
func (t *offsetTable) short(off int) (value, list int) {
	b := t.b
	if off < 0 || off+1 >= len(b) || b[off] != tableStrings || b[off+1] >= 0x80 {
		return -1, -1
	}
	value = off + 3 + int(b[off+1])
	if value > len(b) || b[value-1] >= 0x80 {
		return -1, -1
	}
	return value, value + int(b[value-1])
}

// longEntry is entry for strings of any length.
func (t *offsetTable) longEntry(off int) (e tableEntry, next int) {
	if off < 0 || off >= len(t.b) || t.b[off] != tableStrings {
		return e, -1
	}
	if e.name, off = cutString(t.b, off+1); off < 0 {
		return e, -1
	}
	if e.value, off = cutString(t.b, off); off < 0 {
		return e, -1
	}
	e.list, next = uvarint(t.b, off)
	return e, next
}

// corrupt is what a malformed entry gives.
//
//go:noinline
func (t *offsetTable) corrupt() error {
	return t.file.corrupt(t.base, "entry of the postings offset table is malformed")
}

// isAll tells the entry of the list of all series, which belongs to no label.
func isAll(e tableEntry) bool { return len(e.name)+len(e.value) == 0 }

// tableCursor reads entries in order of their numbers.
type tableCursor struct {
	t   *offsetTable
	num int // of the next entry
	off int // of the next entry; -1 if one was malformed
}

// cursor returns a cursor whose next entry is the one of that number.
func (t *offsetTable) cursor(num int) tableCursor {
	if num >= t.count {
		return tableCursor{t, num, -1}
	}
	c := tableCursor{t, num, int(t.places[num/t.stride])}
	for range num % t.stride {
		c.off = t.skip(c.off)
	}
	return c
}

// next returns the next entry; false at the end and if it is malformed.
func (c *tableCursor) next() (tableEntry, bool) {
	if c.num >= c.t.count {
		return tableEntry{}, false
	}
	if c.num%c.t.stride == 0 {
		c.off = int(c.t.places[c.num/c.t.stride])
	}
	e, next := c.t.entry(c.off)
	c.off = next
	c.num++
	return e, next >= 0
}

// seek moves to the entry of a number that is not behind the cursor.
func (c *tableCursor) seek(num int) {
	if num-c.num >= c.t.stride {
		*c = c.t.cursor(num)
	}
	for c.num < num {
		c.off = c.t.skip(c.off)
		c.num++
	}
	if num < c.t.count && num%c.t.stride == 0 {
		c.off = int(c.t.places[num/c.t.stride])
	}
}

// name returns the entries of a name.
func (t *offsetTable) name(name string) (nameRange, bool) {
	i := sort.Search(len(t.names), func(i int) bool { return t.names[i].name >= name })
	if i == len(t.names) || t.names[i].name != name {
		return nameRange{}, false
	}
	return t.names[i], true
}

// lowerBound returns a cursor to the first entry of a name whose value is not below
// the given one; to the end of the name if there is none.
func (t *offsetTable) lowerBound(r nameRange, value string) (tableCursor, bool) {
	lo, hi := (r.first+t.stride-1)/t.stride, (r.end-1)/t.stride // places inside of the name
	below := sort.Search(hi-lo+1, func(i int) bool {
		have, _ := t.value(int(t.places[lo+i]))
		return string(have) >= value
	})
	c := t.cursor(max(r.first, (lo+below-1)*t.stride))
	for c.num < r.end {
		if c.num%t.stride == 0 {
			c.off = int(t.places[c.num/t.stride])
		}
		have, next := t.value(c.off)
		if next < 0 {
			return c, false
		}
		if string(have) >= value {
			return c, true
		}
		c.off = next
		c.num++
	}
	return c, true
}

// value is entry for who looks for a value only: a third less for finding one
// (BenchmarkReader_Select/one).
func (t *offsetTable) value(off int) (value []byte, next int) {
	from, list := t.short(off)
	if list < 0 {
		e, next := t.longEntry(off)
		return e.value, next
	}
	if _, next = uvarint(t.b, list); next < 0 {
		return nil, -1
	}
	return t.b[from:list], next
}
