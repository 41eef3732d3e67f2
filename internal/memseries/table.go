package memseries

import "sync"

const (
	tableCount    = 64 // one lock and one array each, chosen by the low bits of the hash
	tableFirstLen = 4  // entries of an empty table
	tableLoadNum  = 3  // an array is doubled when more than
	tableLoadDen  = 4  // three quarters of it are used
	tagShift      = 40 // an entry is 24 bits of hash over 40 bits of ref
	refMask       = 1<<tagShift - 1
)

// table finds series by label-set hash: open addressing over 8-byte entries, so a
// series costs 11 to 21 bytes here. It is asked only when a label set is appended
// without a ref.
type table struct {
	mu struct {
		sync.RWMutex
		entries []uint64 // 0 is free; refs start at 1
		used    int
	}
	_ [24]byte
}

func entryOf(hash, ref uint64) uint64 { return hash>>tagShift<<tagShift | ref }

// find calls match for each ref whose hash tag is right, until it says yes.
func (tb *table) find(hash uint64, match func(ref uint64) bool) (uint64, bool) {
	tb.mu.RLock()
	defer tb.mu.RUnlock()
	es := tb.mu.entries
	if len(es) == 0 {
		return 0, false
	}
	mask := len(es) - 1
	tag := hash >> tagShift
	for i := home(hash, mask); es[i] != 0; i = (i + 1) & mask {
		if es[i]>>tagShift == tag && match(es[i]&refMask) {
			return es[i] & refMask, true
		}
	}
	return 0, false
}

// home is where the probing for a hash begins. The bits that chose the table and
// those of the tag are not used again.
func home(hash uint64, mask int) int { return int(hash/tableCount) & mask }

// insert adds a ref. hashOf gives the hash of refs that are already there, for
// growing.
func (tb *table) insert(hash, ref uint64, hashOf func(ref uint64) uint64) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if (tb.mu.used+1)*tableLoadDen > len(tb.mu.entries)*tableLoadNum {
		tb.growLocked(hashOf)
	}
	place(tb.mu.entries, hash, entryOf(hash, ref))
	tb.mu.used++
}

func (tb *table) growLocked(hashOf func(ref uint64) uint64) {
	grown := make([]uint64, max(tableFirstLen, 2*len(tb.mu.entries)))
	for _, e := range tb.mu.entries {
		if e != 0 {
			place(grown, hashOf(e&refMask), e)
		}
	}
	tb.mu.entries = grown
}

func place(es []uint64, hash, e uint64) {
	mask := len(es) - 1
	i := home(hash, mask)
	for es[i] != 0 {
		i = (i + 1) & mask
	}
	es[i] = e
}

// remove deletes a ref and moves up what was pushed behind it.
func (tb *table) remove(hash, ref uint64, hashOf func(ref uint64) uint64) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	es := tb.mu.entries
	if len(es) == 0 {
		return
	}
	mask := len(es) - 1
	i := home(hash, mask)
	for es[i] != entryOf(hash, ref) {
		if es[i] == 0 {
			return
		}
		i = (i + 1) & mask
	}
	tb.mu.used--
	for j := i; ; {
		j = (j + 1) & mask
		if es[j] == 0 {
			es[i] = 0
			return
		}
		// An entry may fill the gap unless its home lies cyclically in (i, j].
		h := home(hashOf(es[j]&refMask), mask)
		if (j-h)&mask >= (j-i)&mask {
			es[i] = es[j]
			i = j
		}
	}
}

func (tb *table) sizeBytes() int64 {
	tb.mu.RLock()
	defer tb.mu.RUnlock()
	return int64(len(tb.mu.entries)) * 8
}
