package chunkenc

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// idleBits is how many zeros in a row make it worth leaving the general loop
// for runIdle.
const idleBits = 16

// impossibleWindow stands in sig when a window had more than 64 bits.
const impossibleWindow = 0

// XORDecoder decodes one XOR chunk in runs of any length. It is a value, takes no
// memory of its own and can be reset to other chunks. The zero value is an empty
// chunk.
//
// Bits are taken from the top of a 64-bit accumulator that is refilled by whole
// words; those of values that do not fit there from their place in data, by runWide.
// Below the bits that the chunk has, the accumulator holds zeros; a sample that used more
// bits than there were is found by a count below zero.
type XORDecoder struct {
	data []byte
	pos  int    // first byte of data that is not in acc
	acc  uint64 // the next nbits bits, at the top; zeros or the bits after them below
	// nbits is how many bits of acc count. Invariant: nbits < 64. Below zero the chunk
	// was damaged, see damage.
	nbits int

	t     int64
	delta uint64
	v     uint64

	left     int   // samples not decoded yet
	num      int   // samples in the chunk
	sig      uint8 // significant bits of the window; 64 before the first one
	trailing uint8
}

// Reset begins a chunk, which data must hold from its first byte on and as long
// as it is decoded. Bytes behind the last sample are not looked at.
func (d *XORDecoder) Reset(data []byte) error {
	*d = XORDecoder{sig: 64}
	if len(data) < headerSize {
		return encbuf.Corrupt(len(data), "XOR chunk is shorter than its sample count")
	}
	num := int(binary.BigEndian.Uint16(data))
	if num == 0 {
		return nil
	}
	t, n := binary.Varint(data[headerSize:])
	if n <= 0 {
		return encbuf.Corrupt(headerSize, "XOR chunk: bad time of the first sample")
	}
	pos := headerSize + n
	if len(data) < pos+8 {
		return encbuf.Corrupt(pos, "XOR chunk ends in the first value")
	}
	d.t, d.v = t, binary.BigEndian.Uint64(data[pos:])
	pos += 8
	if num > 1 {
		delta, n := binary.Uvarint(data[pos:])
		if n <= 0 {
			return encbuf.Corrupt(pos, "XOR chunk: bad time of the second sample")
		}
		// The second sample has no time code. With its distance known, the code that
		// says "the same distance again" is true of it: one zero bit in front.
		d.delta, d.nbits = delta, 1
		pos += n
	}
	d.data, d.pos, d.num, d.left = data, pos, num, num
	return nil
}

// Left returns how many samples are still to be decoded.
func (d *XORDecoder) Left() int { return d.left }

// Decode decodes the next samples into ts and vs, as many as the shorter one has
// room for, and returns their number; 0 without an error means that the chunk is at its
// end or that there was no room. With an error the first n samples are good, and the
// decoder gives nothing more.
func (d *XORDecoder) Decode(ts []int64, vs []float64) (n int, err error) {
	n = min(len(ts), len(vs), d.left)
	if n == 0 {
		return 0, nil
	}
	ts, vs = ts[:n], vs[:n]
	done := 0
	if d.left == d.num {
		ts[0], vs[0] = d.t, math.Float64frombits(d.v)
		done = 1
	}
	for done < n && d.nbits >= 0 {
		more, wide := d.run(ts[done:], vs[done:])
		if done += more; wide {
			done += d.runWide(ts[done:], vs[done:])
		}
		done += d.runIdle(ts[done:], vs[done:])
	}
	d.left -= done
	if d.nbits < 0 {
		d.left = 0
		return done, d.damage()
	}
	return n, nil
}

// damage says why nbits fell below zero.
func (d *XORDecoder) damage() error {
	if d.sig == impossibleWindow {
		return encbuf.Corrupt(d.pos, "XOR chunk: value window of more than 64 bits before this place")
	}
	return encbuf.Corrupt(len(d.data), "XOR chunk ends inside a sample")
}

