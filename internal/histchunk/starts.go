package histchunk

// Start timestamps are coded as in XOR2 chunks: the first sample may have one, and from a
// certain sample on, which the header names, each has a field.

// The byte of start timestamps: the first sample has one, and the index of the first sample
// from which on each has a field for it, 0 if none has.
const (
	firstHasStart = 0x80
	fieldsFrom    = 0x7f
)

// starts is the state of the start timestamps of a chunk.
type starts struct {
	flags uint8  // the byte of the header
	st    int64  // of the newest sample
	gap   uint64 // time of the sample before the newest one minus st, once there are fields
}

// from returns the index of the first sample with a field, 0 for none.
func (s *starts) from() int { return int(s.flags & fieldsFrom) }

// write writes the start timestamp of sample index, at time t, where the one before it is at
// time before.
func (s *starts) write(w *bitWriter, index int, t, before, st int64) {
	if index == 0 {
		*s = starts{st: st}
		if st != 0 {
			s.flags = firstHasStart
			w.varint(t - st)
		}
		return
	}
	gap := uint64(before) - uint64(st)
	switch {
	case s.from() > 0:
		w.varbit(int64(gap - s.gap))
	case st != s.st || index == fieldsFrom: // a later one has no name
		s.flags |= uint8(index)
		w.varbit(int64(gap))
	default:
		return
	}
	s.st, s.gap = st, gap
}

// read reads what write wrote; flags are known.
func (s *starts) read(r *bitReader, index int, t, before int64) {
	switch from := s.from(); {
	case index == 0:
		s.st, s.gap = 0, 0
		if s.flags&firstHasStart != 0 {
			s.st = t - r.varint()
		}
	case from == 0 || index < from:
	default:
		s.gap += uint64(r.varbit())
		s.st = before - int64(s.gap)
	}
}
