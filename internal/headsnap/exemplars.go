package headsnap

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/labels"
)

// Exemplars stand in the order in which they were inserted, in records of some. Their series have
// labels here, as they may have left the head:
//
//	| 0x43 | for each exemplar: ref - that before varint | labels of the series, or 0 uvarint | seq uvarint |
//	|      | t - that before varint | value f64 | labels                                                |
//	labels: n uvarint, n x (name, value)
//
// The labels of a series stand where a record names it first.

// maxExemplarsBytes is about how long a record of exemplars gets.
const maxExemplarsBytes = 64 << 10

// Exemplars adds exemplars, the oldest insert first. It is called once, behind all series.
func (w *Writer) Exemplars(list []exemplars.Entry) error {
	if err := w.endGroup(); err != nil {
		return err
	}
	for len(list) > 0 {
		rec, n := appendExemplars(nil, list)
		if err := w.w.Append(rec); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// appendExemplars makes a record of the first exemplars of a list, and returns of how many.
func appendExemplars(rec []byte, list []exemplars.Entry) (_ []byte, n int) {
	rec = append(rec, typeExemplars)
	named := map[uint64]bool{}
	var ref uint64
	var t int64
	for ; n < len(list) && len(rec) < maxExemplarsBytes; n++ {
		e := &list[n]
		rec = encbuf.AppendVarint(rec, int64(e.Ref-ref))
		if named[e.Ref] {
			rec = append(rec, 0)
		} else {
			rec = appendLabels(rec, e.Series)
			named[e.Ref] = true
		}
		rec = encbuf.AppendUvarint(rec, e.Seq)
		rec = encbuf.AppendVarint(rec, e.T-t)
		rec = encbuf.AppendBE64(rec, math.Float64bits(e.Value))
		rec = appendLabels(rec, e.Labels)
		ref, t = e.Ref, e.T
	}
	return rec, n
}

func appendLabels(dst []byte, ls labels.Labels) []byte {
	return ls.AppendEncoded(encbuf.AppendUvarint(dst, uint64(ls.Len())))
}

// EachExemplar calls fn with each exemplar of a record. What fn gets is good until it returns.
// Errors are *encbuf.CorruptError.
func EachExemplar(rec []byte, fn func(*exemplars.Entry)) error {
	d := encbuf.NewDec(rec)
	if d.Byte() != typeExemplars {
		d.FailAt(0, "record of another type")
	}
	named := map[uint64]labels.Labels{}
	var e exemplars.Entry
	for d.Err() == nil && d.Len() > 0 {
		e.Ref += uint64(d.Varint())
		known := named[e.Ref]
		if e.Series = decodeLabels(&d); e.Series.IsEmpty() == known.IsEmpty() {
			d.Fail("exemplar of a series without labels, or with two label sets")
		} else if e.Series.IsEmpty() {
			e.Series = known
		} else {
			named[e.Ref] = e.Series
		}
		e.Seq = d.Uvarint()
		e.T += d.Varint()
		e.Value, e.HasT = d.Float64(), true
		e.Labels = decodeLabels(&d)
		if d.Err() == nil {
			fn(&e)
		}
	}
	return d.Err()
}

func decodeLabels(d *encbuf.Dec) labels.Labels {
	n := d.Count(2)
	from := d.Offset()
	for range 2 * n {
		d.Str()
	}
	if d.Err() != nil {
		return labels.Labels{}
	}
	ls, err := labels.UnsafeFromEncoded(d.Since(from))
	if err != nil {
		d.Fail(err.Error())
	}
	return ls
}