// run decodes samples that have a time code until ts is full, and returns how many
// were good. It ends early before samples for runIdle, and behind one that is wide: those that
// follow are for runWide. It is one piece over 40 lines because its state lives in registers;
// what is rare is in functions below (BenchmarkXORDecode).
func (d *XORDecoder) run(ts []int64, vs []float64) (n int, wide bool) {
	data, pos, acc, nbits := d.data, d.pos, d.acc, d.nbits
	t, delta, v := d.t, d.delta, d.v
	sig, trailing := int(d.sig), uint(d.trailing)
	vs = vs[:len(ts)]
	i := 0
	for ; i < len(ts); i++ {
		if pos+8 <= len(data) { // refill, written out
			acc |= binary.BigEndian.Uint64(data[pos:]) >> (uint(nbits) & 63)
			pos += (63 - nbits) >> 3
			nbits |= 56
		} else {
			acc, nbits, pos = refillTail(data, acc, nbits, pos)
		}

		switch {
		case acc>>63 == 0:
			acc, nbits = acc<<1, nbits-1
		case acc>>62 == 0b10:
			// 14 bits for -8191 .. 8192.
			delta += (acc<<2>>50+8191)&(1<<14-1) - 8191
			acc, nbits = acc<<16, nbits-16
		default:
			var dod uint64
			dod, acc, nbits, pos = readDod(data, acc, nbits, pos)
			delta += dod
		}

		if acc>>63 == 0 {
			acc, nbits = acc<<1, nbits-1
		} else {
			if acc>>62 == 0b10 {
				acc, nbits = acc<<2, nbits-2
			} else {
				lead := int(acc << 2 >> 59)
				sig = int((acc<<7>>58-1)&63) + 1 // 0 is written for 64
				if lead+sig > 64 {
					sig, nbits = impossibleWindow, -1
					break
				}
				trailing = uint(64 - lead - sig)
				acc, nbits = acc<<13, nbits-13
			}
			var x uint64
			if sig > nbits {
				x, acc, nbits, pos = readLong(data, acc, nbits, pos, sig)
				ts = ts[:i+1] // the last one here, said without a variable of its own
			} else {
				x = acc >> (uint(64-sig) & 63)
				acc, nbits = acc<<(uint(sig)&63), nbits-sig
			}
			v ^= x << (trailing & 63)
		}
		if nbits < 0 {
			break
		}
		t += int64(delta)
		ts[i], vs[i] = t, math.Float64frombits(v)
		if acc>>(64-idleBits) == 0 {
			i++
			break
		}
	}
	d.pos, d.acc, d.nbits = pos, acc, nbits
	d.t, d.delta, d.v = t, delta, v
	d.sig, d.trailing = uint8(sig), uint8(trailing)
	return i, len(ts) < len(vs)
}

// farBytes is more than one sample takes, what is read behind it included.
const farBytes = 24

// runWide decodes samples as run does, as long as the end of data is far and there is work for
// neither of the others. Each field is taken from its place in data, by a load that waits for
// nothing but that place: a window that with its codes is longer than an accumulator takes one
// load more, and a processor has several samples under way at once. Values of full precision
// take two fifths of the time, others a tenth more, so run comes first (BenchmarkXORDecode). It must
// have decoded the second sample, which begins with a bit that data does not have.
func (d *XORDecoder) runWide(ts []int64, vs []float64) int {
	data, bit := d.data, d.pos*8-d.nbits
	end := (len(data) - farBytes) * 8
	if d.nbits < 0 || bit >= end {
		return 0
	}
	t, delta, v := d.t, d.delta, d.v
	sig, trailing := uint(d.sig), uint(d.trailing)
	vs = vs[:len(ts)]
	i := 0
	for ; i < len(ts) && bit < end; i++ {
		w := bitsAt(data, bit) // 57 of them count
		if w>>(64-idleBits) == 0 {
			break
		}
		switch {
		case w>>63 == 0:
			w, bit = w<<1, bit+1
		case w>>62 == 0b10:
			// 14 bits for -8191 .. 8192.
			delta += (w<<2>>50+8191)&(1<<14-1) - 8191
			w, bit = w<<16, bit+16
		default:
			var dod uint64
			dod, bit = wideDodAt(data, bit)
			delta += dod
			w = bitsAt(data, bit)
		}

		if w>>63 == 0 {
			bit++
		} else {
			if w>>62 == 0b10 {
				bit += 2
			} else {
				lead, size := uint(w<<2>>59), uint((w<<7>>58-1)&63)+1 // 0 is written for 64
				if lead+size > 64 {
					return d.runWide(ts[:i], vs[:i]) // once more up to there: run says what is wrong
				}
				sig, trailing = size, 64-lead-size
				bit += 13
			}
			v ^= wideBitsAt(data, bit) >> ((64 - sig) & 63) << (trailing & 63)
			bit += int(sig)
		}
		t += int64(delta)
		ts[i], vs[i] = t, math.Float64frombits(v)
	}
	d.goTo(bit)
	d.t, d.delta, d.v = t, delta, v
	d.sig, d.trailing = uint8(sig), uint8(trailing)
	return i
}

