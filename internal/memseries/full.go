package memseries

import (
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/chunks"
)

// FullBytes returns how many bytes of full chunks wait for a head-chunk file.
func (d *Directory) FullBytes() int64 { return d.fullBytes.Load() }

// CollectFull appends full chunks that no file has yet, those of a series in time
// order. It begins with a shard, takes whole shards until it has as many bytes as
// wanted, and returns the shard to go on with: NumShards behind the last one. The chunks
// stay readable here until Written, and what is given of them good until the next CollectFull.
// Each is given to Written or Unwritten before that; one goroutine at a time does all this.
func (d *Directory) CollectFull(dst []Full, shard, bytes int) ([]Full, int) {
	given := len(dst)
	for ; shard < NumShards && bytes > 0; shard++ {
		sh := &d.shards[shard]
		sh.mu.Lock()
		from := len(dst)
		for ref, f := range sh.mu.waiting.all() {
			f.taken = true
			out := f.given()
			out.ref = ref
			dst = append(dst, out)
			bytes -= out.Size()
		}
		mixed := sh.mu.waiting.mixed
		sh.mu.Unlock()
		if mixed {
			some := dst[from:]
			sort.Slice(some, func(i, k int) bool { return some[i].MinT < some[k].MinT }) // not by package slices: 17 KiB for this type
		}
	}
	d.copyData(dst[given:])
	return dst, shard
}

// maxKeptCollected bounds, in bytes, the buffer for collected chunks that is kept.
const maxKeptCollected = 2 << 20

// copyData gives taken chunks their Data. No lock is needed: their pieces are not changed
// any more, and not given back before Written or Unwritten.
func (d *Directory) copyData(fulls []Full) {
	size := 0
	for i := range fulls {
		size += int(fulls[i].bytes.size)
	}
	buf := d.AppendData(slices.Grow(d.collected[:0], size), fulls)
	if d.collected = buf; cap(buf) > maxKeptCollected {
		d.collected = nil
	}
	d.collectedBytes.Store(int64(cap(d.collected)))
}

// AppendData gives chunks that nobody changes their Data, which it appends to buf. buf has
// room for all of it, or earlier ones may lie elsewhere.
func (d *Directory) AppendData(buf []byte, fulls []Full) []byte {
	var w walk
	for len(fulls) > 0 {
		some := fulls[:min(GroupLen, len(fulls))]
		w.begin(len(some), func(i int) chunkBytes { return some[i].bytes }, d.chunkBytes)
		for i := range some {
			from := len(buf)
			buf = w.appendTo(buf, i, d.chunkBytes)
			putCount(buf[from:], some[i].Encoding, some[i].Num)
			some[i].Data = buf[from:len(buf):len(buf)]
		}
		fulls = fulls[len(some):]
	}
	return buf
}

// Written says where collected chunks are now; their pieces go back. Those that were
// dropped meanwhile are nowhere any more.
func (d *Directory) Written(fulls []Full, refs []chunks.Ref) {
	for i := range fulls {
		f := &fulls[i]
		sh := d.ShardOf(f.Series)
		sh.mu.Lock()
		if kept := sh.mu.waiting.get(f.ref); kept != nil {
			sh.mu.setMappedRef(f.Series, f.MinT, refs[i])
			d.forgetFullLocked(sh, kept)
		}
		f.bytes.drop(&sh.mu.pieces)
		sh.mu.Unlock()
	}
}

// Unwritten gives collected chunks back that could not be written.
func (d *Directory) Unwritten(fulls []Full) {
	for i := range fulls {
		f := &fulls[i]
		sh := d.ShardOf(f.Series)
		sh.mu.Lock()
		if kept := sh.mu.waiting.get(f.ref); kept != nil {
			kept.taken = false
		} else {
			f.bytes.drop(&sh.mu.pieces)
		}
		sh.mu.Unlock()
	}
}

// forgetFullLocked takes a chunk out of those that no file has. Its pieces are left to
// the caller.
func (d *Directory) forgetFullLocked(sh *Shard, f *fullChunk) {
	d.fullBytes.Add(-int64(f.bytes.size))
	sh.mu.waiting.remove(f)
}
