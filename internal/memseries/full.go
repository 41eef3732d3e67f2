package memseries

import (
	"cmp"
	"slices"

	"github.com/seed347100a3/tsdb/chunks"
)

// FullBytes returns how many bytes of full chunks wait for a head-chunk file.
func (d *Directory) FullBytes() int64 { return d.fullBytes.Load() }

// CollectFull appends full chunks that no file has yet, those of a series in time
// order. It begins with a shard, takes whole shards until it has as many bytes as
// wanted, and returns the shard to go on with: NumShards behind the last one. The chunks
// stay readable here, and their bytes valid, until Written.
// One goroutine at a time may be between CollectFull and Written.
func (d *Directory) CollectFull(dst []Full, shard, bytes int) ([]Full, int) {
	for ; shard < NumShards && bytes > 0; shard++ {
		sh := &d.shards[shard]
		sh.mu.Lock()
		for key, f := range sh.mu.full {
			f.taken = true
			sh.mu.full[key] = f
			dst = append(dst, f)
			bytes -= len(f.Data)
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(dst, func(a, b Full) int {
		return cmp.Or(cmp.Compare(a.Series.ref, b.Series.ref), cmp.Compare(a.MinT, b.MinT))
	})
	return dst, shard
}

// Written says where collected chunks are now; their buffers go back. Those that were
// dropped meanwhile are nowhere any more.
func (d *Directory) Written(fulls []Full, refs []chunks.Ref) {
	for i, f := range fulls {
		sh := d.ShardOf(f.Series)
		sh.mu.Lock()
		if key := (fullKey{f.Series.ref, f.MinT}); sh.hasFullLocked(key) {
			setMappedRef(f.Series, f.MinT, refs[i])
			d.forgetFullLocked(sh, key)
		}
		sh.mu.buffers.put(f.Data)
		sh.mu.Unlock()
	}
}

func (sh *Shard) hasFullLocked(key fullKey) bool {
	_, ok := sh.mu.full[key]
	return ok
}

// forgetFullLocked takes a chunk out of those that no file has. Its buffer is left to
// the caller.
func (d *Directory) forgetFullLocked(sh *Shard, key fullKey) {
	f := sh.mu.full[key]
	delete(sh.mu.full, key)
	sh.mu.fullHeap -= int64(cap(f.Data))
	d.fullBytes.Add(-int64(len(f.Data)))
}

// setMappedRef fills in the place of the full chunk that begins at mint, if the
// series still has it.
func setMappedRef(s *Series, mint int64, ref chunks.Ref) {
	i, ok := slices.BinarySearchFunc(s.mapped, mint, func(m Mapped, t int64) int { return cmp.Compare(m.MinT, t) })
	if ok {
		s.mapped[i].Ref = ref
	}
}
