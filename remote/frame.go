package remote

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// A frame of the streamed answer, a ChunkedReadResponse with its length and checksum:
//
//	+----------------+-----------------------+------+
//	| uvarint length | CRC-32C of data, be32 | data |
//	+----------------+-----------------------+------+
//
//	data:    1 chunked_series repeated ChunkedSeries   2 query_index int64
//	series:  1 labels repeated Label                   2 chunks repeated Chunk
//	chunk:   1 min_time_ms int64   2 max_time_ms int64   3 type enum   4 data bytes
//
// Times are closed. The type is the number that files give the chunk's encoding.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameRoom is what stands before the labels of a frame's series: length, checksum, and
// tag and length of the series. It is filled in from its end when the frame is complete.
const frameRoom = binary.MaxVarintLen64 + crc32.Size + 1 + binary.MaxVarintLen64

// frameEncoder builds frames of one series each in a buffer that it keeps. The zero value
// with a limit is ready.
type frameEncoder struct {
	limit  int // bytes after which a frame is complete
	buf    []byte
	labels []frameLabel
	end    int // buf[frameRoom:end] are the labels, for every frame of the series
	size   int // of the labels, as the limit counts them
	left   int // bytes of the limit that are not used up
	chunks int // in the frame
}

// frameLabel is a label that stands in the buffer, and where its texts do.
type frameLabel struct {
	labels.Label
	name, value int
}

// frameCap: a frame that is complete when it has reached its limit is longer than that by
// what its last chunk has too much. It never is by so much that it passes this, or the
// limit when that is more.
const frameCap = 1 << 20

// brokenFrame is no frame: its length has more than 64 bits.
var brokenFrame = bytes.Repeat([]byte{0xff}, binary.MaxVarintLen64+1)

// begin starts the frames of a series. Up to the first one that is longer or shorter, labels
// are put over those of the series before: lengths and tags stand there already
// (BenchmarkReadHead).
func (e *frameEncoder) begin(ls []labels.Label) {
	if cap(e.buf) < frameRoom {
		e.buf, e.end = make([]byte, frameRoom, 4<<10), frameRoom
	}
	e.buf = e.buf[:e.end]
	fit := e.fit(ls)
	if fit < len(ls) || fit < len(e.labels) {
		e.encode(ls, fit)
	}
	e.next()
}

// fit puts labels over those in the buffer, and returns of how many that could be done. Most
// are the same label, of which head and blocks give the same strings.
func (e *frameEncoder) fit(ls []labels.Label) int {
	n := min(len(ls), len(e.labels))
	old := e.labels[:n]
	for i := range ls[:n] {
		l, at := &ls[i], &old[i]
		if l.Value == at.Value && l.Name == at.Name {
			continue
		}
		if len(l.Value) != len(at.Value) || len(l.Name) != len(at.Name) {
			return i
		}
		copy(e.buf[at.name:], l.Name)
		copy(e.buf[at.value:], l.Value)
		at.Label = *l
	}
	return n
}

// encode appends the labels from ls[fit] on.
func (e *frameEncoder) encode(ls []labels.Label, fit int) {
	e.labels, e.end, e.size = e.labels[:fit], frameRoom, 0
	if fit > 0 {
		last := e.labels[fit-1]
		e.end = last.value + len(last.Value)
	}
	e.buf = appendLabels(e.buf[:e.end], ls[fit:])
	for i, l := range ls {
		e.size += sizeLabel(l)
		if i >= fit {
			e.end += sizeBytes(sizeLabel(l))
			value := e.end - len(l.Value)
			name := e.end - sizeString(l.Value) - len(l.Name)
			e.labels = append(e.labels, frameLabel{l, name, value})
		}
	}
}

// next starts another frame of the series.
func (e *frameEncoder) next() {
	e.buf = e.buf[:e.end]
	e.chunks = 0
	e.left = e.limit - e.size
}

// full reports whether the frame is complete before a chunk of n bytes.
func (e *frameEncoder) full(n int) bool {
	return e.chunks > 0 && (e.left <= 0 || len(e.buf)+n+maxChunkHeader > max(e.limit, frameCap))
}

