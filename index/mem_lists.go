package index

import (
	"encoding/binary"
	"sync/atomic"
)

// MaxRef is the largest ref that postings hold: refs are 40 bits wide.
const MaxRef = 1<<40 - 1

// list is the postings of one pair: ascending refs, each as the uvarint difference to
// the one before, the first to 0. A single ref is only in last and has no bytes.
//
//	size == 0, last == 0   empty
//	size == 0, last != 0   one ref
//	class == classBig      bytes in lists.big[at]
//	else                   bytes in a slot of the class, at unit at
type list struct {
	at     uint32
	size   uint32 // bytes
	lastLo uint32
	lastHi uint8
	class  uint8
}

func (l *list) last() uint64 { return uint64(l.lastHi)<<32 | uint64(l.lastLo) }

func (l *list) setLast(ref uint64) { l.lastLo, l.lastHi = uint32(ref), uint8(ref>>32) }

const (
	slotUnit      = 8       // bytes: slots begin at multiples, and free ones hold a link
	slotPageBytes = 4 << 10 // memory is taken from the heap in pages
	slotPageUnits = slotPageBytes / slotUnit
	slotFirstRun  = 4 // slots that a class takes the first time; then twice as many
	classBig      = 0xff

	// skipBytes is how far apart the entry points of a big list are: seeking decodes at
	// most that much, and 16 bytes of skip cost 6% of a list.
	skipBytes = 256

	bigGrowth = 5 // a big list that is full grows by one fifth: a tenth is empty on average
)

// slotSizes are the slots of small lists, in bytes: each about a quarter larger than
// the one before, so that a slot is an eighth empty on average. A list that outgrows
// the largest gets memory of its own.
var slotSizes = [...]uint16{
	8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 408, 512, 680, 816, 1024,
}

const maxSmall = 1024 // bytes: the largest slot

// classOfUnits gives the smallest class for a number of units.
var classOfUnits = func() (t [maxSmall/slotUnit + 1]uint8) {
	class := 0
	for units := range t {
		if units*slotUnit > int(slotSizes[class]) {
			class++
		}
		t[units] = uint8(class)
	}
	return t
}()

// bigList is a list in memory of its own. Bytes and skips are only appended to or
// replaced as a whole, so a reader may use what it saw under the lock without it.
type bigList struct {
	b     []byte
	skips []skip
}

// skip is an entry point: the entry at off is a difference to ref.
type skip struct {
	ref uint64
	off uint32
}

const (
	bigListBytes = 48 // of a bigList
	skipSize     = 16 // of a skip
)

// lists keeps the bytes of all lists. pairLists.mu guards it.
type lists struct {
	size    *atomic.Int64
	pages   [][]byte
	slots   [len(slotSizes)]slotClass
	next    uint32 // the first unit of the newest page that no class has
	left    uint32 // how many there are from there on
	big     []bigList
	freeBig []uint32
}

// slotClass is where the next slot of a class comes from. Places are in units, 0 is
// none: the first unit of the first page is not used.
type slotClass struct {
	free      uint32 // head of the chain of free slots
	next, end uint32 // what is left of the run taken last
	run       uint32 // how many slots to take the next time, if there are as many
}

func (ls *lists) bytesAt(at uint32, n int) []byte {
	off := int(at%slotPageUnits) * slotUnit
	return ls.pages[at/slotPageUnits][off : off+n]
}

// take returns a slot of a class.
func (ls *lists) take(class uint8) uint32 {
	c := &ls.slots[class]
	if at := c.free; at != 0 {
		c.free = binary.LittleEndian.Uint32(ls.bytesAt(at, 4))
		return at
	}
	units := uint32(slotSizes[class] / slotUnit)
	if c.next+units > c.end {
		ls.takeRun(c, units)
	}
	at := c.next
	c.next += units
	return at
}

// takeRun gives a class some slots of the newest page, at least one, and few the first time: a
// small head needs no page of each class.
func (ls *lists) takeRun(c *slotClass, units uint32) {
	if ls.left < units {
		ls.openPage()
	}
	c.run = max(slotFirstRun, c.run)
	n := min(c.run, ls.left/units) * units
	c.next, c.end = ls.next, ls.next+n
	ls.next, ls.left = ls.next+n, ls.left-n
	c.run = min(2*c.run, slotPageUnits)
}

func (ls *lists) openPage() {
	num := uint32(len(ls.pages))
	before := cap(ls.pages)
	ls.pages = append(ls.pages, make([]byte, slotPageBytes))
	ls.size.Add(slotPageBytes + int64(cap(ls.pages)-before)*24)
	ls.next, ls.left = num*slotPageUnits, slotPageUnits
	if num == 0 {
		ls.next, ls.left = 1, slotPageUnits-1
	}
}

func (ls *lists) give(class uint8, at uint32) {
	binary.LittleEndian.PutUint32(ls.bytesAt(at, 4), ls.slots[class].free)
	ls.slots[class].free = at
}