// goTo makes a place in data the next one, in bits.
func (d *XORDecoder) goTo(bit int) {
	d.pos, d.acc, d.nbits = bit>>3, 0, 0
	if used := bit & 7; used > 0 {
		d.acc = uint64(d.data[d.pos]) << (56 + used)
		d.pos, d.nbits = d.pos+1, 8-used
	}
}

// bitsAt returns the next bits from a place on, 57 of them at least.
func bitsAt(data []byte, bit int) uint64 {
	return binary.BigEndian.Uint64(data[bit>>3:]) << (uint(bit) & 7)
}

// wideBitsAt returns the next 64 bits.
func wideBitsAt(data []byte, bit int) uint64 {
	b := data[bit>>3:][:9]
	return binary.BigEndian.Uint64(b)<<(uint(bit)&7) | uint64(b[8])>>(8-uint(bit)&7)
}

// wideDodAt takes a change of the distance that needs more than 14 bits; its code begins with 11.
func wideDodAt(data []byte, bit int) (dod uint64, next int) {
	switch w := bitsAt(data, bit); {
	case w>>61 == 0b110:
		return (w<<3>>47+65535)&(1<<17-1) - 65535, bit + 20
	case w>>60 == 0b1110:
		return (w<<4>>44+524287)&(1<<20-1) - 524287, bit + 24
	default:
		return wideBitsAt(data, bit+4), bit + 68
	}
}

// refill gives acc at least 56 bits, unless data ends before; 0 <= nbits < 64.
func refill(data []byte, acc uint64, nbits, pos int) (uint64, int, int) {
	if pos+8 <= len(data) {
		acc |= binary.BigEndian.Uint64(data[pos:]) >> (uint(nbits) & 63)
		return acc, nbits | 56, pos + (63-nbits)>>3
	}
	return refillTail(data, acc, nbits, pos)
}

// runIdle decodes the samples that acc begins with as far as they are two zero bits
// each: same distance, same value.
func (d *XORDecoder) runIdle(ts []int64, vs []float64) int {
	n := min(min(bits.LeadingZeros64(d.acc), max(d.nbits, 0))>>1, len(ts))
	t, v := d.t, math.Float64frombits(d.v)
	vs = vs[:n]
	for i := range vs {
		t += int64(d.delta)
		ts[i], vs[i] = t, v
	}
	d.t, d.acc, d.nbits = t, d.acc<<(2*n), d.nbits-2*n
	return n
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

// readDod takes a change of the distance that needs more than 14 bits; its code begins
// with 11. If data ends before, the count that it returns is negative.
func readDod(data []byte, acc uint64, nbits, pos int) (dod, _ uint64, _, _ int) {
	switch {
	case acc>>61 == 0b110:
		return (acc<<3>>47+65535)&(1<<17-1) - 65535, acc << 20, nbits - 20, pos
	case acc>>60 == 0b1110:
		return (acc<<4>>44+524287)&(1<<20-1) - 524287, acc << 24, nbits - 24, pos
	default:
		dod, acc, nbits, pos = readLong(data, acc<<4, nbits-4, pos, 64)
		acc, nbits, pos = refill(data, acc, nbits, pos)
		return dod, acc, nbits, pos
	}
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
