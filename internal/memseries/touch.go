package memseries

// TouchLen is how many series Touch takes at most: their open chunks fit the cache next to
// the processor.
const TouchLen = 16

// Touch asks for the memory of series that View is about to read. What a series has lies all
// over the memory, one part leading to the next: read one series after the other, each part is
// waited for; here the same part of all series is waited for at once (BenchmarkReadHead of
// package remote). It changes nothing. The sum means nothing: without it nothing would be read.
func (d *Directory) Touch(series []*Series) (sum uint32) {
	series = series[:min(len(series), TouchLen)]
	shards := shardsOf(series)
	d.Lock(shards)
	defer d.Unlock(shards)
	return touchLists(series) + d.touchPiecesLocked(series)
}

func shardsOf(series []*Series) (shards Shards) {
	for _, s := range series {
		shards |= Bit(s)
	}
	return shards
}

// touchLists asks for the series, and then for their lists of full chunks.
func touchLists(series []*Series) (sum uint32) {
	for _, s := range series {
		sum += s.numMapped + s.bytes.first
	}
	for _, s := range series {
		for _, b := range s.blocks {
			sum += b.begins[0] + b.places[0]
		}
	}
	return sum
}

func (d *Directory) touchPiecesLocked(series []*Series) (sum uint32) {
	var at [TouchLen]uint32
	var left [TouchLen]int
	for i, s := range series {
		at[i], left[i] = s.bytes.first, int(s.bytes.size)
	}
	for more := true; more; {
		more = false
		for i := range series {
			if left[i] <= 0 {
				continue
			}
			at[i] = d.chunkBytes.at(at[i]).next
			left[i] -= piecePayload
			more = true
		}
	}
	for _, n := range at {
		sum += n
	}
	return sum
}

// touch asks for the memory that appending to series needs: the ends of their open chunks, and pieces
// for what comes behind.
func (r *Restorer) touch(series []*Series) {
	for _, s := range series {
		if s != nil && s.bytes.size > 0 {
			r.touched += r.pieces.arena.at(s.bytes.last).data[int(s.bytes.size)%piecePayload]
		}
	}
	spare := r.pieces.recycled.spare
	for _, n := range spare[max(0, len(spare)-TouchLen):] {
		r.touched += r.pieces.arena.at(n).data[0]
	}
}
