package memseries

import "github.com/seed347100a3/tsdb/internal/prefetch"

// GroupLen is how many series are looked at together: their open chunks fit the cache next to
// the processor.
const GroupLen = 16

// recordsAhead asks for the lines of series that shardsOf does not read, so that all of them come
// at once (BenchmarkSelectHead_ManySeries).
func recordsAhead(series []*Series) {
	for _, s := range series {
		s.ahead()
	}
}

// listsAheadLocked asks for label pairs and lists of full chunks.
func listsAheadLocked(d *Directory, series []*Series) {
	for _, s := range series {
		if pairs := d.Pairs(s); len(pairs) > 0 {
			prefetch.Lines(&pairs[0], &pairs[len(pairs)-1])
		}
		for _, b := range s.blocks {
			prefetch.Lines(&b.begins[0], &b.places[0])
		}
	}
}

// newestAhead asks for what tells the shards and the newest times of series.
func newestAhead(series []*Series) {
	for _, s := range series {
		prefetch.Lines(&s.ref, &s.pendT)
	}
}

// boundsAheadLocked asks for what tells from when to when series of a locked shard have samples.
func boundsAheadLocked(series []*Series) {
	for _, s := range series {
		prefetch.Lines(&s.numMapped, &s.blocks)
	}
	for _, s := range series {
		if s.numMapped > 0 {
			prefetch.Lines(&s.blocks[0].begins[0], &s.blocks[0].places[0])
		}
	}
}

// endsAhead asks for the memory that appending to series needs: their records, the ends of their
// open chunks, and pieces for what comes behind.
func (r *Restorer) endsAhead(series []*Series) {
	for _, s := range series {
		if s != nil {
			s.ahead()
		}
	}
	for _, s := range series {
		if s != nil && s.bytes.size > 0 {
			prefetch.Line(r.pieces.arena.at(s.bytes.last))
		}
	}
	spare := r.pieces.recycled.spare
	for _, n := range spare[max(0, len(spare)-GroupLen):] {
		prefetch.Line(r.pieces.arena.at(n))
	}
}
