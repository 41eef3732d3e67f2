package remote

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/pkg/errors"

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
	fit := 0
	for fit < min(len(ls), len(e.labels)) && e.labels[fit].put(e.buf, ls[fit]) {
		fit++
	}
	if fit < len(ls) || fit < len(e.labels) {
		e.encode(ls, fit)
	}
	e.next()
}

// put writes a label over another one with texts of the same lengths. Most are the same
// label, of which head and blocks give the same strings.
func (at *frameLabel) put(buf []byte, l labels.Label) bool {
	if l == at.Label {
		return true
	}
	if len(l.Name) != len(at.Name) || len(l.Value) != len(at.Value) {
		return false
	}
	copy(buf[at.name:], l.Name)
	copy(buf[at.value:], l.Value)
	at.Label = l
	return true
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

// add appends a chunk. Its data is copied.
func (e *frameEncoder) add(mint, maxt int64, enc chunkenc.Encoding, data []byte) {
	size := sizeInt(mint) + sizeInt(maxt) + sizeInt(int64(enc))
	if len(data) > 0 {
		size += sizeBytes(len(data))
	}
	e.buf = slices.Grow(e.buf, maxChunkHeader+putRoom+len(data))
	b := e.buf[len(e.buf) : len(e.buf)+maxChunkHeader+putRoom]
	b[0] = bytesTag(2)
	n := 1 + putVarint(b[1:], uint64(size))
	n += putInt(b[n:], 1, mint)
	n += putInt(b[n:], 2, maxt)
	n += putInt(b[n:], 3, int64(enc))
	if len(data) > 0 {
		b[n] = bytesTag(4)
		n += 1 + putVarint(b[n+1:], uint64(len(data)))
	}
	e.buf = append(e.buf[:len(e.buf)+n], data...)
	e.left -= size
	e.chunks++
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
