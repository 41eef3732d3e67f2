package remote

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/seed347100a3/tsdb/labels"
)

// packSamples is how many samples are packed between two looks at how much there is.
const packSamples = 512

// maxPacked is the most that one sample makes, each of its parts a literal or a copy, with
// room for what is written in whole words.
const maxPacked = maxSampleBytes + 12 + 16

// packedSample is a sample of the series under way, or of the one before.
type packedSample struct {
	t    int64
	v    uint64
	from uint64 // of its message, a place in the content
	size uint64
}

// maxBefore is how many samples of the series before are kept: of usual ones there are
// not more in a piece.
const maxBefore = blockPiece / 18

// packedLabels are the encoded labels of a series.
type packedLabels struct {
	text []byte
	from uint64 // a place in the content
	ends []int  // of the labels in text
}

// series begins a series: head is what stands before its labels, which are encoded. Each
// label is compared with the one of the same number of the series before.
func (e *blockEncoder) series(head []byte, ls []labels.Label) error {
	e.before, e.under, e.next, e.last = e.under, e.before[:0], 0, packedSample{}
	if cap(e.under) == 0 {
		e.under = make([]packedSample, 0, maxBefore)
	}
	e.heads[0], e.heads[1] = e.heads[1], e.heads[0]
	e.literal(head)
	old, l := &e.heads[0], &e.heads[1]
	*l = packedLabels{text: l.text[:0], ends: l.ends[:0], from: e.pos}
	from, was := 0, 0
	for i := range ls {
		l.text = appendLabel(l.text, ls[i])
		l.ends = append(l.ends, len(l.text))
		text := l.text[from:]
		from = len(l.text)
		if i < len(old.ends) {
			text = e.likeLabel(text, old.text[was:old.ends[i]], old.from+uint64(was))
			was = old.ends[i]
		}
		e.literal(text)
	}
	return e.drain()
}

// likeLabel adds what a label begins with as another one does that stands at a place of
// the content, and returns the rest.
func (e *blockEncoder) likeLabel(text, other []byte, from uint64) (rest []byte) {
	same, at := 0, e.pos%blockPiece
	for same < min(len(text), len(other)) && text[same] == other[same] {
		same++
	}
	if same < 4 || e.pos-from > at || at+uint64(same) > blockPiece {
		return text
	}
	e.copy(e.pos-from, uint64(same))
	return text[same:]
}

// samples adds what appendSamples appends for samples that follow each other in one series.
//
// Nothing is searched: what a sample has in common with others is known. Its time, with
// all that is between two values, most likely stood in the series before, and its value,
// or the first half of the mantissa if it is an integer, in the sample before. Searching
// for it (package s2) takes half as long again, and finds three bytes in a hundred more
// (BenchmarkRead).
func (e *blockEncoder) samples(ts []int64, vs []float64) error {
	for len(ts) > 0 {
		n := min(len(ts), packSamples)
		e.dst = slices.Grow(e.dst, n*maxPacked)
		for i := 0; i < n; i++ {
			if i += e.usual(ts[i:n], vs[i:n]); i < n {
				e.sample(ts[i], math.Float64bits(vs[i]))
			}
		}
		ts, vs = ts[n:], vs[n:]
		if err := e.drain(); err != nil {
			return err
		}
	}
	return nil
}

// A usual sample has a value that is not zero and a time of six bytes, from 1971 to 2109:
//
//	12 10 | 09 | value, eight bytes | 10 | time, six bytes
const (
	usualSize  = 18
	firstUsual = 1 << 35
	endUsual   = 1 << 42
)

