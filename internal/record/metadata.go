package record

import "github.com/seed347100a3/tsdb/internal/encbuf"

// A metadata record:
//
//	+------+-------------------------------------------------------------------------+
//	| 0x06 | entries until the end: ref uvarint | metric type u8 | n uvarint         |
//	|      |                                    | n x ( name str, value str )        |
//	+------+-------------------------------------------------------------------------+
//
// Of several entries for a series the last one counts. Entries are moved between records
// as they are; what they say is nobody's business here.

// BeginMetadata starts a metadata record at the end of dst. Entries of MetadataDecoder
// follow.
func BeginMetadata(dst []byte) []byte { return append(dst, byte(TypeMetadata)) }

// MetadataDecoder is a cursor over a metadata record. The zero value is ready for Reset.
type MetadataDecoder struct {
	d   encbuf.Dec
	ref uint64
	off int // where the present entry begins
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Err.
func (m *MetadataDecoder) Reset(rec []byte) {
	*m = MetadataDecoder{d: encbuf.NewDec(rec)}
	beginRecord(&m.d, TypeMetadata)
}

// Next moves to the next entry. False means the end of the record or damage, see Err.
func (m *MetadataDecoder) Next() bool {
	if m.d.Len() == 0 {
		return false
	}
	m.off = m.d.Offset()
	m.ref = m.d.Uvarint()
	m.d.Byte()
	for range 2 * m.d.Count(minLabelBytes) {
		m.d.Str()
	}
	return m.d.Err() == nil
}

// Ref returns the series' number.
func (m *MetadataDecoder) Ref() uint64 { return m.ref }

// Entry returns the bytes of the present entry. They alias the record.
func (m *MetadataDecoder) Entry() []byte { return m.d.Since(m.off) }

// Err returns nil or the *encbuf.CorruptError that ended the record.
func (m *MetadataDecoder) Err() error { return m.d.Err() }
