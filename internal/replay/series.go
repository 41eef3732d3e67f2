package replay

import (
	"maps"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// applySeries makes the series of a record.
func (r *replay) applySeries(rec wal.Record) error {
	var dec record.SeriesDecoder
	dec.Reset(rec.Data)
	for dec.Next() {
		ls, err := dec.Labels()
		if err != nil {
			break // Err says it
		}
		if err := r.restore(dec.Ref(), ls, rec); err != nil {
			return err
		}
	}
	if err := dec.Err(); err != nil {
		r.damage(&recordError{rec, err})
	}
	return nil
}

// restore makes one series, or learns that its ref is another name for one.
func (r *replay) restore(ref uint64, ls labels.Labels, rec wal.Record) error {
	series, hash := r.to.Series, ls.Hash()
	if s := series.ByRef(ref); s != nil {
		if series.ByLabels(ls, hash) != s {
			r.damage(&recordError{rec, errors.Errorf("series ref %d has two label sets; the first one stays", ref)})
		}
		return nil
	}
	if s := series.ByLabels(ls, hash); s != nil {
		r.dups[ref] = s.Ref()
		series.RaiseNextRef(ref + 1)
		r.attachMore(s, ref)
		r.early.dups = append(r.early.dups, ref)
		r.applyEarly(ref, s)
		return nil
	}
	if first, ok := r.dups[ref]; ok {
		r.damage(&recordError{rec, errors.Errorf("series ref %d stands for ref %d and has other labels; the first ones stay", ref, first)})
		return nil
	}
	s, err := r.restoration.Restore(ref, ls, hash)
	if errors.Is(err, memseries.ErrRefUsed) {
		r.damage(&recordError{rec, errors.Errorf("series ref %d was that of a series that is gone", ref)})
		return nil
	}
	if err != nil {
		return errors.WithMessagef(err, "series record in %s at offset %d: ref %d", r.logFile(rec), rec.Offset, ref)
	}
	if ms := r.loaded[ref]; ms != nil {
		r.restoration.Attach(s, ms)
		delete(r.loaded, ref)
	}
	r.applyEarly(ref, s)
	return nil
}

// attachMore hands full chunks that were written under a duplicate ref to the series.
// Its worker may be at it, so all of them come to rest first; this is rare.
func (r *replay) attachMore(s *memseries.Series, ref uint64) {
	ms := r.loaded[ref]
	if ms == nil {
		return
	}
	delete(r.loaded, ref)
	r.barrier()
	r.restoration.AttachMore(s, ms)
}

// applyTombstones notes deleted intervals, and drops series that the log says were
// removed as a whole.
func (r *replay) applyTombstones(rec wal.Record) {
	if record.TypeOf(rec.Data) == record.TypeLateTombstones {
		r.late.marked = stonesOf(r, rec, record.ReadLateTombstones(rec.Data), r.late.marked[:0])
		return
	}
	stones := stonesOf(r, rec, rec.Data, nil)
	for i, inOrder := 0, r.late.unmarked(stones); i < len(stones); i++ {
		stone := stones[i]
		if ref, ok := r.dups[stone.Ref]; ok {
			stone.Ref = ref
		}
		r.to.Series.RaiseNextRef(stone.Ref + 1)
		if !stone.WholeSeries() {
			r.late.delete(r, stone, rec.Seq)
		}
		s := r.to.Series.ByRef(stone.Ref)
		switch {
		case stone.Mint > stone.Maxt || stone.Maxt < r.to.MinValid:
		case i >= inOrder:
		case s == nil:
			r.early.keep(stone)
		case stone.WholeSeries():
			r.barrier()
			r.adopt(stone.Ref, s)
			r.restoration.Drop(s)
			r.out.Metadata.Remove(stone.Ref)
			gone := func(ref uint64) { r.out.Gone = append(r.out.Gone, headsnap.Gone{Ref: ref, Segment: rec.Segment}) }
			gone(stone.Ref)
			maps.DeleteFunc(r.dups, func(dup, ref uint64) bool {
				if ref == stone.Ref {
					gone(dup)
				}
				return ref == stone.Ref
			})
		default:
			r.out.Tombs.Add(stone.Ref, tombstones.Interval{Mint: stone.Mint, Maxt: stone.Maxt})
			r.out.Tombstones++
		}
	}
}

// stonesOf appends the deleted intervals of a record to dst.
func stonesOf(r *replay, rec wal.Record, data []byte, dst []record.Tombstone) []record.Tombstone {
	var dec record.TombstoneDecoder
	for dec.Reset(data); dec.Next(); {
		dst = append(dst, dec.At())
	}
	if err := dec.Err(); err != nil {
		r.damage(&recordError{rec, err})
	}
	return dst
}
