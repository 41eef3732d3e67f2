package memseries

import (
	"math"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// NoTime is the newest time of a series without samples. No sample has it: Append
// answers ErrOutOfBounds for it.
const NoTime = math.MinInt64

// state of a directory slot.
const (
	slotEmpty uint32 = iota
	slotLive
	slotLeft // dead, and somebody may know it: its labels stay
	slotDead
)

// Series is one label set with its samples: the open head chunk and its encoder inline, full chunks
// by reference. It lives in a slab page and is never copied. A record begins with a line of the
// cache or in the middle of one: prevMaxt and cutAt are in the two lines that pendT is not in, or
// in one of them (TestSeries_LiesInThreeLines). What asks for records ahead depends on that.
//
// Invariant: appliedMaxt <= pendT. They differ while a commit is on its way.
type Series struct {
	// Immutable once the slot is live.
	ref    uint64
	hash   uint64
	pairs  uint32 // where the label pairs begin in the directory's arena
	npairs uint16

	// open is the encoding of the open chunk. Of a restored series without one it says whether its
	// newest sample is a histogram.
	open  chunkenc.Encoding
	notes notes         // guarded
	slot  atomic.Uint32 // slotEmpty and so on
	pins  atomic.Int32  // appenders that staged samples before the first commit

	pending

	bytes     chunkBytes // what the encoder of the open chunk has given out
	numMapped uint32     // full chunks

	applied

	enc   xorchunk.State
	cutAt int64 // a sample at or after it goes to a new chunk

	blocks []*mappedBlock // full chunks, oldest first, without a hole (mapped.go)
}

// notes is what else is known of a series.
type notes uint8

const (
	// noteLogged: a series record stands in the log, or in the queue before it.
	noteLogged notes = 1 << iota
	// noteInts and noteFloats: the newest sample that was applied or reserved is a histogram, which
	// may be in a block by now.
	noteInts
	noteFloats
	noteHistograms = noteInts | noteFloats
)

// setKind notes of what kind the newest sample is, by the encoding that it needs.
func (n *notes) setKind(enc chunkenc.Encoding) {
	*n &^= noteHistograms
	switch enc.Kind() {
	case chunkenc.ValHistogram:
		*n |= noteInts
	case chunkenc.ValFloatHistogram:
		*n |= noteFloats
	}
}

// pending is the newest sample that is applied or reserved by a queued commit.
type pending struct {
	pendT atomic.Int64 // written with the shard locked and read by Append without
	pendV uint64       // the Sum of the sample at pendT
}

// applied is the newest commit that was applied to a series.
type applied struct {
	lastSeq  uint64
	prevMaxt int64 // newest time before it
}

// Ref returns the series' number.
func (s *Series) Ref() uint64 { return s.ref }

// Hash returns the hash of its labels.
func (s *Series) Hash() uint64 { return s.hash }

// PendingT returns the newest time reserved or applied, NoTime if there is none. It
// may be called without the shard's lock and may then be outdated at once.
func (s *Series) PendingT() int64 { return s.pendT.Load() }

// PendingSum returns the Sum of the sample at PendingT.
func (s *Series) PendingSum() uint64 { return s.pendV }

// PendingKind returns the kind of the newest sample that was reserved or applied, ValFloat if there
// was none. It is guarded. That of one which is in a block is known until recovery.
func (s *Series) PendingKind() chunkenc.ValueType {
	switch s.notes & noteHistograms {
	case noteInts:
		return chunkenc.ValHistogram
	case noteFloats:
		return chunkenc.ValFloatHistogram
	default:
		return chunkenc.ValFloat
	}
}

// OfHistograms reports whether PendingKind is one of histograms. It is guarded.
func OfHistograms(s *Series) bool { return s.notes&noteHistograms != 0 }

// Reserve raises the newest time for a queued commit, with the Sum of its sample. If that is no
// plain float, or OfHistograms, ReserveKind says what it is.
func (s *Series) Reserve(t int64, sum uint64) {
	s.pendT.Store(t)
	s.pendV = sum
}

// ReserveKind says which encoding the sample of Reserve needs.
func ReserveKind(s *Series, enc chunkenc.Encoding) { s.notes.setKind(enc) }

// Maxt returns the time of the newest applied sample, NoTime if there is none.
func (s *Series) Maxt() int64 {
	if s.enc.Len() > 0 {
		return s.enc.LastT()
	}
	return s.fullMaxt()
}

// fullMaxt is Maxt of a series without an open chunk.
func (s *Series) fullMaxt() int64 {
	if n := int(s.numMapped); n > 0 {
		return s.mappedMaxt(n - 1)
	}
	return NoTime
}

// Mint returns the time of the oldest applied sample, NoTime if there is none.
func (s *Series) Mint() int64 {
	switch {
	case s.numMapped > 0:
		return s.mappedAt(0).MinT
	case s.enc.Len() > 0:
		return s.enc.FirstT()
	default:
		return NoTime
	}
}

// Logged reports whether the log has, or will have before this commit, the series record.
func (s *Series) Logged() bool { return s.notes&noteLogged != 0 }

// SetLogged says so.
func (s *Series) SetLogged(logged bool) {
	s.notes &^= noteLogged
	if logged {
		s.notes |= noteLogged
	}
}

// Dead reports whether the series was removed from the directory.
func (s *Series) Dead() bool { return s.slot.Load() >= slotLeft }

// Pin keeps a series that has no committed sample from being removed.
func (s *Series) Pin() { s.pins.Add(1) }

// Unpin ends that and returns how many pins are left.
func (s *Series) Unpin() int32 { return s.pins.Add(-1) }

// isWide reports whether the open chunk is not of EncXOR.
func (s *Series) isWide() bool { return s.open != chunkenc.EncXOR }
