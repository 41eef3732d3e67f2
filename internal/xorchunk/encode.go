package xorchunk

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// MaxSampleBytes is the room that State needs in its buffer for one more sample
// and a Finish after it: 63 bits that wait for their word plus a sample of at most 157
// bits make three words, and what is left over makes a fourth at the end. The
// first sample (2 + 10 + 8 bytes) needs less.
const MaxSampleBytes = 32

// windowUnset is the leading count of a stream that has no window yet. It is
// larger than every real one, so the rule "re-use the window if the new value has
// at least as many leading zeros" fails by itself.
const windowUnset = 0xff

// State encodes one XOR chunk into a buffer that the caller owns. It holds
// everything that the next sample depends on, has no pointers, and is meant to be
// embedded by value in a series' record. The zero value is ready for a new chunk.
//
// The stream is written in whole 64-bit words; up to 63 bits wait in the state.
// So between two calls the buffer is not yet a chunk: Snapshot copies it as one,
// Finish turns it into one.
//
// Usually the same buffer goes through all calls of one chunk: Append takes it and
// returns it longer. But Append looks at nothing that is in the buffer, so a caller
// may also take what each call adds and put it together for Finish. A state and its
// buffer are used under one lock.
type State struct {
	firstT int64  // time of sample 0; undefined while num is 0
	lastT  int64  // time of the newest sample
	delta  uint64 // lastT minus the time before it, wrapped; 0 while num < 2
	lastV  uint64 // bits of the newest value
	acc    uint64 // its low nbits bits are not in the buffer yet; what is above them is noise
	num    uint16 // samples so far
	nbits  uint8  // Invariant: nbits < 64

	leading  uint8 // current window; windowUnset before the first one
	trailing uint8
}

// Reset begins a new chunk. The next Append wants an empty buffer.
func (s *State) Reset() { *s = State{} }

// Len returns the number of samples in the chunk.
func (s *State) Len() int { return int(s.num) }

// FirstT returns the time of the first sample in milliseconds; 0 if there is none.
func (s *State) FirstT() int64 { return s.firstT }

// LastT returns the time of the newest sample in milliseconds; 0 if there is none.
func (s *State) LastT() int64 { return s.lastT }

// LastBits returns the bits of the value of the newest sample; 0 if there is none.
func (s *State) LastBits() uint64 { return s.lastV }

// Note counts a sample of a chunk that another encoder builds: so the state answers for
// that chunk, too. bits is what LastBits returns then. Nothing may be taken of the state
// but Len, FirstT, LastT and LastBits.
func (s *State) Note(t int64, bits uint64) {
	if s.num == 0 {
		s.firstT = t
	}
	s.lastT, s.lastV = t, bits
	s.num++
}

// SizeBytes returns the length of the chunk that Snapshot and Finish give.
func (s *State) SizeBytes(buf []byte) int {
	return max(len(buf), headerSize) + int(s.nbits+7)/8
}

// PendingBytes returns how many bytes Finish adds to what Append has given out.
func (s *State) PendingBytes() int { return int(s.nbits+7) / 8 }

// Append adds one sample and returns the longer buffer. Any times and any value
// bits can be encoded; order is the caller's business. The caller makes sure that
// cap(buf)-len(buf) is at least MaxSampleBytes, then nothing is allocated
// (otherwise the buffer moves, as with the append of the language), and that Len is below
// MaxSamples, else Append panics.
//
// Time and value are collected in one word, as nearly all samples fit one: a sample is then one
// shift into the pending bits; in one piece, as calls were a seventh of it (BenchmarkXORAppend).
func (s *State) Append(buf []byte, t int64, v float64) []byte {
	delta := uint64(t) - uint64(s.lastT)
	word, n := uint64(0), uint(1)
	switch {
	case s.num-2 < MaxSamples-2:
		switch dod := delta - s.delta; {
		case dod == 0:
		case dod+8191 <= 8191+8192:
			word, n = 0b10<<14|dod&(1<<14-1), 2+14
		case dod+65535 <= 65535+65536:
			word, n = 0b110<<17|dod&(1<<17-1), 3+17
		case dod+524287 <= 524287+524288:
			word, n = 0b1110<<20|dod&(1<<20-1), 4+20
		default:
			buf = s.put(buf, 0b1111, 4)
			buf = s.put(buf, dod, 64)
			n = 0
		}
	case s.num == 1:
		buf = binary.AppendUvarint(buf, delta)
		n = 0
	default:
		return s.appendFirst(buf, t, v)
	}
	x := math.Float64bits(v) ^ s.lastV
	s.lastT, s.delta, s.lastV = t, delta, math.Float64bits(v)
	s.num++
	if x == 0 {
		return s.put(buf, word<<1, n+1)
	}
	lead, trail := min(uint(bits.LeadingZeros64(x)), 31), uint(bits.TrailingZeros64(x))
	if lead >= uint(s.leading) && trail >= uint(s.trailing) {
		trail = uint(s.trailing)
		word, n = word<<2|0b10, n+2
		lead = uint(s.leading)
	} else {
		s.leading, s.trailing = uint8(lead), uint8(trail)
		word, n = word<<13|0b11<<11|uint64(lead)<<6|uint64(64-lead-trail)&63, n+13
	}
	sig := 64 - lead - trail
	if n+sig <= 64 {
		return s.put(buf, word<<(sig&63)|x>>(trail&63), n+sig)
	}
	buf = s.put(buf, word, n)
	return s.put(buf, x>>(trail&63), sig)
}

