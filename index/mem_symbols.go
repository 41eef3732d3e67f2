package index

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

const (
	wordPageLen = 256 // numbers in a page of words: 2 KiB

	// A table is made half as large again when more than 7/10 of it are used: 5.7 to
	// 8.6 bytes a string, and a search that succeeds looks at two slots.
	tableFirstLen = 64
	tableLoadNum  = 7
	tableLoadDen  = 10
	tableGone     = ^uint32(0) // a slot whose string was dropped
	maxGroups     = 1 << 24
)

// symbols numbers strings, from 1, within groups: label names in group 0 of one
// symbols, label values in the group of their name in another. A number that was
// released is given out again.
//
// find and at need no lock. What changes something belongs to whoever holds
// MemPostings.create.
type symbols struct {
	seed  maphash.Seed
	words atomic.Pointer[[]*wordPage]
	table atomic.Pointer[[]atomic.Uint32]
	text  text
	size  *atomic.Int64 // of MemPostings

	next uint32   // smallest number never given out
	free []uint32 // released numbers
	used int      // table slots that are not empty
	live int      // strings that can be found
}

// wordPage holds what numbers stand for: group (24 bits), tag (8), place in the text
// (32). A tag is never 0, so a word of 0 is a number that stands for nothing.
type wordPage [wordPageLen]atomic.Uint64

func (s *symbols) init(size *atomic.Int64) {
	s.seed = maphash.MakeSeed()
	s.size = size
	s.next = 1
	s.text.init(size)
	s.words.Store(new([]*wordPage))
	table := make([]atomic.Uint32, tableFirstLen)
	s.table.Store(&table)
	size.Add(4 * tableFirstLen)
}

// hash mixes the group into the hash of the string. The high half chooses a slot, the
// low byte is the tag.
func (s *symbols) hash(group uint32, str string) uint64 {
	h := maphash.String(s.seed, str) ^ uint64(group)*0x9e3779b97f4a7c15
	h ^= h >> 32
	return h * 0xd6e8feb86659fd93
}

// hashOf is the hash of a string that has a number. Only what creates and drops strings asks.
func (s *symbols) hashOf(num uint32) uint64 {
	if hash := s.text.longHash(uint32(s.word(num))); hash != 0 {
		return hash
	}
	return s.hash(s.at(num))
}

// key is the upper half of the word of a string.
func key(group uint32, hash uint64) uint32 { return group<<8 | uint32(byte(hash)) | 1 }

func slotOf(hash uint64, n int) int {
	hi, _ := bits.Mul64(hash, uint64(n))
	return int(hi)
}

// symbolReader reads symbols as they were at one moment. What a number stood for then it
// tells as symbols does, for less.
type symbolReader struct {
	words []*wordPage
	text  textBlocks
}

func (s *symbols) reader() symbolReader {
	return symbolReader{*s.words.Load(), *s.text.blocks.Load()}
}

// word returns what a number stands for, 0 for nothing.
func (r *symbolReader) word(num uint32) uint64 {
	if p := num / wordPageLen; p < uint32(len(r.words)) && r.words[p] != nil {
		return r.words[p][num%wordPageLen].Load()
	}
	return 0
}

// word returns what a number stands for, 0 for nothing.
func (s *symbols) word(num uint32) uint64 {
	pages := *s.words.Load()
	if p := num / wordPageLen; p < uint32(len(pages)) && pages[p] != nil {
		return pages[p][num%wordPageLen].Load()
	}
	return 0
}

// at returns the group and the string of a number; the string stays valid for ever.
func (s *symbols) at(num uint32) (group uint32, str string) {
	w := s.word(num)
	if w == 0 {
		return 0, ""
	}
	return uint32(w >> 40), s.text.at(uint32(w))
}

// find returns the number of a string in a group.
func (s *symbols) find(group uint32, str string) (uint32, bool) {
	return s.findHash(group, str, s.hash(group, str))
}

func (s *symbols) findHash(group uint32, str string, hash uint64) (uint32, bool) {
	slots := *s.table.Load()
	want := key(group, hash)
	for i := slotOf(hash, len(slots)); ; i++ {
		if i == len(slots) {
			i = 0
		}
		num := slots[i].Load()
		if num == 0 {
			return 0, false
		}
		if num == tableGone {
			continue
		}
		if w := s.word(num); uint32(w>>32) == want && s.text.at(uint32(w)) == str {
			return num, true
		}
	}
}

// create gives a string that has none a number; the hash is its own. It is found only after
// publish, so that what belongs to a number can be made ready in between.
func (s *symbols) create(group uint32, str string, hash uint64) (num uint32) {
	if group >= maxGroups {
		panic("BUG: more label names than the index can hold; the head's budget must stop before")
	}
	if n := len(s.free); n > 0 {
		num = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		num = s.next
		s.next++
	}
	s.page(num)[num%wordPageLen].Store(uint64(key(group, hash))<<32 | uint64(s.text.put(str, hash)))
	return num
}

// page returns the page of a number and makes it if it is the first one there.
func (s *symbols) page(num uint32) *wordPage {
	pages := *s.words.Load()
	p := int(num / wordPageLen)
	if p < len(pages) && pages[p] != nil {
		return pages[p]
	}
	if p >= len(pages) {
		grown := make([]*wordPage, max(4, 2*len(pages)))
		copy(grown, pages)
		s.size.Add(int64(len(grown)-len(pages)) * 8)
		pages = grown
	} else {
		pages = append([]*wordPage(nil), pages...)
	}
	pages[p] = new(wordPage)
	s.size.Add(wordPageLen * 8)
	s.words.Store(&pages)
	return pages[p]
}

// publish makes a created string findable.
func (s *symbols) publish(num uint32, hash uint64) {
	slots := *s.table.Load()
	if (s.used+1)*tableLoadDen > len(slots)*tableLoadNum {
		slots = s.rebuild(len(slots))
	}
	insertSlot(slots, num, hash)
	s.used++
	s.live++
}

func insertSlot(slots []atomic.Uint32, num uint32, hash uint64) {
	i := slotOf(hash, len(slots))
	for slots[i].Load() != 0 {
		if i++; i == len(slots) {
			i = 0
		}
	}
	slots[i].Store(num)
}

// rebuild makes a new table without the slots of dropped strings, larger if those do
// not make room enough.
func (s *symbols) rebuild(n int) []atomic.Uint32 {
	old := *s.table.Load()
	if s.live*2 > n {
		n += n / 2
	}
	slots := make([]atomic.Uint32, n)
	for i := range old {
		if num := old[i].Load(); num != 0 && num != tableGone {
			insertSlot(slots, num, s.hashOf(num))
		}
	}
	s.size.Add(int64(n-len(old)) * 4)
	s.used = s.live
	s.table.Store(&slots)
	return slots
}

// drop makes a string unfindable; its number still stands for it until release.
func (s *symbols) drop(num uint32) {
	slots := *s.table.Load()
	i := slotOf(s.hashOf(num), len(slots))
	for slots[i].Load() != num {
		if i++; i == len(slots) {
			i = 0
		}
	}
	slots[i].Store(tableGone)
	s.live--
}

// release frees the number and the text of a dropped string.
func (s *symbols) release(num uint32) {
	word := &s.page(num)[num%wordPageLen]
	place := uint32(word.Load())
	word.Store(0)
	s.text.release(place)
	s.free = append(s.free, num)
}