// maxChunkHeader is the most that a chunk takes besides its data, in a frame that it is
// the last one of.
const maxChunkHeader = 1 + binary.MaxVarintLen32 + 3*(1+binary.MaxVarintLen64) + 1 + binary.MaxVarintLen32 + 1 + binary.MaxVarintLen64

// add appends a chunk. Its data is copied (BenchmarkReadHead).
func (e *frameEncoder) add(mint, maxt int64, enc chunkenc.Encoding, data []byte) {
	e.chunks++
	first, m := spreadVarint(uint64(mint))
	last, n := spreadVarint(uint64(maxt))
	length, l := shortVarint(uint64(len(data)))
	if m == 0 || n == 0 || enc-1 >= 0x7f || uint(len(data)-1) >= 1<<14-chunkHeaderRoom {
		e.addRare(mint, maxt, enc, data)
		return
	}
	size := 1 + m + 1 + n + 2 + 1 + l + len(data)
	e.left -= size
	whole, s := shortVarint(uint64(size))
	at := len(e.buf)
	e.buf = slices.Grow(e.buf, chunkHeaderRoom+len(data))[:at+chunkHeaderRoom]
	b := (*[chunkHeaderRoom]byte)(e.buf[at:])
	b[0] = bytesTag(2)
	binary.LittleEndian.PutUint64(b[1:], whole)
	at = 1 + s
	b[at] = varintTag(1)
	binary.LittleEndian.PutUint64(b[at+1:], first)
	at += 1 + m
	b[at] = varintTag(2)
	binary.LittleEndian.PutUint64(b[at+1:], last)
	at += 1 + n
	b[at], b[at+1], b[at+2] = varintTag(3), byte(enc), bytesTag(4)
	binary.LittleEndian.PutUint64(b[at+3:], length)
	e.buf = append(e.buf[:len(e.buf)-chunkHeaderRoom+at+3+l], data...)
}

// chunkHeaderRoom is the most that add writes for a chunk besides its data, a word where a
// varint is.
const chunkHeaderRoom = 1 + 8 + 1 + 8 + 1 + 8 + 3 + 8

// addRare is add for what has fields that are left out, or long ones, field by field.
func (e *frameEncoder) addRare(mint, maxt int64, enc chunkenc.Encoding, data []byte) {
	size := sizeInt(mint) + sizeInt(maxt) + sizeInt(int64(enc))
	if len(data) > 0 {
		size += sizeBytes(len(data))
	}
	e.left -= size
	e.buf = protowire.AppendVarint(append(e.buf, bytesTag(2)), uint64(size))
	e.buf = appendInt(appendInt(appendInt(e.buf, 1, mint), 2, maxt), 3, int64(enc))
	if len(data) > 0 {
		e.buf = protowire.AppendVarint(append(e.buf, bytesTag(4)), uint64(len(data)))
		e.buf = append(e.buf, data...)
	}
}

// finish completes the frame and returns it, valid until the next call of begin or next.
func (e *frameEncoder) finish(queryIndex int) []byte {
	var room [binary.MaxVarintLen64]byte
	series := len(e.buf) - frameRoom
	at := frameRoom
	put := func(b []byte) { at -= copy(e.buf[at-len(b):], b) }
	put(room[:binary.PutUvarint(room[:], uint64(series))])
	put([]byte{bytesTag(1)})
	e.buf = appendInt(e.buf, 2, int64(queryIndex))
	data := e.buf[at:]
	put(binary.BigEndian.AppendUint32(room[:0], crc32.Checksum(data, castagnoli)))
	put(room[:binary.PutUvarint(room[:], uint64(len(data)))])
	return e.buf[at:]
}

// frameChunk is a chunk as a frame has it; its data aliases the frame.
type frameChunk struct {
	mint, maxt int64
	typ        int32
	data       []byte
}

func decodeChunk(b []byte) (c frameChunk, err error) {
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			c.mint = int64(r.varint())
		case 2:
			c.maxt = int64(r.varint())
		case 3:
			c.typ = int32(r.varint())
		case 4:
			c.data = r.bytes()
		}
	}
	return c, errors.WithMessage(r.err, "chunk")
}
