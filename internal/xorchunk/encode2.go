package xorchunk

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Encoder2 builds XOR2 chunks in a buffer of its own, which is kept for the next
// chunk. The zero value is ready. It is for one goroutine, and for what has to be encoded
// again because of its start timestamps; it is not made for speed.
type Encoder2 struct {
	state State // bits, times, window, newest value that is no stale marker
	buf   []byte
	st    int64
	gap   uint64 // time of the sample before the newest one minus st, once there are fields
	begin int    // index of the first sample with a field; 0: none yet
}

// Append adds one sample, whatever its time and value; st is its start timestamp in
// milliseconds, 0 for none. It returns ErrFull if the chunk has MaxSamples samples.
func (e *Encoder2) Append(t int64, v float64, st int64) error {
	s := &e.state
	n, before := s.Len(), s.lastT
	switch n {
	case MaxSamples:
		return ErrFull
	case 0:
		e.first(t, math.Float64bits(v), st)
		return nil
	case 1:
		s.delta = uint64(t) - uint64(before)
		e.buf = binary.AppendUvarint(e.buf, s.delta)
		e.long(math.Float64bits(v))
	default:
		dod := uint64(t) - uint64(before) - s.delta
		s.delta += dod
		e.next(dod, math.Float64bits(v))
	}
	s.lastT = t
	s.num++
	e.start(n, before, st)
	return nil
}

// first adds sample 0.
func (e *Encoder2) first(t int64, v uint64, st int64) {
	*e = Encoder2{buf: append(e.buf[:0], 0, 0, 0), st: st}
	e.state = State{firstT: t, lastT: t, lastV: v, num: 1, leading: windowUnset}
	e.buf = binary.AppendVarint(e.buf, t)
	e.buf = binary.BigEndian.AppendUint64(e.buf, v)
	if v == staleMarker {
		e.state.lastV = 0
	}
	if st != 0 {
		e.buf[headerSize] = firstST
		e.buf = binary.AppendVarint(e.buf, t-st)
	}
}

// next writes the change of the distance, and the value.
func (e *Encoder2) next(dod, v uint64) {
	s := &e.state
	switch {
	case dod == 0 && v == staleMarker:
		e.put(0b11111, 5)
	case dod == 0 && v == s.lastV:
		e.put(0, 1)
	case dod == 0:
		e.put(0b10, 2)
		e.value(v, 0b0, 1, 0b1, 1)
	case dod+4096 <= 4096+4095:
		e.put(0b110<<13|dod&(1<<13-1), 3+13)
		e.long(v)
	case dod+524288 <= 524288+524287:
		e.put(0b1110<<20|dod&(1<<20-1), 4+20)
		e.long(v)
	default:
		e.put(0b11110, 5)
		e.put(dod, 64)
		e.long(v)
	}
}

// long writes a value in the codes that can say everything.
func (e *Encoder2) long(v uint64) {
	switch v {
	case staleMarker:
		e.put(0b111, 3)
	case e.state.lastV:
		e.put(0b0, 1)
	default:
		e.value(v, 0b10, 2, 0b110, 3)
	}
}

// value writes a value that differs from the one before: behind the code for the window
// that there is, or for a new one.
func (e *Encoder2) value(v, same uint64, sameBits uint, other uint64, otherBits uint) {
	s := &e.state
	x := v ^ s.lastV
	s.lastV = v
	lead, trail := min(bits.LeadingZeros64(x), 31), bits.TrailingZeros64(x)
	if lead >= int(s.leading) && trail >= int(s.trailing) {
		e.put(same, sameBits)
	} else {
		s.leading, s.trailing = uint8(lead), uint8(trail)
		e.put(other<<11|uint64(lead)<<6|uint64(64-lead-trail)&63, otherBits+11)
	}
	e.put(x>>s.trailing, 64-uint(s.leading)-uint(s.trailing))
}

// start writes the start timestamp of sample n, if samples have fields for it by now.
// before is the time of the sample before.
func (e *Encoder2) start(n int, before, st int64) {
	gap := uint64(before) - uint64(st)
	switch {
	case e.begin > 0:
		e.varbit(int64(gap - e.gap))
	case st != e.st || n == fromST:
		e.begin = n
		e.buf[headerSize] |= byte(n)
		e.varbit(int64(gap))
	default:
		return
	}
	e.st, e.gap = st, gap
}

// varbit writes a signed varbit integer: in the first width that it fits.
func (e *Encoder2) varbit(v int64) {
	for ones, w := range varbitWidths {
		half := int64(1) << max(w-1, 0)
		switch {
		case w == 64:
			e.put(1<<ones-1, uint(ones))
			e.put(uint64(v), 64)
		case v == 0 && w == 0 || w > 0 && -half < v && v <= half:
			e.put((1<<ones-1)<<1, uint(ones)+1)
			e.put(uint64(v)&(1<<w-1), uint(w))
		default:
			continue
		}
		return
	}
}

func (e *Encoder2) put(w uint64, n uint) { e.buf = e.state.put(e.buf, w, n) }

// Len returns the number of samples in the chunk.
func (e *Encoder2) Len() int { return e.state.Len() }

// SizeBytes returns the length of the chunk that AppendTo gives.
func (e *Encoder2) SizeBytes() int {
	return max(len(e.buf), headerSize2) + e.state.PendingBytes()
}

// MemoryBytes returns how many bytes of memory it holds beside itself.
func (e *Encoder2) MemoryBytes() int { return cap(e.buf) }

// AppendTo appends the chunk's bytes to dst. The encoder can go on afterwards.
func (e *Encoder2) AppendTo(dst []byte) []byte {
	if e.Len() == 0 {
		return append(dst, 0, 0, 0)
	}
	return e.state.Snapshot(dst, e.buf)
}

// Reset begins a new chunk.
// It is called once a chunk, and not inlined.
//
//go:noinline
func (e *Encoder2) Reset() { *e = Encoder2{buf: e.buf[:0]} }
