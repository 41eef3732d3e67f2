package xorchunk

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

const (
	// farBytes is more than one sample takes, with the bits in front of its first byte's and the
	// word that is read behind it: 7, 68 of the time, 13 and 64 of the value, rounded up.
	farBytes = 24
	// wordBits is how many bits count of a word from any place on: 7 may lie in front of it.
	wordBits = 64 - 7
	// idleBits is how many zeros in a row make it worth counting them.
	idleBits = 8
	// steadySamples is after how many samples at one distance times are left for later again.
	steadySamples = 2
)

// impossibleWindow stands in sig when a window had more than 64 bits.
const impossibleWindow = 0

// Decoder decodes one XOR chunk in runs of any length. It is a value, takes no
// memory of its own and can be reset to other chunks. The zero value is an empty
// chunk.
//
// Each sample is taken from its place in data, by a load that waits for nothing but that
// place, and seldom by a second one. Nothing asks where data ends, as its last bytes are
// copied in front of zeros and decoded there; a sample that used more bits than there were
// ends behind them.
type Decoder struct {
	data []byte
	bit  uint // the place in data of the next sample; after damage, of what is said to be before it

	t     int64
	delta uint64
	v     uint64

	left   int   // samples not decoded yet
	num    int   // samples in the chunk
	sig    uint8 // significant bits of the window; 64 before the first one
	lead   uint8 // bits in front of them
	second bool  // the second sample was not decoded yet
}

// Reset begins a chunk, which data must hold from its first byte on and as long
// as it is decoded. Bytes behind the last sample are not looked at.
func (d *Decoder) Reset(data []byte) error {
	*d = Decoder{sig: 64}
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
		d.delta = delta
		pos += n
	}
	// The second sample has no time code. With its distance known, the code that says "the
	// same distance again" is true of it: a zero bit in front, for which it gets one that is
	// not its own.
	d.data, d.bit, d.num, d.left, d.second = data, uint(pos)*8-1, num, num, true
	return nil
}

// Left returns how many samples are still to be decoded.
func (d *Decoder) Left() int { return d.left }

// Decode decodes the next samples into ts and vs, as many as the shorter one has
// room for, and returns their number; 0 without an error means that the chunk is at its
// end or that there was no room. With an error the first n samples are good, and the
// decoder gives nothing more.
func (d *Decoder) Decode(ts []int64, vs []float64) (n int, err error) {
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
	if len(d.data) >= farBytes {
		done = d.run(d.data, ts, vs, done)
	}
	if done < n && d.sig != impossibleWindow {
		done = d.runTail(ts, vs, done)
	}
	d.left -= done
	if done < n {
		d.left = 0
		return done, d.damage()
	}
	return n, nil
}

// damage says why there are fewer samples than there should be.
func (d *Decoder) damage() error {
	if d.sig == impossibleWindow {
		before := min(int(d.bit+63)>>3, len(d.data))
		return encbuf.Corrupt(before, "XOR chunk: value window of more than 64 bits before this place")
	}
	return encbuf.Corrupt(len(d.data), "XOR chunk ends inside a sample")
}

// runTail is run for the samples that begin in the last farBytes of data. It decodes a copy of
// them with zeros behind, in which, too, the last sample begins farBytes before the end. One
// that used those zeros does not count.
func (d *Decoder) runTail(ts []int64, vs []float64, done int) int {
	var tail [2*farBytes - 1]byte
	from := len(d.data) - farBytes
	if from >= 0 {
		*(*[farBytes]byte)(tail[:]) = [farBytes]byte(d.data[from:])
	} else {
		copy(tail[-from:], d.data)
	}
	d.bit -= uint(from) * 8 // wraps if from does, and back again
	done = d.run(tail[:], ts, vs, done)
	if d.bit > farBytes*8 {
		done--
	}
	d.bit += uint(from) * 8
	return done
}

