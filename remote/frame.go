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

// frameEncoder builds frames of one series each, one behind the other, in the buffer that they
// are sent from. The zero value with a limit is ready.
type frameEncoder struct {
	limit  int // bytes after which a frame is complete
	labels frameLabels
	buf    []byte
	start  int // buf[:start] are complete frames
	room   int // in front of the labels: what the frame before needed
	left   int // bytes of the limit that are not used up
	chunks int // in the frame
}

// frameCap: a frame that is complete when it has reached its limit is longer than that by
// what its last chunk has too much. It never is by so much that it passes this, or the
// limit when that is more.
const frameCap = 1 << 20

// brokenFrame is no frame: its length has more than 64 bits.
var brokenFrame = bytes.Repeat([]byte{0xff}, binary.MaxVarintLen64+1)

// begin starts the frames of a series.
func (e *frameEncoder) begin(ls []labels.Label) {
	e.labels.set(ls)
	e.next()
}

// Room for frames: of a short answer, and of one that has more: a piece, and the frame that
// completes it, unless that is a long one. In between it would grow step by step.
const (
	fewFrames  = 16 << 10
	manyFrames = framesPiece + 2*fewFrames
)

// next starts another frame of the series. What stands behind the complete frames is dropped.
func (e *frameEncoder) next() {
	e.buf = e.buf[:e.start]
	e.grow(e.room + len(e.labels.bytes))
	e.buf = append(e.buf[:e.start+e.room], e.labels.bytes...)
	e.chunks = 0
	e.left = e.limit - e.labels.size
}

// grow makes room for n more bytes.
func (e *frameEncoder) grow(n int) {
	switch need := len(e.buf) + n; {
	case need <= cap(e.buf):
	case need <= fewFrames:
		e.buf = append(make([]byte, 0, fewFrames), e.buf...)
	case need <= manyFrames:
		e.buf = append(make([]byte, 0, manyFrames), e.buf...)
	default:
		e.buf = slices.Grow(e.buf, n)
	}
}

// full reports whether the frame is complete before a chunk of n bytes.
func (e *frameEncoder) full(n int) bool {
	return e.chunks > 0 && (e.left <= 0 || len(e.buf)-e.start+n+maxChunkHeader > max(e.limit, frameCap))
}

// maxChunkHeader is the most that a chunk takes besides its data, in a frame that it is the last
// one of. Fields take less than their types have room for: what they leave is enough for the head
// of the frame, which is not counted before it is known.
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
	e.grow(chunkHeaderRoom + len(data))
	e.buf = e.buf[:at+chunkHeaderRoom]
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

// finish completes the frame. Its head, length, checksum, and tag and length of the series, is as
// long as the one before it as a rule; otherwise what was built is moved.
func (e *frameEncoder) finish(queryIndex int) {
	series := len(e.buf) - e.start - e.room
	e.buf = appendInt(e.buf, 2, int64(queryIndex))
	rest := e.buf[e.start+e.room:]
	data := 1 + sizeVarint(uint64(series)) + len(rest)
	if room := sizeVarint(uint64(data)) + crc32.Size + data - len(rest); room != e.room {
		e.buf = slices.Grow(e.buf[:e.start], room+len(rest))[:e.start+room+len(rest)]
		copy(e.buf[e.start+room:], rest)
		e.room = room
	}
	head := binary.AppendUvarint(e.buf[:e.start], uint64(data))
	content := e.buf[len(head)+crc32.Size:]
	binary.AppendUvarint(append(content[:0], bytesTag(1)), uint64(series))
	binary.BigEndian.AppendUint32(head, crc32.Checksum(content, castagnoli))
	e.start = len(e.buf)
}

// complete returns the frames that are finished, valid until the next call of another method.
func (e *frameEncoder) complete() []byte { return e.buf[:e.start] }

// drop removes what is complete. No frame is being built.
func (e *frameEncoder) drop() { e.start = 0 }

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
