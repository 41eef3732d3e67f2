package xorchunk

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// staleMarker is the NaN that says that a series ended. XOR2 chunks have a code for it.
const staleMarker = 0x7ff0000000000002

// headerSize2 is the sample count and the byte that says which samples have start
// timestamps.
const headerSize2 = headerSize + 1

// The byte of start timestamps: the first sample has one, and the index of the first
// sample from which on each has a field for it, 0 if none has.
const (
	firstST = 0x80
	fromST  = 0x7f
)

// idleBits2 is how many zeros in a row make it worth leaving the general loop for runIdle.
const idleBits2 = 16

// firstTimeCode is "the distance changes by 0, and a value of the long codes follows". The
// second sample has no time code; this one, in front of it, makes it one like all others.
const (
	firstTimeCode     = 0b110 << 61
	firstTimeCodeBits = 3 + 13
)

// Decoder2 decodes one XOR2 chunk in runs of any length, as Decoder does for XOR
// chunks: it is a value, takes no memory of its own and can be reset to other chunks. The
// zero value is an empty chunk.
//
// Bits are taken from the top of a 64-bit accumulator that is refilled by whole words. Below
// the bits that the chunk has, it holds zeros; a sample that used more bits than there were is
// found by a count below zero.
type Decoder2 struct {
	x     Decoder // data, newest time and value that is no stale marker, length of the window
	pos   int     // first byte of data that is not in acc
	acc   uint64  // the next nbits bits, at the top; zeros or the bits after them below
	nbits int     // how many bits of acc count; below 64, and below zero after damage
	st    int64   // start timestamp of the samples before those with fields
	gap   uint64  // time of the sample before the newest one minus st; 0 while there are no fields
	begin int     // index of the first sample with a field; MaxSamples+1: none
	hasST bool

	trailing uint8 // bits behind the window
}

// Reset begins a chunk, which data must hold from its first byte on and as long as it is
// decoded. Bytes behind the last sample are not looked at.
func (d *Decoder2) Reset(data []byte) error {
	*d = Decoder2{x: Decoder{sig: 64}, begin: MaxSamples + 1}
	if len(data) < headerSize2 {
		return encbuf.Corrupt(len(data), "XOR2 chunk is shorter than its header")
	}
	num, st := int(binary.BigEndian.Uint16(data)), data[headerSize]
	if num == 0 {
		return nil
	}
	t, n := binary.Varint(data[headerSize2:])
	if n <= 0 {
		return encbuf.Corrupt(headerSize2, "XOR2 chunk: bad time of the first sample")
	}
	pos := headerSize2 + n
	if len(data) < pos+8 {
		return encbuf.Corrupt(pos, "XOR2 chunk ends in the first value")
	}
	d.x.t, d.x.v = t, binary.BigEndian.Uint64(data[pos:])
	pos += 8
	if st&firstST != 0 {
		gap, n := binary.Varint(data[pos:])
		if n <= 0 {
			return encbuf.Corrupt(pos, "XOR2 chunk: bad start timestamp of the first sample")
		}
		d.st = t - gap
		pos += n
	}
	if num > 1 {
		delta, n := binary.Uvarint(data[pos:])
		if n <= 0 {
			return encbuf.Corrupt(pos, "XOR2 chunk: bad time of the second sample")
		}
		d.x.delta, d.acc, d.nbits = delta, firstTimeCode, firstTimeCodeBits
		pos += n
	}
	d.x.data, d.pos, d.x.num, d.x.left = data, pos, num, num
	d.hasST = st != 0
	if from := int(st & fromST); from > 0 {
		d.begin = from
	}
	return nil
}

// First returns the part of d that decodes an XOR chunk. Who has chunks of both encodings needs no
// second decoder: a Reset of that part ends what d was at, and a Reset of d what the part was at.
func (d *Decoder2) First() *Decoder { return &d.x }

// Left returns how many samples are still to be decoded, in either case.
func (d *Decoder2) Left() int { return d.x.left }

// HasST reports whether samples of the chunk may have start timestamps.
func (d *Decoder2) HasST() bool { return d.hasST }

// Decode decodes the next samples into ts and vs, as many as the shorter one has
// room for, and returns their number; 0 without an error means that the chunk is at its
// end or that there was no room. With an error the first n samples are good, and the
// decoder gives nothing more.
func (d *Decoder2) Decode(ts []int64, vs []float64) (n int, err error) {
	return d.DecodeST(ts, vs, nil)
}