// run decodes samples behind those that are done, until ts is full or one begins in the last
// farBytes of data, and returns how many are done then.
func (d *Decoder) run(data []byte, ts []int64, vs []float64, done int) int {
	timed := done
	for done < len(vs) {
		n, next := d.runSteady(data, vs[done:])
		if done += n; next == nothing {
			break
		}
		if next == idleSamples {
			done += d.runIdle(data, vs[done:])
			continue
		}
		d.t = fillTimes(ts[timed:done], d.t, d.delta)
		n, steady := d.runAny(data, ts[done:], vs[done:])
		done += n
		if timed = done; !steady {
			break
		}
	}
	d.t = fillTimes(ts[timed:done], d.t, d.delta)
	return done
}

// What follows those samples that runSteady decoded.
const (
	nothing     = iota // nothing more for run
	idleSamples        // some of the same value, for runIdle
	otherStep          // one at another distance, for runAny
)

// runSteady decodes the values of samples in front of one that changes the distance, or of idle
// ones, and says which of them is next. It knows no times, so that nearly all of its variables
// have registers: a version with times in the loop took 1.2 times as long
// (BenchmarkXORDecode_Mixture). It is one piece over 40 lines because of them, too.
func (d *Decoder) runSteady(data []byte, vs []float64) (n, next int) {
	// Capacities that are lengths need no registers, and one comparison is enough for a word:
	// 47 instructions a sample in place of 52.
	data, vs = data[:len(data):len(data)], vs[:len(vs):len(vs)]
	words := data[: len(data)-farBytes+8 : len(data)-farBytes+8]
	bit, v := d.bit, d.v
	sig, lead := uint(d.sig), uint(d.lead)
	mask := ^uint64(0) << (-sig & 63)
	i := uint(0)
	for i < uint(len(vs)) {
		at := bit >> 3
		if at+8 > uint(len(words)) {
			break
		}
		w := binary.BigEndian.Uint64(words[at:at+8:at+8]) << (bit & 7)
		if w>>63 != 0 {
			if i > 0 || !d.second {
				break
			}
			w &^= 1 << 63
		}
		if w>>62 == 0 {
			if w>>(64-idleBits) == 0 && i > 0 {
				break
			}
			bit += 2
		} else {
			// What the codes leave of the word has the value, unless its window is wide.
			if w>>61 == 0b010 {
				bit, w = bit+3, w<<3
				if sig > wordBits-3 {
					w = wideBitsAt(data, bit)
				}
			} else {
				l, s := uint(w<<3>>59), uint(w<<8>>58-1)&63+1 // 0 is written for 64
				if l+s > 64 {
					sig = impossibleWindow
					break
				}
				lead, sig, mask = l, s, ^uint64(0)<<(-s&63)
				bit, w = bit+14, w<<14
				if sig > wordBits-14 {
					w = wideBitsAt(data, bit)
				}
			}
			v ^= w & mask >> (lead & 63)
			bit += sig
		}
		vs[i] = math.Float64frombits(v)
		i++
	}
	d.second = d.second && i == 0
	d.bit, d.v, d.sig, d.lead = bit, v, uint8(sig), uint8(lead)
	switch {
	case i == uint(len(vs)) || bit>>3+8 > uint(len(words)) || sig == impossibleWindow:
		return int(i), nothing
	case bitsAt(data, bit)>>63 == 0:
		return int(i), idleSamples
	default:
		return int(i), otherStep
	}
}

