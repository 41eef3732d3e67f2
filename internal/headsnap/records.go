package headsnap

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// Types of records. Those of series and tombstones are what the reference's snapshots have;
// it never sees ours, so the others are free. Series come in groups: their labels compress
// well together and hardly alone.
const (
	typeSeries     = 1 // in a group
	typeTombstones = 2
	typeMapped     = 0x40                       // full chunks of the series whose records follow
	typeGone       = 0x41                       // refs that no series has and whose samples are still in the log
	typeGroup      = 0x42                       // series
	typeExemplars  = 0x43                       // those of commits before the log that follows
	typeMetadata   = byte(record.TypeMetadata)  // in the form of the log
	typeLateReach  = byte(record.TypeLateReach) // the same
)

// Kind is what a record is.
type Kind uint8

// The kinds.
const (
	KindUnknown Kind = iota
	KindGroup
	KindMapped
	KindTombstones
	KindGone
	KindExemplars
	KindMetadata
	KindLateReach
)

// KindOf returns what a record is.
//
//go:noinline
func KindOf(rec []byte) Kind {
	if len(rec) == 0 {
		return KindUnknown
	}
	switch rec[0] {
	case typeGroup:
		return KindGroup
	case typeMapped:
		return KindMapped
	case typeTombstones:
		return KindTombstones
	case typeGone:
		return KindGone
	case typeExemplars:
		return KindExemplars
	case typeMetadata:
		return KindMetadata
	case typeLateReach:
		return KindLateReach
	default:
		return KindUnknown
	}
}

// A series record, as docs/format/head-snapshot.md has it:
//
//	| 1 | ref be64 | labels: n uvarint, n x (name, value) | be64 0 | chunk uvarint 0 or 1 |
//	| mint be64 | maxt be64 | encoding u8 | data: length uvarint, bytes                  |
//	| 3 x (be64 0, float64 0) | be64 0 | last value float64                              |
//
// The second and third line are there with a chunk only.
const (
	// maxChunkBytes bounds what a few bytes of a hostile snapshot can become: the head closes
	// its chunks behind 1,005 bytes.
	maxChunkBytes = 2 << 10
	// maxHistogramBytes is the same for histograms: a chunk has ten of them at least, of whatever
	// size.
	maxHistogramBytes = 64 << 20

	tailBytes    = 3*16 + 8 + 8
	tailValueOff = tailBytes - 8
)

// beginSeries begins a series record; the labels follow.
func beginSeries(dst []byte, ref uint64, nlabels int) []byte {
	dst = encbuf.AppendBE64(append(dst, typeSeries), ref)
	return encbuf.AppendUvarint(dst, uint64(nlabels))
}

// Chunk is the first chunk of a series that was in no head-chunk file.
type Chunk struct {
	Encoding   chunkenc.Encoding
	Data       []byte // nil: there was none
	MinT, MaxT int64  // closed
	LastSum    uint64 // of the last sample: the bits of a float
}

// endSeries ends a series record.
func endSeries(dst []byte, c *Chunk) []byte {
	dst = encbuf.AppendBE64(dst, 0)
	if c.Data == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = encbuf.AppendBE64(dst, uint64(c.MinT))
	dst = encbuf.AppendBE64(dst, uint64(c.MaxT))
	dst = append(dst, byte(c.Encoding))
	dst = encbuf.AppendString(dst, c.Data)
	var tail [tailValueOff]byte
	dst = append(dst, tail[:]...)
	return encbuf.AppendBE64(dst, c.LastSum)
}

// appendToGroup appends a series record to a record that begins with its type:
//
//	| 0x42 | for each series: length uvarint, series record |
func appendToGroup(dst, series []byte) []byte { return encbuf.AppendString(dst, series) }

// EachSeries calls fn with each series record of a group. Errors are *encbuf.CorruptError or
// of fn.
func EachSeries(rec []byte, fn func(series []byte) error) error {
	d := encbuf.NewDec(rec)
	if d.Byte() != typeGroup {
		d.FailAt(0, "record of another type")
	}
	for d.Err() == nil && d.Len() > 0 {
		if d.Offset() > groupBytes {
			d.Fail("group of series is longer than any that is written")
			break
		}
		series := d.Str()
		if d.Err() != nil {
			break
		}
		if err := fn(series); err != nil {
			return err
		}
	}
	return d.Err()
}

// Series is a series of a snapshot. Labels and the data of Chunk lie in its record, and are good
// until that changes.
type Series struct {
	Ref    uint64
	Labels labels.Labels
	Chunk  Chunk
}

// DecodeSeries decodes a series record. The error is an *encbuf.CorruptError.
func DecodeSeries(rec []byte) (Series, error) {
	d := encbuf.NewDec(rec)
	if d.Byte() != typeSeries {
		d.FailAt(0, "record of another type")
	}
	s := Series{Ref: d.BE64()}
	n := d.Count(2)
	from := d.Offset()
	for range n {
		d.Str()
		d.Str()
	}
	encoded := d.Since(from)
	d.BE64()
	if d.Uvarint() == 1 && d.Err() == nil {
		s.Chunk.decode(&d)
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("bytes behind the end of the record")
	}
	if d.Err() != nil {
		return Series{}, d.Err()
	}
	ls, err := labels.UnsafeFromEncoded(encoded)
	if err != nil {
		return Series{}, encbuf.Corrupt(from, err.Error())
	}
	s.Labels = ls
	return s, nil
}

