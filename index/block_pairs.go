package index

// pairIndex numbers the label pairs of a block in the order in which they come. Most
// values belong to one name only, so that a pair is found by its value: one access of
// memory instead of a hash, and eight bytes a symbol.
type pairIndex struct {
	slots []pairSlot        // by the number of the value
	more  map[uint64]uint32 // pairs whose value was first seen with another name
	keys  []uint64          // by the number of the pair
}

type pairSlot struct {
	name uint32 // number of the name plus 1; 0 is none
	num  uint32
}

//go:noinline
func newPairIndex(symbols int) *pairIndex {
	return &pairIndex{slots: make([]pairSlot, symbols), more: make(map[uint64]uint32)}
}

func pairKey(p SymbolPair) uint64 { return uint64(p.Name)<<32 | uint64(p.Value) }

func keyPair(key uint64) SymbolPair { return SymbolPair{uint32(key >> 32), uint32(key)} }

// find returns the number of a pair whose value is a symbol.
func (x *pairIndex) find(p SymbolPair) (num uint32, ok bool) {
	s := x.slots[p.Value]
	if s.name == p.Name+1 {
		return s.num, true
	}
	if s.name == 0 {
		return 0, false
	}
	num, ok = x.more[pairKey(p)]
	return num, ok
}

// intern returns the number of a pair, a new one if it has none.
func (x *pairIndex) intern(p SymbolPair) uint32 {
	if num, ok := x.find(p); ok {
		return num
	}
	num := uint32(len(x.keys))
	x.keys = append(x.keys, pairKey(p))
	x.set(p, num)
	return num
}

func (x *pairIndex) set(p SymbolPair, num uint32) {
	if s := &x.slots[p.Value]; s.name == 0 || s.name == p.Name+1 {
		*s = pairSlot{p.Name + 1, num}
		return
	}
	x.more[pairKey(p)] = num
}