// DecodeST is Decode that also gives start timestamps, milliseconds, 0 for none. sts is
// nil, or at least as long as the shorter one of ts and vs.
func (d *Decoder2) DecodeST(ts []int64, vs []float64, sts []int64) (n int, err error) {
	n = min(len(ts), len(vs), d.x.left)
	if n == 0 {
		return 0, nil
	}
	ts, vs = ts[:n], vs[:n]
	if sts != nil {
		sts = sts[:n]
	}
	index := d.x.num - d.x.left
	done := 0
	if index == 0 {
		ts[0], vs[0] = d.x.t, math.Float64frombits(d.x.v)
		if d.x.v == staleMarker {
			d.x.v = 0
		}
		done = 1
	}
	plain := max(min(n, d.begin-index), done)
	for done < plain && d.nbits >= 0 {
		done += d.run(ts[done:plain], vs[done:plain], nil, false)
		done += d.runIdle(ts[done:plain], vs[done:plain])
	}
	for i := range sts[:min(done, len(sts))] {
		sts[i] = d.st
	}
	if done < n && d.nbits >= 0 {
		done += d.run(ts[done:], vs[done:], sts[min(done, len(sts)):], true)
	}
	d.x.left -= done
	if d.nbits < 0 {
		d.x.left = 0
		return done, d.damage()
	}
	return n, nil
}

// damage says why nbits fell below zero.
func (d *Decoder2) damage() error {
	if d.x.sig == impossibleWindow {
		return encbuf.Corrupt(d.pos, "XOR2 chunk: value window of more than 64 bits before this place")
	}
	return encbuf.Corrupt(len(d.x.data), "XOR2 chunk ends inside a sample")
}

// Kinds of values, in the order of their codes.
const (
	valueSame = iota
	valueInWindow
	valueInNewWindow
	valueStale
)

// run decodes samples until ts is full, and returns how many were good. With fields there
// is one for the start timestamp behind each of them; sts may be empty. It is one piece
// over 40 lines because its state lives in registers, as in Decoder; what is rare is in
// functions below (BenchmarkXOR2Decode).
func (d *Decoder2) run(ts []int64, vs []float64, sts []int64, fields bool) int {
	x := &d.x
	data, pos, acc, nbits := x.data, d.pos, d.acc, d.nbits
	t, delta, v := x.t, x.delta, x.v
	sig, trailing := int(x.sig), uint(d.trailing)
	vs = vs[:len(ts)]
	gap := d.gap
	i := 0
	for ; i < len(ts); i++ {
		if pos+8 <= len(data) { // refill, written out
			acc |= binary.BigEndian.Uint64(data[pos:]) >> (uint(nbits) & 63)
			pos += (63 - nbits) >> 3
			nbits |= 56
		} else {
			acc, nbits, pos = refillTail(data, acc, nbits, pos)
		}

		kind, long := valueSame, false
		switch {
		case acc>>63 == 0:
			acc, nbits = acc<<1, nbits-1
		case acc>>62 == 0b10:
			kind = valueInWindow + int(acc<<2>>63)
			acc, nbits = acc<<3, nbits-3
		case acc>>61 == 0b110:
			delta += uint64(int64(acc<<3) >> 51) // 13 bits
			acc, nbits, long = acc<<16, nbits-16, true
		case acc>>59 == 0b11111:
			kind, acc, nbits = valueStale, acc<<5, nbits-5
		default:
			var dod uint64
			dod, acc, nbits, pos = readWideDod(data, acc, nbits, pos)
			delta, long = delta+dod, true
		}
		if long {
			kind = min(bits.LeadingZeros64(^acc), valueStale)
			used := min(kind+1, 3)
			acc, nbits = acc<<(uint(used)&63), nbits-used
		}

		if kind == valueInNewWindow {
			lead := int(acc >> 59)
			sig = int((acc<<5>>58-1)&63) + 1 // 0 is written for 64
			if lead+sig > 64 {
				sig, nbits = impossibleWindow, -1
				break
			}
			trailing = uint(64 - lead - sig)
			acc, nbits = acc<<11, nbits-11
		}
		out := v
		switch kind {
		case valueInWindow, valueInNewWindow:
			var diff uint64
			if sig > nbits && pos+8 <= len(data) {
				acc |= binary.BigEndian.Uint64(data[pos:]) >> (uint(nbits) & 63)
				pos += (63 - nbits) >> 3
				nbits |= 56
			}
			if sig > nbits {
				diff, acc, nbits, pos = readLong(data, acc, nbits, pos, sig)
			} else {
				diff = acc >> (uint(64-sig) & 63)
				acc, nbits = acc<<(uint(sig)&63), nbits-sig
			}
			v ^= diff << (trailing & 63)
			out = v
		case valueStale:
			out = staleMarker
		}
		if fields && nbits >= 0 {
			var change uint64
			change, acc, nbits, pos = readVarbit(data, acc, nbits, pos)
			if gap += change; i < len(sts) {
				sts[i] = t - int64(gap)
			}
		}
		if nbits < 0 {
			break
		}
		t += int64(delta)
		ts[i], vs[i] = t, math.Float64frombits(out)
		if !fields && acc>>(64-idleBits2) == 0 {
			i++
			break
		}
	}
	d.gap = gap
	d.pos, d.acc, d.nbits = pos, acc, nbits
	x.t, x.delta, x.v = t, delta, v
	x.sig, d.trailing = uint8(sig), uint8(trailing)
	return i
}