// refList is what a list holds at one moment: one of the head, or one of a block.
type refList struct {
	b     []byte // of the head: differences as uvarints
	ids   idList // of a block, if not nil; nothing else is set then
	skips []skip
	one   uint64 // the only ref if b is empty; 0 if there is none
}

// refsOf returns a list's refs. Those of a big list may be read after the lock is
// given up, others must be copied or decoded before.
func (ls *lists) refsOf(l *list) refList {
	switch {
	case l.size == 0:
		return refList{one: l.last()}
	case l.class == classBig:
		big := &ls.big[l.at]
		return refList{b: big.b[:l.size:l.size], skips: big.skips}
	default:
		return refList{b: ls.bytesAt(l.at, int(l.size))}
	}
}

// append adds a ref beyond the last one.
func (ls *lists) append(l *list, ref uint64) {
	last := l.last()
	if last == 0 {
		l.setLast(ref)
		return
	}
	var tmp [2 * binary.MaxVarintLen64]byte
	n := 0
	if l.size == 0 {
		n = binary.PutUvarint(tmp[:], last)
	}
	n += binary.PutUvarint(tmp[n:], ref-last)
	ls.room(l, int(l.size)+n)
	l.setLast(ref)
	if l.class == classBig {
		ls.appendBig(l, last, tmp[:n])
		return
	}
	copy(ls.bytesAt(l.at, int(l.size)+n)[l.size:], tmp[:n])
	l.size += uint32(n)
}

func (ls *lists) appendBig(l *list, last uint64, entry []byte) {
	big := &ls.big[l.at]
	if l.size > 0 && int(l.size)-big.lastSkip() >= skipBytes {
		before := cap(big.skips)
		big.skips = append(big.skips, skip{last, l.size})
		ls.size.Add(int64(cap(big.skips)-before) * skipSize)
	}
	if need := len(big.b) + len(entry); need > cap(big.b) {
		grown := append(ls.heap(need+need/bigGrowth), big.b...)
		ls.size.Add(-int64(cap(big.b)))
		big.b = grown
	}
	big.b = append(big.b, entry...)
	l.size += uint32(len(entry))
}

// heap returns an empty slice with room for n bytes or what the heap rounds that up to.
func (ls *lists) heap(n int) []byte {
	b := append([]byte(nil), make([]byte, n)...)[:0]
	ls.size.Add(int64(cap(b)))
	return b
}

func (b *bigList) lastSkip() int {
	if n := len(b.skips); n > 0 {
		return int(b.skips[n-1].off)
	}
	return 0
}

// room makes sure that a list can hold size bytes. A big list grows by its append.
func (ls *lists) room(l *list, size int) {
	if l.class == classBig || l.at != 0 && size <= int(slotSizes[l.class]) {
		return
	}
	old := *l
	if size > maxSmall {
		l.class, l.at = classBig, ls.takeBig(size)
		big := &ls.big[l.at]
		if old.at != 0 {
			big.b = append(big.b, ls.bytesAt(old.at, int(old.size))...)
		}
	} else {
		l.class = classOfUnits[(size+slotUnit-1)/slotUnit]
		l.at = ls.take(l.class)
		if old.at != 0 {
			copy(ls.bytesAt(l.at, size), ls.bytesAt(old.at, int(old.size)))
		}
	}
	if old.at != 0 {
		ls.give(old.class, old.at)
	}
}

// takeBig returns the number of a big list with room for size bytes.
func (ls *lists) takeBig(size int) uint32 {
	b := ls.heap(size)
	if n := len(ls.freeBig); n > 0 {
		num := ls.freeBig[n-1]
		ls.freeBig = ls.freeBig[:n-1]
		ls.big[num] = bigList{b: b}
		return num
	}
	if len(ls.big) == 0 {
		ls.big = append(ls.big, bigList{}) // 0 is no place
	}
	before := cap(ls.big)
	ls.big = append(ls.big, bigList{b: b})
	ls.size.Add(int64(cap(ls.big)-before) * bigListBytes)
	return uint32(len(ls.big) - 1)
}

// clear makes a list empty and gives its memory back.
func (ls *lists) clear(l *list) {
	switch {
	case l.at == 0:
	case l.class == classBig:
		big := &ls.big[l.at]
		ls.size.Add(-int64(cap(big.b)) - int64(cap(big.skips))*skipSize)
		*big = bigList{}
		ls.freeBig = append(ls.freeBig, l.at)
	default:
		ls.give(l.class, l.at)
	}
	*l = list{}
}

// replace makes a list of ascending refs, in memory of just the size that it needs.
func (ls *lists) replace(l *list, refs []uint64) {
	ls.clear(l)
	if len(refs) > 1 {
		ls.room(l, encodedBytes(refs))
	}
	for _, ref := range refs {
		ls.append(l, ref)
	}
}

// encodedBytes returns the size of a list of these refs.
func encodedBytes(refs []uint64) int {
	n, last := 0, uint64(0)
	for _, ref := range refs {
		n += uvarintBytes(ref - last)
		last = ref
	}
	return n
}
