package replay

import (
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// exemplarLoad puts exemplars into the ring, in the order of the log. That is the order in which
// they were inserted, so the ring becomes what it was. They are few: one goroutine is enough.
type exemplarLoad struct {
	dec record.ExemplarDecoder
}

// record takes a record of exemplars. The series records of its commit are done.
func (x *exemplarLoad) record(r *replay, rec wal.Record) {
	if r.to.Exemplars == nil || r.to.Exemplars.Most() == 0 {
		return
	}
	err := error(nil)
	for x.dec.Reset(rec.Data); err == nil && x.dec.Next(); {
		err = x.insert(r, rec.Seq)
	}
	if err == nil {
		err = x.dec.Err()
	}
	if err != nil {
		r.damage(&recordError{rec, err})
	}
}

// insert inserts the present exemplar of a record.
func (x *exemplarLoad) insert(r *replay, seq uint64) (err error) {
	e := exemplars.Entry{Seq: seq}
	if e.Labels, err = x.dec.Labels(); err != nil {
		return err
	}
	known := false
	if e.Series, e.Ref, known = x.series(r, x.dec.Ref()); !known {
		r.out.ExemplarsUnknown++
		return nil
	}
	e.Value, e.T = x.dec.Value(), x.dec.T()
	r.out.Exemplars++
	r.to.Exemplars.Restore(&e)
	return nil
}

// series returns the labels that a ref of the log stands for, and the ref of the first series
// with these.
func (x *exemplarLoad) series(r *replay, ref uint64) (ls labels.Labels, first uint64, known bool) {
	if of, ok := r.dups[ref]; ok {
		ref = of
	}
	if ls, _ = r.to.Exemplars.Look(ref, &exemplar.Exemplar{}); !ls.IsEmpty() {
		return ls, ref, true
	}
	if s := r.to.Series.ByRef(ref); s != nil {
		return r.to.Series.Labels(s), ref, true
	}
	return ls, ref, false
}

// snapshot takes the exemplars of a snapshot: those of commits before the log that follows.
func (x *exemplarLoad) snapshot(r *replay, records []wal.Record) error {
	for i := range records {
		rec := records[i].Data
		if r.to.Exemplars == nil || headsnap.KindOf(rec) != headsnap.KindExemplars {
			continue
		}
		err := headsnap.EachExemplar(rec, func(e *exemplars.Entry) {
			r.out.Exemplars++
			r.to.Exemplars.Restore(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
