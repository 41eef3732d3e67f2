package record

import (
	"encoding/binary"
	"math"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// SampleDecoder is a cursor over a samples record, V1 or V2. The zero value is ready
// for Reset.
//
// It works on bare bytes instead of a Dec: replay spends its time here, and a V1 entry
// costs 3 ns this way (BenchmarkSampleDecoder).
type SampleDecoder struct {
	rest  []byte // of the record
	size  int    // of the record
	err   error
	v2    bool
	begun bool   // V2: the first entry was read
	ref   uint64 // V1: base; V2: of the previous entry
	t     int64  // base; V2: of the first entry
	first int64  // V2: start of the first entry
	start int64  // V2: start of the previous entry
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Decode.
func (s *SampleDecoder) Reset(rec []byte) {
	*s = SampleDecoder{rest: rec, size: len(rec)}
	switch TypeOf(rec) {
	case TypeSamples:
		s.resetV1(rec[1:])
	case TypeSamplesV2:
		s.v2, s.rest = true, rec[1:]
	default:
		s.fail("not a record of samples")
	}
}

func (s *SampleDecoder) resetV1(b []byte) {
	s.rest = b
	if len(b) == 0 {
		return
	}
	if len(b) < 16 {
		s.fail("input ends inside the base")
		return
	}
	s.ref = binary.BigEndian.Uint64(b)
	s.t = int64(binary.BigEndian.Uint64(b[8:]))
	s.rest = b[16:]
}

// MaxSamples returns an upper bound of the samples that are left, from the bytes that
// are left: what a buffer for all of them must hold.
func (s *SampleDecoder) MaxSamples() int { return len(s.rest) / minSampleBytes }

// HasStarts tells whether samples of the record may have start timestamps: it is a V2.
func (s *SampleDecoder) HasStarts() bool { return s.v2 }

// Decode fills dst with the next samples and returns how many it got: fewer than
// len(dst) only at the end of the record. The error is an *encbuf.CorruptError and
// stays; the n samples before it were decoded without fault. Start timestamps are
// dropped.
func (s *SampleDecoder) Decode(dst []Sample) (n int, err error) {
	if s.v2 {
		return s.decodeV2(dst, nil)
	}
	return s.decodeV1(dst)
}

// DecodeStarts is Decode that also gives start timestamps in milliseconds, 0 for
// none; starts must not be shorter than dst.
func (s *SampleDecoder) DecodeStarts(dst []Sample, starts []int64) (n int, err error) {
	if s.v2 {
		return s.decodeV2(dst, starts[:len(dst)])
	}
	n, err = s.decodeV1(dst)
	clear(starts[:n])
	return n, err
}

// decodeV1 takes entries without asking for the end of the input while the longest
// entry fits what is left, and then one by one. Varints of one, two and three bytes,
// which is what commits of neighbouring series need, are taken apart in line.
func (s *SampleDecoder) decodeV1(dst []Sample) (int, error) {
	b, off, n := s.rest, 0, 0
	for n < len(dst) && off <= len(b)-maxSampleBytes {
		e := (*[maxSampleBytes]byte)(b[off:])
		dref, i := uint64(e[0]), 1
		if dref >= 0x80 {
			switch {
			case e[1] < 0x80:
				dref, i = dref&0x7f|uint64(e[1])<<7, 2
			case e[2] < 0x80:
				dref, i = dref&0x7f|uint64(e[1]&0x7f)<<7|uint64(e[2])<<14, 3
			default:
				dref, i = binary.Uvarint(e[:])
			}
			if i <= 0 {
				break
			}
		}
		dt, j := uint64(e[i]), 1
		if dt >= 0x80 {
			if dt, j = binary.Uvarint(e[i:]); j <= 0 {
				break
			}
		}
		i += j
		to := &dst[n]
		to.Ref = s.ref + uint64(unzigzag(dref))
		to.T = s.t + unzigzag(dt)
		to.V = math.Float64frombits(binary.BigEndian.Uint64(e[i:]))
		off += i + 8
		n++
	}
	s.rest = b[off:]
	for n < len(dst) && len(s.rest) > 0 {
		dref, dt, v := s.varint(), s.varint(), s.value()
		if s.err != nil {
			break
		}
		dst[n] = Sample{Ref: s.ref + uint64(dref), T: s.t + dt, V: v}
		n++
	}
	return n, s.err
}

// decodeV2 is decodeV1 for the younger format, which no default writer makes; starts
// is nil when nobody wants them.
func (s *SampleDecoder) decodeV2(dst []Sample, starts []int64) (n int, err error) {
	for ; n < len(dst) && len(s.rest) > 0; n++ {
		ref, t := s.varint(), s.varint()
		start := s.startV2()
		v := s.value()
		if s.err != nil {
			break
		}
		if !s.begun {
			s.begun, s.t, s.first = true, t, start
			t = 0
		}
		s.ref, s.start = s.ref+uint64(ref), start
		dst[n] = Sample{Ref: s.ref, T: s.t + t, V: v}
		if starts != nil {
			starts[n] = start
		}
	}
	return n, s.err
}

// startV2 reads a start timestamp: whole in the first entry, then behind a marker.
func (s *SampleDecoder) startV2() int64 {
	if !s.begun {
		return s.varint()
	}
	if len(s.rest) == 0 {
		s.fail("input ends where a start marker is expected")
		return 0
	}
	marker := s.rest[0]
	s.rest = s.rest[1:]
	switch marker {
	case startNone:
		return 0
	case startSame:
		return s.start
	default:
		return s.first + s.varint()
	}
}

func (s *SampleDecoder) varint() int64 {
	u, n := binary.Uvarint(s.rest)
	if n <= 0 {
		s.fail("input ends inside a varint, or the varint exceeds 64 bits")
		return 0
	}
	s.rest = s.rest[n:]
	return unzigzag(u)
}

func (s *SampleDecoder) value() float64 {
	if len(s.rest) < 8 {
		s.fail("input ends inside a value")
		return 0
	}
	v := math.Float64frombits(binary.BigEndian.Uint64(s.rest))
	s.rest = s.rest[8:]
	return v
}

// fail keeps the first fault with its place and ends the record.
//
//go:noinline
func (s *SampleDecoder) fail(reason string) {
	if s.err == nil {
		s.err = encbuf.Corrupt(s.size-len(s.rest), reason)
	}
	s.size -= len(s.rest)
	s.rest = nil
}

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