// usual does what sample does for usual samples that follow another one in the same piece,
// and returns how many there were: the same in one loop over words, twice as fast
// (BenchmarkRead). e.dst has room for all of them.
func (e *blockEncoder) usual(ts []int64, vs []float64) (done int) {
	piece := e.pos - e.pos%blockPiece
	if e.last.size != usualSize || e.last.v == 0 || e.pos-piece < usualSize {
		return 0
	}
	u := usualEncoder{dst: e.dst[:cap(e.dst)], n: len(e.dst), pos: e.pos, back: e.back, run: e.run, piece: piece}
	before, under := e.before[e.next:], e.under
	t, v := e.last.t, e.last.v
	for done < len(ts) && u.pos+usualSize <= piece+blockPiece {
		lastT, lastV := t, v
		t, v = ts[done], math.Float64bits(vs[done])
		if uint64(t)-firstUsual >= endUsual-firstUsual || v == 0 {
			t, v = lastT, lastV
			break
		}
		done++
		for len(before) > 0 && before[0].t < t {
			before = before[1:]
		}
		if len(before) > 0 && before[0].t == t && before[0].v != 0 && before[0].from >= piece {
			u.likeBefore(&before[0], &e.values[valueSlot(v)], v, lastV)
		} else {
			u.likeLast(&e.values[valueSlot(v)], t, lastT, v, lastV)
		}
		if len(under) < cap(under) {
			under = append(under, packedSample{t, v, u.pos, usualSize})
		}
		u.pos += usualSize
	}
	if done > 0 {
		e.last = packedSample{t, v, u.pos - usualSize, usualSize}
		e.dst, e.lit = u.dst[:u.n], -1
		e.next, e.under = len(e.before)-len(before), under
		e.pos, e.back, e.run = u.pos, u.back, u.run
	}
	return done
}

// seenValue is where a value stands in the content: gauges come back to where they were.
type seenValue struct{ v, from uint64 }

// valueSlots is a power of two: 16 KiB of values.
const (
	valueBits  = 10
	valueSlots = 1 << valueBits
)

func valueSlot(v uint64) uint64 { return v * 0x9e3779b97f4a7c15 >> (64 - valueBits) }

// usualEncoder is what changes of a blockEncoder while usual samples are added.
type usualEncoder struct {
	dst                   []byte
	n                     int
	pos, back, run, piece uint64
}

// likeBefore is that of blockEncoder.
func (u *usualEncoder) likeBefore(b *packedSample, seen *seenValue, v, last uint64) {
	if d := u.pos - b.from; d != u.back || u.run == 0 {
		u.n += putCopy(u.dst[u.n:], u.back, u.run)
		u.back, u.run = d, 0
	}
	if v == b.v {
		u.run += usualSize
		return
	}
	u.n += putCopy(u.dst[u.n:], u.back, u.run+3)
	u.run = usualSize - 11
	switch same := uint64(bits.TrailingZeros64(v^last)) / 8; {
	case same == 8:
		u.n += putCopy(u.dst[u.n:], usualSize, 8)
	case seen.v == v && seen.from >= u.piece:
		u.n += putCopy(u.dst[u.n:], u.pos+3-seen.from, 8)
	case same >= 4:
		u.n += putCopy(u.dst[u.n:], usualSize, same)
		u.literal(v>>(8*same), 8-same)
	default:
		u.literal(v, 8)
	}
	*seen = seenValue{v, u.pos + 3}
}

// likeLast is that of blockEncoder.
func (u *usualEncoder) likeLast(seen *seenValue, t, lastT int64, v, last uint64) {
	if u.back != usualSize || u.run == 0 {
		u.n += putCopy(u.dst[u.n:], u.back, u.run)
		u.back, u.run = usualSize, 0
	}
	changed := uint64(bits.Len64(uint64(t^lastT))+6) / 7 // bytes of the time
	switch same := uint64(bits.TrailingZeros64(v^last)) / 8; {
	case same == 8: // and so is the tag behind it
		u.n += putCopy(u.dst[u.n:], usualSize, u.run+12)
		u.literal(usualTime(t)>>8, changed)
	case seen.v == v && seen.from >= u.piece:
		u.n += putCopy(u.dst[u.n:], usualSize, u.run+3)
		u.n += putCopy(u.dst[u.n:], u.pos+3-seen.from, 9)
		u.literal(usualTime(t)>>8, changed)
	default:
		u.n += putCopy(u.dst[u.n:], usualSize, u.run+3+same)
		u.dst[u.n] = byte(8-same+changed) << 2
		binary.LittleEndian.PutUint64(u.dst[u.n+1:], v>>(8*same))
		binary.LittleEndian.PutUint64(u.dst[u.n+9-int(same):], usualTime(t))
		u.n += int(10 - same + changed)
	}
	u.run = usualSize - 12 - changed
	*seen = seenValue{v, u.pos + 3}
}

