package record

import (
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/labels"
)

// An exemplars record; an empty one is the type byte alone:
//
//	+------+---------------+-------------+----------------------------------+
//	| 0x04 | base_ref be64 | base_t be64 | entries until the end            |
//	+------+---------------+-------------+----------------------------------+
//	entry: ref - base_ref varint | t - base_t varint | value f64 |
//	       n uvarint | n x ( name str | value str )
//
// The base is the first exemplar, which is repeated as the first entry. Whether an exemplar
// has a time is not written: 0 may mean either.

// ExemplarEncoder builds one exemplars record entry by entry. The zero value is ready for
// Begin.
type ExemplarEncoder struct {
	ref     uint64
	t       int64
	started bool
}

// Begin starts an exemplars record at the end of dst.
func (e *ExemplarEncoder) Begin(dst []byte) []byte {
	*e = ExemplarEncoder{}
	return append(dst, byte(TypeExemplars))
}

// Append appends an exemplar of the series ref to the record that dst ends with: what was
// observed at t, in milliseconds, and the labels of that, which are not those of the series.
func (e *ExemplarEncoder) Append(
	dst []byte, ref uint64, t int64, v float64, ls labels.Labels,
) []byte {
	if !e.started {
		*e = ExemplarEncoder{ref: ref, t: t, started: true}
		dst = encbuf.AppendBE64(dst, ref)
		dst = encbuf.AppendBE64(dst, uint64(t))
	}
	dst = encbuf.AppendVarint(dst, int64(ref-e.ref))
	dst = encbuf.AppendVarint(dst, t-e.t)
	dst = appendFloat(dst, v)
	dst = encbuf.AppendUvarint(dst, uint64(ls.Len()))
	return ls.AppendEncoded(dst)
}

// ExemplarDecoder is a cursor over an exemplars record. The zero value is ready for Reset.
type ExemplarDecoder struct {
	d         encbuf.Dec
	begun     bool // the base was read
	ref, base uint64
	t, baseT  int64
	v         float64
	labels    []byte // encoded
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Err.
func (e *ExemplarDecoder) Reset(rec []byte) {
	*e = ExemplarDecoder{d: encbuf.NewDec(rec)}
	beginRecord(&e.d, TypeExemplars)
}

// Next moves to the next exemplar. False means the end of the record or damage, see Err.
func (e *ExemplarDecoder) Next() bool {
	if e.d.Len() == 0 {
		return false
	}
	if !e.begun {
		e.base, e.baseT = e.d.BE64(), int64(e.d.BE64())
		e.begun = true
	}
	e.ref = e.base + uint64(e.d.Varint())
	e.t = e.baseT + e.d.Varint()
	e.v = e.d.Float64()
	n := e.d.Count(minLabelBytes)
	off := e.d.Offset()
	for range 2 * n {
		e.d.Str()
	}
	if e.d.Err() != nil {
		return false
	}
	e.labels = e.d.Since(off)
	return true
}

// Ref returns the number of the present exemplar's series.
func (e *ExemplarDecoder) Ref() uint64 { return e.ref }

// T returns the present exemplar's time in milliseconds.
func (e *ExemplarDecoder) T() int64 { return e.t }

// Value returns what was observed, bit for bit.
func (e *ExemplarDecoder) Value() float64 { return e.v }

// Labels returns the present exemplar's labels as a set in the canonical form: sorted, without
// empty values. It lies in the record, and is good until that changes.
func (e *ExemplarDecoder) Labels() (labels.Labels, error) {
	return labels.UnsafeFromEncoded(e.labels)
}

// Err returns nil or the *encbuf.CorruptError that ended the record. Exemplars before it are
// good.
func (e *ExemplarDecoder) Err() error { return e.d.Err() }
