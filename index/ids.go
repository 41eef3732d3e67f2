package index

import (
	"iter"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// IDs are the ascending ids of selected series of a block, to be taken one after the other.
// They are kept as the distances between them, a byte or two each: what a query holds for
// each series that it has not come to (BenchmarkReader_Select). They belong to one goroutine.
type IDs struct {
	packed []byte // uvarints
	left   int
	at     uint64 // the last id that was taken
}

// packIDs copies n ascending ids.
func packIDs(n int, all iter.Seq[uint64]) IDs {
	size, last := 0, uint64(0)
	for id := range all {
		size += uvarintBytes(id - last)
		last = id
	}
	ids := IDs{packed: make([]byte, 0, size), left: n}
	last = 0
	for id := range all {
		ids.packed = encbuf.AppendUvarint(ids.packed, id-last)
		last = id
	}
	return ids
}

// Len returns how many ids there are left.
func (ids *IDs) Len() int { return ids.left }

// Next returns the next id; false if there is none.
func (ids *IDs) Next() (id uint64, ok bool) {
	if ids.left == 0 {
		return 0, false
	}
	distance, n := uvarint(ids.packed, 0)
	ids.packed = ids.packed[n:]
	ids.left--
	ids.at += distance
	return ids.at, true
}
