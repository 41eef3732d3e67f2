package memseries

import (
	"slices"
	"sort"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/chunks"
)

// Shelf has the full chunks: those that no head-chunk file has yet, which wait in their shards,
// and the places of the others.
type Shelf struct {
	shards *Shards
	arena  *pieceArena

	bytes          atomic.Int64 // of full chunks that no file has yet
	collected      []byte       // of Collect, for the next one
	collectedBytes atomic.Int64 // its capacity
}

// Bytes returns how many bytes of full chunks wait for a head-chunk file.
func (sf *Shelf) Bytes() int64 { return sf.bytes.Load() }

// Collect appends full chunks that no file has yet, those of a series in time
// order. It begins with a shard, takes whole shards until it has as many bytes as
// wanted, and returns the shard to go on with: NumShards behind the last one. The chunks
// stay readable here until Written, and what is given of them good until the next Collect.
// Each is given to Written or Unwritten before that; one goroutine at a time does all this.
func (sf *Shelf) Collect(dst []Full, shard, bytes int) ([]Full, int) {
	given := len(dst)
	for ; shard < NumShards && bytes > 0; shard++ {
		sh := &sf.shards.all[shard]
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
	sf.copyData(dst[given:])
	return dst, shard
}

// maxKeptCollected bounds, in bytes, the buffer for collected chunks that is kept.
const maxKeptCollected = 2 << 20

// copyData gives taken chunks their Data. No lock is needed: their pieces are not changed
// any more, and not given back before Written or Unwritten.
func (sf *Shelf) copyData(fulls []Full) {
	size := 0
	for i := range fulls {
		size += int(fulls[i].bytes.size)
	}
	buf := sf.AppendData(slices.Grow(sf.collected[:0], size), fulls)
	if sf.collected = buf; cap(buf) > maxKeptCollected {
		sf.collected = nil
	}
	sf.collectedBytes.Store(int64(cap(sf.collected)))
}

// AppendData gives chunks that nobody changes their Data, which it appends to buf. buf has
// room for all of it, or earlier ones may lie elsewhere.
func (sf *Shelf) AppendData(buf []byte, fulls []Full) []byte {
	var w walk
	for len(fulls) > 0 {
		some := fulls[:min(GroupLen, len(fulls))]
		w.begin(len(some), func(i int) chunkBytes { return some[i].bytes }, sf.arena)
		for i := range some {
			from := len(buf)
			buf = w.appendTo(buf, i, sf.arena)
			putCount(buf[from:], some[i].Encoding, some[i].Num)
			some[i].Data = buf[from:len(buf):len(buf)]
		}
		fulls = fulls[len(some):]
	}
	return buf
}

// Written says where collected chunks are now; their pieces go back. Those that were
// dropped meanwhile are nowhere any more.
func (sf *Shelf) Written(fulls []Full, refs []chunks.Ref) {
	for i := range fulls {
		f := &fulls[i]
		sh := sf.shards.of(f.Series)
		sh.mu.Lock()
		if kept := sh.mu.waiting.get(f.ref); kept != nil {
			sh.mu.mapped.setRef(f.Series, f.MinT, refs[i])
			sf.forgetLocked(sh, kept)
		}
		f.bytes.drop(&sh.mu.pieces)
		sh.mu.Unlock()
	}
}

// Unwritten gives collected chunks back that could not be written.
func (sf *Shelf) Unwritten(fulls []Full) {
	for i := range fulls {
		f := &fulls[i]
		sh := sf.shards.of(f.Series)
		sh.mu.Lock()
		if kept := sh.mu.waiting.get(f.ref); kept != nil {
			kept.taken = false
		} else {
			f.bytes.drop(&sh.mu.pieces)
		}
		sh.mu.Unlock()
	}
}

// forgetLocked takes a chunk out of those that no file has. Its pieces are left to
// the caller.
func (sf *Shelf) forgetLocked(sh *Shard, f *fullChunk) {
	sf.bytes.Add(-int64(f.bytes.size))
	sh.mu.waiting.remove(f)
}

// dropLocked forgets a full chunk that no file has. One that is on its way to a file
// keeps its pieces until Written.
func (sf *Shelf) dropLocked(sh *Shard, f *fullChunk) {
	bytes, taken := f.bytes, f.taken
	sf.forgetLocked(sh, f)
	if !taken {
		bytes.drop(&sh.mu.pieces)
	}
}

func (sf *Shelf) sizeBytes() int64 { return sf.collectedBytes.Load() }