// appendFirst begins a chunk. It panics if there is one that is full.
func (s *State) appendFirst(buf []byte, t int64, v float64) []byte {
	if s.num > 0 {
		panic("BUG: append to a full XOR chunk")
	}
	*s = State{firstT: t, lastT: t, lastV: math.Float64bits(v), num: 1, leading: windowUnset}
	buf = append(buf[:0], 0, 0) // the count, known at the end
	buf = binary.AppendVarint(buf, t)
	return binary.BigEndian.AppendUint64(buf, math.Float64bits(v))
}

// put appends the low n bits of w; the bits above them are zero and n <= 64.
func (s *State) put(buf []byte, w uint64, n uint) []byte {
	room := 64 - uint(s.nbits)
	if n < room {
		s.acc = s.acc<<(n&63) | w
		s.nbits += uint8(n)
		return buf
	}
	rest := n - room
	buf = binary.BigEndian.AppendUint64(buf, s.acc<<room|w>>(rest&63))
	s.acc, s.nbits = w, uint8(rest)
	return buf
}

// Snapshot appends the finished chunk of the samples so far to dst and changes
// neither the state nor buf: it is what readers of an open chunk take under the
// series' lock, a copy of SizeBytes(buf) bytes.
func (s *State) Snapshot(dst, buf []byte) []byte {
	dst = append(dst, byte(s.num>>8), byte(s.num))
	if len(buf) > headerSize {
		dst = append(dst, buf[headerSize:]...)
	}
	return s.appendPending(dst)
}

// Finish turns buf into the finished chunk, in place if it has the room that
// MaxSampleBytes promises. It does not change the state, so it may also be used on a
// copy of the buffer; to buf itself nothing may be appended after that.
func (s *State) Finish(buf []byte) []byte {
	if s.num == 0 {
		return append(buf[:0], 0, 0)
	}
	binary.BigEndian.PutUint16(buf, s.num)
	return s.appendPending(buf)
}

// appendPending appends the waiting bits, padded with zeros to a whole byte.
//
//go:noinline
func (s *State) appendPending(dst []byte) []byte {
	if s.nbits == 0 {
		return dst
	}
	w := s.acc << (64 - uint(s.nbits))
	for n := int(s.nbits); n > 0; n -= 8 {
		dst = append(dst, byte(w>>56))
		w <<= 8
	}
	return dst
}

// Encoder builds XOR chunks in a buffer of its own, which is kept for the next
// chunk. The zero value is ready. It is for one goroutine.
type Encoder struct {
	state State
	buf   []byte
}

// Append adds one sample, whatever its time and value. It returns ErrFull if
// the chunk has MaxSamples samples.
func (e *Encoder) Append(t int64, v float64) error {
	if e.state.Len() == MaxSamples {
		return ErrFull
	}
	e.buf = e.state.Append(e.buf, t, v)
	return nil
}

// Len returns the number of samples in the chunk.
func (e *Encoder) Len() int { return e.state.Len() }

// SizeBytes returns the size of the chunk so far.
func (e *Encoder) SizeBytes() int { return e.state.SizeBytes(e.buf) }

// MemoryBytes returns how many bytes of memory it holds beside itself.
func (e *Encoder) MemoryBytes() int { return cap(e.buf) }

// AppendTo appends the chunk's bytes to dst. The encoder can go on afterwards.
func (e *Encoder) AppendTo(dst []byte) []byte { return e.state.Snapshot(dst, e.buf) }

// Reset begins a new chunk.
func (e *Encoder) Reset() {
	e.state.Reset()
	e.buf = e.buf[:0]
}