// runIdle decodes the samples that acc begins with as far as they are a zero bit each:
// same distance, same value.
func (d *Decoder2) runIdle(ts []int64, vs []float64) int {
	x := &d.x
	n := min(bits.LeadingZeros64(d.acc), max(d.nbits, 0), len(ts))
	t, v := x.t, math.Float64frombits(x.v)
	vs = vs[:n]
	for i := range vs {
		t += int64(x.delta)
		ts[i], vs[i] = t, v
	}
	x.t, d.acc, d.nbits = t, d.acc<<uint(n), d.nbits-n
	return n
}

// readWideDod takes a change of the distance that needs more than 13 bits; its code begins
// with 1110 or 11110. If data ends before, the count that it returns is negative.
func readWideDod(data []byte, acc uint64, nbits, pos int) (dod, _ uint64, _, _ int) {
	if acc>>60 == 0b1110 {
		return uint64(int64(acc<<4) >> 44), acc << 24, nbits - 24, pos
	}
	dod, acc, nbits, pos = readLong(data, acc<<5, nbits-5, pos, 64)
	if nbits >= 0 {
		acc, nbits, pos = refill(data, acc, nbits, pos)
	}
	return dod, acc, nbits, pos
}

// varbitWidths are the bits of a varbit integer behind so many ones (and a zero, except
// for the last).
var varbitWidths = [...]int{0, 3, 6, 9, 12, 18, 25, 56, 64}

// readVarbit takes a signed varbit integer. If data ends before, the count that it returns
// is negative.
func readVarbit(data []byte, acc uint64, nbits, pos int) (u, _ uint64, _, _ int) {
	acc, nbits, pos = refill(data, acc, nbits, pos)
	if acc>>63 == 0 {
		return 0, acc << 1, nbits - 1, pos
	}
	ones := min(bits.LeadingZeros64(^acc), len(varbitWidths)-1)
	used := min(ones+1, len(varbitWidths)-1)
	acc, nbits = acc<<uint(used), nbits-used
	if nbits < 0 {
		return 0, acc, nbits, pos
	}
	w := varbitWidths[ones]
	u, acc, nbits, pos = readLong(data, acc, nbits, pos, w)
	if w < 64 && u > 1<<(w-1) {
		u -= 1 << w
	}
	return u, acc, nbits, pos
}

// refill gives acc at least 56 bits, unless data ends before; 0 <= nbits < 64.
func refill(data []byte, acc uint64, nbits, pos int) (uint64, int, int) {
	if pos+8 <= len(data) {
		acc |= binary.BigEndian.Uint64(data[pos:]) >> (uint(nbits) & 63)
		return acc, nbits | 56, pos + (63-nbits)>>3
	}
	return refillTail(data, acc, nbits, pos)
}

// refillTail takes the last bytes of data one by one. At the end of data it changes
// nothing, and nbits may be below zero.
func refillTail(data []byte, acc uint64, nbits, pos int) (uint64, int, int) {
	for nbits < 56 && pos < len(data) {
		acc |= uint64(data[pos]) << (uint(56-nbits) & 63)
		pos++
		nbits += 8
	}
	return acc, nbits, pos
}

// readLong takes sig bits (at most 64) where acc may have fewer. If data ends before,
// the count that it returns is negative.
func readLong(data []byte, acc uint64, nbits, pos, sig int) (x, _ uint64, _, _ int) {
	for need := sig; ; {
		if nbits <= 0 {
			// What acc still holds is not counted; it comes again.
			if acc, nbits, pos = refill(data, 0, max(nbits, 0), pos); nbits == 0 {
				return 0, 0, -1, pos
			}
		}
		k := min(need, nbits)
		x = x<<uint(k) | acc>>uint(64-k)
		acc, nbits, need = acc<<uint(k), nbits-k, need-k
		if need == 0 {
			return x, acc, nbits, pos
		}
	}
}
