package memseries

import (
	"iter"
	"slices"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunks"
)

// waiting is a queue of the full chunks of a shard that no file has, in the order in which they
// were cut. The series knows the number of each, as a ref (Mapped), so to put one into the queue,
// and to find it there, takes no hash of anything: all series of a scrape are cut by one commit
// (BenchmarkCutScrape). Guarded by the shard's lock; what get and of return is good until the next
// add or remove.
type waiting struct {
	queue []fullChunk // those before head are gone, and those without a series
	head  int
	left  int    // chunks that are not gone
	first uint32 // number of queue[0]; numbers go round
	mixed bool   // some stand behind newer ones of their series
}

// numbers is how many there are, from 1 on: as many as a mappedBlock has room for. Never are as
// many chunks in memory.
const numbers = 1<<offsetBits - 1

// waitingFile is the file of their refs. No file has this number.
const waitingFile uint32 = chunks.LastHeadFile + 1

// add appends a chunk and returns its ref.
func (w *waiting) add(f fullChunk) chunks.Ref {
	if len(w.queue) == cap(w.queue) && w.head > len(w.queue)/2 {
		w.drop(w.head)
	}
	w.queue = append(w.queue, f)
	w.left++
	return w.ref(len(w.queue) - 1)
}

func (w *waiting) ref(i int) chunks.Ref {
	return chunks.NewRef(waitingFile, (w.first+uint32(i))%numbers+1)
}

// get returns the chunk of a ref, nil if it is gone.
//
//go:noinline
func (w *waiting) get(ref chunks.Ref) *fullChunk {
	i := int((ref.Offset() - 1 + numbers - w.first) % numbers)
	if ref.File() != waitingFile || i >= len(w.queue) || w.queue[i].series == nil {
		return nil
	}
	return &w.queue[i]
}

// of returns the chunk of a series' list that is in no file.
func (w *waiting) of(m Mapped) *fullChunk {
	f := w.get(m.Ref)
	if f == nil {
		panic("BUG: a full chunk is in no file and does not wait for one")
	}
	return f
}

// remove takes a chunk out that is there. Its pieces are left to the caller.
func (w *waiting) remove(f *fullChunk) {
	*f = fullChunk{}
	w.left--
	for w.head < len(w.queue) && w.queue[w.head].series == nil {
		w.head++
	}
	if w.left == 0 {
		w.drop(len(w.queue))
		w.mixed = false
	}
}

// drop forgets the first n, which are gone.
//
//go:noinline
func (w *waiting) drop(n int) {
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue, w.head = w.queue[:rest], w.head-n
	w.first = (w.first + uint32(n)) % numbers
}

// all yields the chunks, oldest first, and their refs.
func (w *waiting) all() iter.Seq2[chunks.Ref, *fullChunk] {
	return func(yield func(chunks.Ref, *fullChunk) bool) {
		for i := w.head; i < len(w.queue); i++ {
			if f := &w.queue[i]; f.series != nil && !yield(w.ref(i), f) {
				return
			}
		}
	}
}

// shrink gives memory back if there is room for more than twice what the queue has. That is more
// than the chunks that are left, as long as the oldest of them stays: those behind it keep their
// numbers.
func (w *waiting) shrink() {
	w.drop(w.head)
	if cap(w.queue) > 2*len(w.queue) {
		w.queue = slices.Clone(w.queue)
	}
}

const fullBytes = int64(unsafe.Sizeof(fullChunk{}))

func (w *waiting) sizeBytes() int64 { return int64(cap(w.queue)) * fullBytes }
