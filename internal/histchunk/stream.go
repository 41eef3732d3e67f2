package histchunk

import (
	"math"
)

// stream is a chunk that is written: its bits, and what the next sample is coded against.
type stream struct {
	w bitWriter
	newest
	starts starts
	num    int
	header Header
	float  bool
	st     bool // the chunk has room for start timestamps
}

// restart begins the bit stream of the chunk.
func (s *stream) restart() {
	s.num = 0
	s.w.reset()
	s.layout.write(&s.w)
	s.open()
}

// write appends a sample that has the layout of the chunk, or is a stale marker.
func (s *stream) write(t, st int64, h *sample) {
	before := int64(s.time().v)
	switch {
	case s.num == 0:
		s.writeFirst(uint64(t), h)
	case s.float:
		s.writeFloats(uint64(t), h)
	case h.stale:
		// Both counts go on as they did. Behind it only others follow: nothing depends on what
		// the columns are then.
		s.writeInts(uint64(t), s.count().v+s.count().d, s.zero().v+s.zero().d, h.sum, nil, nil)
	default:
		s.writeInts(uint64(t), h.count, h.zero, h.sum, h.ints[0], h.ints[1])
	}
	if s.st {
		s.starts.write(&s.w, s.num, t, before, st)
	}
	s.num++
}

// writeFirst writes sample 0, in which everything is whole.
func (s *stream) writeFirst(t uint64, h *sample) {
	w := &s.w
	s.front = [3]column{{v: t}, {v: h.count}, {v: h.zero}}
	w.varbit(int64(t))
	if s.float {
		w.raw(s.count(), h.count)
		w.raw(s.zero(), h.zero)
	} else {
		w.uvarbit(h.count)
		w.uvarbit(h.zero)
	}
	w.raw(&s.sum, h.sum)
	cols := s.cols
	for side := range h.spans {
		for i, d := range h.ints[side] {
			cols[i] = column{v: uint64(d)}
			w.varbit(d)
		}
		for i, f := range h.floats[side] {
			w.raw(&cols[i], math.Float64bits(f))
		}
		cols = cols[len(h.ints[side])+len(h.floats[side]):]
	}
}

// writeInts writes a later sample of integers.
func (s *stream) writeInts(t, count, zero, sum uint64, positive, negative []int64) {
	w := &s.w
	w.dods(s.front[:], []int64{int64(t), int64(count), int64(zero)})
	w.xor(&s.sum, sum)
	w.dods(s.cols, positive)
	if len(negative) > 0 {
		w.dods(s.cols[len(positive):], negative)
	}
}

// writeFloats writes a later sample of floats.
func (s *stream) writeFloats(t uint64, h *sample) {
	w := &s.w
	w.dod(s.time(), t)
	w.xor(s.count(), h.count)
	w.xor(s.zero(), h.zero)
	w.xor(&s.sum, h.sum)
	cols := s.cols
	for _, counts := range h.floats {
		for i, f := range counts {
			w.xor(&cols[i], math.Float64bits(f))
		}
		cols = cols[len(counts):]
	}
}

// Encoding returns the encoding of the chunk so far.
func (s *stream) Encoding() Encoding {
	switch {
	case s.float && s.st:
		return EncFloatsST
	case s.float:
		return EncFloats
	case s.st:
		return EncIntsST
	default:
		return EncInts
	}
}

// AppendTo appends the chunk's bytes to dst. The encoder can go on afterwards.
func (s *stream) AppendTo(dst []byte) []byte {
	n := s.num
	if s.st {
		n |= int(s.header) << 14
		dst = append(dst, byte(n>>8), byte(n), s.starts.flags)
	} else {
		dst = append(dst, byte(n>>8), byte(n), byte(s.header)<<6)
	}
	return s.w.appendTo(dst)
}