func (c *Chunk) decode(d *encbuf.Dec) {
	c.MinT, c.MaxT = int64(d.BE64()), int64(d.BE64())
	if c.Encoding = chunkenc.Encoding(d.Byte()); !c.Encoding.Known() && d.Err() == nil {
		d.Fail("chunk of an encoding that is never written")
	}
	most := maxChunkBytes
	if c.Encoding.Kind() != chunkenc.ValFloat {
		most = maxHistogramBytes
	}
	if c.Data = d.Str(); len(c.Data) > most {
		d.Fail("chunk is longer than any that is written")
	}
	d.Bytes(tailValueOff)
	c.LastSum = d.BE64()
}

// minMappedBytes is what one takes at least.
const minMappedBytes = 4

// appendMapped appends the full chunks of one series to a record of them.
//
//	| 0x40 | for each series: ref uvarint | n uvarint | n x chunk |
//	chunk: mint varint | maxt-mint uvarint | samples uvarint | ref varint
//
// Times count from the end of the chunk before, refs from that before; the first ones from 0.
func appendMapped(dst []byte, ref uint64, full []chunks.Mapped) []byte {
	dst = encbuf.AppendUvarint(dst, ref)
	dst = encbuf.AppendUvarint(dst, uint64(len(full)))
	var last chunks.Mapped
	for _, m := range full {
		dst = encbuf.AppendVarint(dst, m.MinT-last.MaxT)
		dst = encbuf.AppendUvarint(dst, uint64(m.MaxT-m.MinT))
		dst = encbuf.AppendUvarint(dst, uint64(m.Num))
		dst = encbuf.AppendVarint(dst, int64(m.Ref-last.Ref))
		last = m
	}
	return dst
}

// MappedDecoder is a cursor over a record of full chunks.
//
//	for d.Reset(rec); d.Next(); {
//		for m, ok := d.Chunk(); ok; m, ok = d.Chunk() {
//			...
//		}
//	}
//	if d.Err() != nil ...
type MappedDecoder struct {
	d    encbuf.Dec
	ref  uint64
	left int
	last chunks.Mapped // of the series; its Ref is 0 before the first
}

// Reset points the decoder at a record.
func (m *MappedDecoder) Reset(rec []byte) {
	*m = MappedDecoder{d: encbuf.NewDec(rec)}
	if m.d.Byte() != typeMapped {
		m.d.FailAt(0, "record of another type")
	}
}

// Next moves to the next series. False: the end, or Err says what is wrong.
func (m *MappedDecoder) Next() bool {
	for m.left > 0 {
		m.Chunk()
	}
	if m.d.Err() != nil || m.d.Len() == 0 {
		return false
	}
	m.ref, m.left, m.last = m.d.Uvarint(), m.d.Count(minMappedBytes), chunks.Mapped{}
	return m.d.Err() == nil
}

// Ref returns the ref of the series.
func (m *MappedDecoder) Ref() uint64 { return m.ref }

// Left returns how many chunks of the series there still are. Memory may be taken for them.
func (m *MappedDecoder) Left() int { return m.left }

// Chunk returns the next chunk of the series: in the order of time, and without overlap.
func (m *MappedDecoder) Chunk() (c chunks.Mapped, ok bool) {
	if m.left == 0 {
		return chunks.Mapped{}, false
	}
	m.left--
	mint := m.last.MaxT + m.d.Varint()
	maxt, num := mint+int64(m.d.Uvarint()), m.d.Uvarint()
	c = chunks.Mapped{MinT: mint, MaxT: maxt, Num: uint16(num), Ref: m.last.Ref + chunks.Ref(m.d.Varint())}
	switch {
	case m.d.Err() != nil:
	case maxt < mint || c.Ref == 0 || c.Ref == m.last.Ref || m.last.Ref > 0 && mint <= m.last.MaxT:
		m.d.Fail("full chunks are not in the order of time")
	case num > math.MaxUint16:
		m.d.Fail("full chunk of an impossible number of samples")
	}
	if m.d.Err() != nil {
		m.left = 0
		return chunks.Mapped{}, false
	}
	m.last = c
	return c, true
}

// Err returns nil or the *encbuf.CorruptError that ended the record.
func (m *MappedDecoder) Err() error { return m.d.Err() }

// appendTombstones appends the record of deleted intervals:
// | 2 | length uvarint | version 1 | entries as in a tombstones file |.
func appendTombstones(dst []byte, set *tombstones.Set) []byte {
	return encbuf.AppendString(append(dst, typeTombstones), tombstones.AppendBody(nil, set))
}

// DecodeTombstones decodes the record of deleted intervals.
func DecodeTombstones(rec []byte) (*tombstones.Set, error) {
	d := encbuf.NewDec(rec)
	if d.Byte() != typeTombstones {
		d.FailAt(0, "record of another type")
	}
	body := d.Str()
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("bytes behind the end of the record")
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	set, err := tombstones.DecodeBody(body)
	if corrupt, ok := encbuf.AsCorrupt(err); ok {
		return nil, corrupt.At("", int64(len(rec)-len(body)))
	}
	return set, err
}

// Gone is a ref that no series has. Up to Segment the log may have samples of it.
type Gone struct {
	Ref     uint64
	Segment int
}

// minGoneBytes is what one takes at least.
const minGoneBytes = 2

// appendGone appends one to a record that begins with its type: ref uvarint, segment
// uvarint.
func appendGone(dst []byte, g Gone) []byte {
	return encbuf.AppendUvarint(encbuf.AppendUvarint(dst, g.Ref), uint64(g.Segment))
}

// DecodeGone decodes a record of such refs.
func DecodeGone(rec []byte) ([]Gone, error) {
	d := encbuf.NewDec(rec)
	if d.Byte() != typeGone {
		d.FailAt(0, "record of another type")
	}
	list := make([]Gone, 0, d.Len()/minGoneBytes)
	for d.Len() > 0 && d.Err() == nil {
		list = append(list, Gone{Ref: d.Uvarint(), Segment: int(d.Uvarint())})
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	return list, nil
}
