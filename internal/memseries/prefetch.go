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

// touchNewest asks for what of series may be read without their shards' locks. What it returns
// means nothing, but the compiler would leave out what is not used.
//
//go:noinline
func touchNewest(series []*Series) (sum uint32) {
	for _, s := range series {
		sum += uint32(s.PendingT())
	}
	return sum
}

// touchBoundsLocked asks for what tells from when to when series of a locked shard have samples.
// What it returns means nothing, either.
//
//go:noinline
func touchBoundsLocked(series []*Series) (sum uint32) {
	for _, s := range series {
		sum += s.numMapped + uint32(s.lastSeq) + uint32(len(s.blocks))
	}
	for _, s := range series {
		if s.numMapped > 0 {
			sum += s.blocks[0].begins[0] + s.blocks[0].places[0]
		}
	}
	return sum
}

// touch asks for the memory that appending to series needs: their records, the ends of their open
// chunks, and pieces for what comes behind.
func (r *Restorer) touch(series []*Series) {
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