// literal writes the n lowest bytes of a word.
func (u *usualEncoder) literal(w, n uint64) {
	u.dst[u.n] = byte(n-1) << 2
	binary.LittleEndian.PutUint64(u.dst[u.n+1:], w)
	u.n += 1 + int(n)
}

// usualTime is the tag and the varint of a usual time, the first byte lowest.
func usualTime(t int64) uint64 {
	w := uint64(t)
	w = w&0x7f | w<<1&0x7f00 | w<<2&0x7f_0000 | w<<3&0x7f00_0000 | w<<4&0x7f_0000_0000 | w<<5&0x7f00_0000_0000
	return (w|0x80_8080_8080)<<8 | uint64(varintTag(2))
}

func (e *blockEncoder) sample(t int64, v uint64) {
	size := uint64(2 + sizeInt(t))
	if v != 0 {
		size += 9
	}
	s := packedSample{t, v, e.pos, size}
	at := e.pos % blockPiece
	for e.next < len(e.before) && e.before[e.next].t < t {
		e.next++
	}
	switch {
	case at+size > blockPiece:
		e.literal(appendSample(e.scratch[:0], t, v))
	case e.next < len(e.before) && e.before[e.next].t == t && e.before[e.next].size == size && e.pos-e.before[e.next].from <= at:
		e.likeBefore(&s, &e.before[e.next])
	case e.last.size == size && (e.last.v == 0) == (v == 0) && size <= at:
		e.likeLast(&s)
	default:
		e.literal(appendSample(e.scratch[:0], t, v))
	}
	e.last = s
	if len(e.under) < cap(e.under) {
		e.under = append(e.under, s)
	}
}

// likeBefore adds a sample whose time the series before has, too.
func (e *blockEncoder) likeBefore(s, b *packedSample) {
	back := s.from - b.from
	switch {
	case s.v == b.v:
		e.copy(back, s.size)
	default:
		e.copy(back, 3)
		e.value(s)
		e.copy(back, s.size-11)
	}
}

// likeLast adds a sample of the size of the one before. Of the bytes of the time, lowest
// first, only the low ones differ.
func (e *blockEncoder) likeLast(s *packedSample) {
	back := s.size
	head := uint64(2)
	if s.v != 0 {
		e.copy(back, 3)
		e.value(s)
		head = 11
	} else {
		e.copy(back, 2)
	}
	if s.size == head {
		return // a time of zero is no field
	}
	changed := uint64(sizeVarint(uint64(s.t ^ e.last.t)))
	var room [1 + binary.MaxVarintLen64]byte
	field := append(room[:0], varintTag(2))
	field = binary.AppendUvarint(field, uint64(s.t))
	e.short(field[:1+changed])
	if rest := s.size - head - 1 - changed; rest > 0 {
		e.copy(back, rest)
	}
}

// value adds the eight bytes of a value, lowest first, for likeBefore and likeLast: both
// know that the sample before is in the same piece. If it is as long, its value is where
// this one is.
func (e *blockEncoder) value(s *packedSample) {
	same := 0
	if e.last.size == s.size && e.last.v != 0 {
		same = bits.TrailingZeros64(s.v^e.last.v) / 8
	}
	if same >= 4 {
		e.copy(s.size, uint64(same))
	} else {
		same = 0
	}
	if same < 8 {
		var room [8]byte
		binary.LittleEndian.PutUint64(room[:], s.v)
		e.short(room[same:])
	}
}

// appendSample appends one sample as a field of its series.
func appendSample(dst []byte, t int64, v uint64) []byte {
	size := sizeInt(t)
	if v != 0 {
		size += 9
	}
	dst = append(dst, bytesTag(2), byte(size))
	if v != 0 {
		dst = binary.LittleEndian.AppendUint64(append(dst, fixed64Tag(1)), v)
	}
	return appendInt(dst, 2, t)
}
