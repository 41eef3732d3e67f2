package record

import (
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/labels"
)

// A series record:
//
//	+------+-----------------------------------------------------+
//	| 0x01 | entries until the end of the record                 |
//	+------+-----------------------------------------------------+
//	entry: ref be64 | n uvarint | n x ( name str | value str )

// minLabelBytes is the size of the shortest label: two empty strings.
const minLabelBytes = 2

// BeginSeries starts a series record at the end of dst. Entries follow: for each
// series AppendSeriesRef, then AppendLabel for each of its labels, sorted by name.
func BeginSeries(dst []byte) []byte { return append(dst, byte(TypeSeries)) }

// AppendSeriesRef starts the entry of one series with n labels.
func AppendSeriesRef(dst []byte, ref uint64, n int) []byte {
	dst = encbuf.AppendBE64(dst, ref)
	return encbuf.AppendUvarint(dst, uint64(n))
}

// AppendLabel appends one label of the series begun last.
func AppendLabel(dst []byte, name, value string) []byte {
	dst = encbuf.AppendString(dst, name)
	return encbuf.AppendString(dst, value)
}

// AppendSeries appends the whole entry of one series.
func AppendSeries(dst []byte, ref uint64, ls labels.Labels) []byte {
	dst = AppendSeriesRef(dst, ref, ls.Len())
	return ls.AppendEncoded(dst)
}

// SeriesDecoder is a cursor over a series record. Names and values are substrings of
// the record; nothing is built. The zero value is ready for Reset.
//
//	for d.Next() {
//		for name, value, ok := d.Label(); ok; name, value, ok = d.Label() {
//			...
//		}
//	}
//	if d.Err() != nil ...
//
// Labels come as they were written: a foreign log may hold them unsorted or with
// empty values.
type SeriesDecoder struct {
	d         encbuf.Dec
	ref       uint64
	left      int // labels of this entry not read yet
	entryOff  int // where this entry begins
	labelsOff int // and its labels
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Err.
//
//go:noinline
func (s *SeriesDecoder) Reset(rec []byte) {
	*s = SeriesDecoder{d: encbuf.NewDec(rec)}
	beginRecord(&s.d, TypeSeries)
}

// Next moves to the next series; labels of the last one that were not read are
// skipped. False means the end of the record or damage, see Err.
func (s *SeriesDecoder) Next() bool {
	for s.left > 0 {
		s.Label()
	}
	if s.d.Len() == 0 {
		return false
	}
	s.entryOff = s.d.Offset()
	s.ref = s.d.BE64()
	s.left = s.d.Count(minLabelBytes)
	s.labelsOff = s.d.Offset()
	return s.d.Err() == nil
}

// Ref returns the series' number.
func (s *SeriesDecoder) Ref() uint64 { return s.ref }

// Label returns the next label of the present series; the bytes alias the record. ok
// is false behind the last label and on damage.
func (s *SeriesDecoder) Label() (name, value []byte, ok bool) {
	if s.left == 0 {
		return nil, nil, false
	}
	s.left--
	name = s.d.Str()
	value = s.d.Str()
	if s.d.Err() != nil {
		s.left = 0
		return nil, nil, false
	}
	return name, value, true
}

// Labels returns the labels of the present series as a set in the canonical form: sorted,
// without empty values. It lies in the record, and is good until that changes. Labels that
// Label has returned are part of it; behind it, Label has nothing left.
func (s *SeriesDecoder) Labels() (labels.Labels, error) {
	for s.left > 0 {
		s.Label()
	}
	if s.d.Err() != nil {
		return labels.Labels{}, s.d.Err()
	}
	return labels.UnsafeFromEncoded(s.d.Since(s.labelsOff))
}

// Entry returns the bytes of the present entry, to be appended to another series record as
// they are. They alias the record. Behind it, Label has nothing left.
func (s *SeriesDecoder) Entry() ([]byte, error) {
	for s.left > 0 {
		s.Label()
	}
	return s.d.Since(s.entryOff), s.d.Err()
}

// Err returns nil or the *encbuf.CorruptError that ended the record. Series that were
// read wholly before it are good.
func (s *SeriesDecoder) Err() error { return s.d.Err() }

// beginRecord reads the type byte.
func beginRecord(d *encbuf.Dec, want Type) {
	if d.Byte() != byte(want) && d.Err() == nil {
		d.FailAt(0, "not a record of "+want.String())
	}
}
