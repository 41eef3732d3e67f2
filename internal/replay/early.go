package replay

import (
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Another engine lets two of its appenders create one series, and logs the record with the commit
// of the one that was first to create it. If the other one commits first, its samples stand in the
// log before the record, and so may deletes of them. The engine itself loses such samples at its
// next start. Here workers set them aside until the record comes (memseries); what follows is for
// deletes, and for records that turn out to be another name of a series. This library never writes
// such a log of samples: whoever commits first logs the record.
//
// Where damage took series records, the head logs its series anew. What a checkpoint has of their
// deletes, metadata and exemplars stands before the new record then, and is kept for it, too.

// maxEarlyTombstones is how many deletes are kept for refs that have no record yet: 2 MiB.
const maxEarlyTombstones = 1 << 16

// earlyRecords are what the log has before a series record that it belongs to.
type earlyRecords struct {
	dups  []uint64 // refs that became another name of a series, and may have samples set aside
	stone map[uint64][]tombstones.Interval
	n     int // in stone

	metadata earlyMetadata
}

// keep keeps a delete until the record of its series comes.
func (e *earlyRecords) keep(stone record.Tombstone) {
	if stone.WholeSeries() {
		e.metadata.forget(stone.Ref)
	}
	if e.n == maxEarlyTombstones || stone.WholeSeries() {
		return
	}
	if e.stone == nil {
		e.stone = map[uint64][]tombstones.Interval{}
	}
	e.stone[stone.Ref] = append(e.stone[stone.Ref], tombstones.Interval{Mint: stone.Mint, Maxt: stone.Maxt})
	e.n++
}

// applyEarly gives a series the deletes, metadata and exemplars that came under a ref before its
// record.
func (r *replay) applyEarly(ref uint64, s *memseries.Series) {
	if value, ok := r.early.metadata.take(ref, s.Ref()); ok {
		r.out.Metadata.Set(s.Ref(), value)
	}
	r.exemplars.name(r, ref, s)
	for _, stone := range r.early.stone[ref] {
		r.out.Tombs.Add(s.Ref(), stone)
		r.out.Tombstones++
		r.early.n--
	}
	delete(r.early.stone, ref)
}

// adoptDups gives series the samples that came under another name of theirs before its record, and
// before later ones of theirs are passed on. The workers come to rest for it, once for the
// records of a batch.
func (r *replay) adoptDups() {
	if len(r.early.dups) == 0 {
		return
	}
	r.barrier()
	for _, ref := range r.early.dups {
		if s := r.to.Series.ByRef(r.dups[ref]); s != nil {
			r.adopt(ref, s)
		}
	}
	r.early.dups = r.early.dups[:0]
}

// adopt gives a series the samples that are set aside under a ref. The workers are at rest.
func (r *replay) adopt(ref uint64, s *memseries.Series) {
	n := uint64(len(r.workers))
	r.workers[s.Ref()%n].restorer.Adopt(r.workers[ref%n].restorer, ref, s)
}
