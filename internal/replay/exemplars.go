package replay

import (
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// exemplarLoad puts exemplars into the ring, in the order of the log. That is the order in which
// they were inserted, so the ring becomes what it was. They are few: one goroutine is enough.
//
// Behind one whose series has no record yet all others wait, so that they come in their order.
type exemplarLoad struct {
	dec      record.ExemplarDecoder
	seq      uint64                        // of the newest commit that had any
	waiting  []*exemplars.Entry            // the first one is nameless: it has no labels of a series
	nameless map[uint64][]*exemplars.Entry // those of waiting, by ref
}

// What waits at most is as much as is kept, as that would push out the first, within these bounds.
const (
	leastEarlyExemplars = 1 << 10
	maxEarlyExemplars   = 1 << 16 // some 20 MiB
)

// record takes a record of exemplars. The series records of its commit are done.
func (x *exemplarLoad) record(r *replay, rec wal.Record) {
	if r.to.Exemplars == nil || r.to.Exemplars.Most() == 0 {
		return
	}
	// Those of another engine get the number of a commit before them. Numbers never fall, so what
	// has one up to some number is a beginning of the log.
	x.seq = max(x.seq, rec.Seq)
	err := error(nil)
	for x.dec.Reset(rec.Data); err == nil && x.dec.Next(); {
		err = x.insert(r)
	}
	if err == nil {
		err = x.dec.Err()
	}
	if err != nil {
		r.damage(&recordError{rec, err})
	}
}

// insert inserts the present exemplar of a record.
func (x *exemplarLoad) insert(r *replay) (err error) {
	e := exemplars.Entry{Seq: x.seq}
	if e.Labels, err = x.dec.Labels(); err != nil {
		return err
	}
	known := false
	e.Series, e.Ref, known = x.series(r, x.dec.Ref())
	e.Value, e.T = x.dec.Value(), x.dec.T()
	if known && len(x.waiting) == 0 {
		x.restore(r, &e)
		return nil
	}
	e.Labels = exemplars.Clone(e.Labels)
	x.wait(r, &e)
	return nil
}

func (x *exemplarLoad) restore(r *replay, e *exemplars.Entry) {
	r.out.Exemplars++
	r.to.Exemplars.Restore(e)
}

// wait puts an exemplar behind those that wait. If they are too many the first is given up.
func (x *exemplarLoad) wait(r *replay, e *exemplars.Entry) {
	if len(x.waiting) >= min(maxEarlyExemplars, max(leastEarlyExemplars, r.to.Exemplars.Most())) {
		ref := x.waiting[0].Ref
		if x.nameless[ref] = x.nameless[ref][1:]; len(x.nameless[ref]) == 0 {
			delete(x.nameless, ref)
		}
		x.next(r)
		x.drain(r)
	}
	if e.Series.IsEmpty() {
		r.to.Series.RaiseNextRef(e.Ref + 1)
		if x.nameless == nil {
			x.nameless = map[uint64][]*exemplars.Entry{}
		}
		x.nameless[e.Ref] = append(x.nameless[e.Ref], e)
	}
	x.waiting = append(x.waiting, e)
	x.drain(r)
}

// name gives those that wait under a ref the labels of their series, which has its record now.
func (x *exemplarLoad) name(r *replay, ref uint64, s *memseries.Series) {
	if len(x.nameless[ref]) > 0 {
		ls := r.to.Series.Labels(s)
		for _, e := range x.nameless[ref] {
			e.Series, e.Ref = ls, s.Ref()
		}
		x.drain(r)
	}
	delete(x.nameless, ref)
}

// drain inserts what waits for nothing any more.
func (x *exemplarLoad) drain(r *replay) {
	for len(x.waiting) > 0 && !x.waiting[0].Series.IsEmpty() {
		x.next(r)
	}
}

// next takes the first one that waits, and inserts it if its series is known.
func (x *exemplarLoad) next(r *replay) {
	e := x.waiting[0]
	x.waiting[0] = nil
	x.waiting = x.waiting[1:]
	if e.Series.IsEmpty() {
		r.out.ExemplarsUnknown++
		return
	}
	x.restore(r, e)
}

// end is called behind the log.
func (x *exemplarLoad) end(r *replay) {
	for len(x.waiting) > 0 {
		x.next(r)
	}
}

// series returns the labels that a ref of the log stands for, and the ref of the first series
// with these.
func (x *exemplarLoad) series(r *replay, ref uint64) (ls labels.Labels, first uint64, known bool) {
	if of, ok := r.dups[ref]; ok {
		ref = of
	}
	if ls, _ = r.to.Exemplars.Look(ref, nil); !ls.IsEmpty() {
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
			x.seq = max(x.seq, e.Seq)
			r.to.Exemplars.Restore(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