// runAny decodes samples whatever their distances, and says whether the last of them had the
// same. It is one piece over 40 lines as runSteady is.
func (d *Decoder) runAny(data []byte, ts []int64, vs []float64) (n int, steady bool) {
	data, vs = data[:len(data):len(data)], vs[:len(ts)]
	words := data[: len(data)-farBytes+8 : len(data)-farBytes+8]
	bit, t, delta, v := d.bit, d.t, d.delta, d.v
	sig, lead := uint(d.sig), uint(d.lead)
	i, same := 0, 0
	for ; i < len(ts) && same < steadySamples; i++ {
		at := bit >> 3
		if at+8 > uint(len(words)) {
			break
		}
		begin := bit
		w := binary.BigEndian.Uint64(words[at:at+8:at+8]) << (bit & 7)
		same++
		switch {
		case w>>63 == 0:
			bit, w = bit+1, w<<1
		case w>>62 == 0b10:
			// 14 bits for -8191 .. 8192.
			delta += (w<<2>>50+8191)&(1<<14-1) - 8191
			bit, w, same = bit+16, w<<16, 0
		default:
			var dod uint64
			dod, bit, begin = wideDodAt(data, bit)
			delta += dod
			w, same = bitsAt(data, bit), 0
		}
		if w>>63 == 0 {
			bit++
		} else {
			if w>>62 == 0b10 {
				bit, w = bit+2, w<<2
				if sig > wordBits-16-2 {
					w = wideBitsAt(data, bit)
				}
			} else {
				lead, sig = uint(w<<2>>59), uint(w<<7>>58-1)&63+1 // 0 is written for 64
				if lead+sig > 64 {
					sig, bit = impossibleWindow, begin
					break
				}
				bit, w = bit+13, w<<13
				if sig > wordBits-16-13 {
					w = wideBitsAt(data, bit)
				}
			}
			v ^= w >> (-sig & 63) << ((64 - sig - lead) & 63)
			bit += sig
		}
		t += int64(delta)
		ts[i], vs[i] = t, math.Float64frombits(v)
	}
	d.bit, d.t, d.delta, d.v = bit, t, delta, v
	d.sig, d.lead = uint8(sig), uint8(lead)
	return i, same >= steadySamples
}

// runIdle decodes samples as far as they are two zero bits each, same distance and same value,
// and whole before the place where none begins any more. It counts them over whole words, which
// makes 0.6 of the time for constants, and it is not in the loop of runSteady, as a call there
// cost all others a tenth (BenchmarkXORDecode).
func (d *Decoder) runIdle(data []byte, vs []float64) int {
	end := uint(len(data)-farBytes+1) * 8
	n, room := uint(0), uint(len(vs))
	for at := d.bit; at < end && n < room; at = d.bit + 2*n {
		more := uint(bits.LeadingZeros64(bitsAt(data, at)|1<<(64-wordBits))) / 2
		if n += more; more < wordBits/2 {
			break
		}
	}
	vs = vs[:min(n, (end-d.bit)/2, room)]
	d.bit += 2 * uint(len(vs))
	same := math.Float64frombits(d.v)
	i := 0
	for ; i+4 <= len(vs); i += 4 {
		four := (*[4]float64)(vs[i:])
		four[0], four[1], four[2], four[3] = same, same, same, same
	}
	for ; i < len(vs); i++ {
		vs[i] = same
	}
	return len(vs)
}

// fillTimes gives samples of one distance their times, and returns the last of them; t is the
// one before.
func fillTimes(ts []int64, t int64, delta uint64) int64 {
	step := int64(delta)
	i := 0
	for ; i+4 <= len(ts); i += 4 {
		four := (*[4]int64)(ts[i:])
		four[0], four[1], four[2], four[3] = t+step, t+2*step, t+3*step, t+4*step
		t += 4 * step
	}
	for ; i < len(ts); i++ {
		t += step
		ts[i] = t
	}
	return t
}

// bitsAt returns the next bits from a place on, wordBits of them at least.
func bitsAt(data []byte, bit uint) uint64 {
	at := bit >> 3
	return binary.BigEndian.Uint64(data[at:at+8:at+8]) << (bit & 7)
}

// wideBitsAt returns the next 64 bits.
func wideBitsAt(data []byte, bit uint) uint64 {
	at := bit >> 3
	b := data[at : at+9 : at+9]
	return binary.BigEndian.Uint64(b)<<(bit&7) | uint64(b[8])>>(8-bit&7)
}

// wideDodAt takes a change of the distance that needs more than 14 bits; its code begins with
// 11. begin is the place that an error in the rest of the sample counts from.
func wideDodAt(data []byte, bit uint) (dod uint64, next, begin uint) {
	switch w := bitsAt(data, bit); {
	case w>>61 == 0b110:
		return (w<<3>>47+65535)&(1<<17-1) - 65535, bit + 20, bit
	case w>>60 == 0b1110:
		return (w<<4>>44+524287)&(1<<20-1) - 524287, bit + 24, bit
	default:
		return wideBitsAt(data, bit+4), bit + 68, bit + 68
	}
}
