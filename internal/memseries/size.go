package memseries

import "unsafe"

const (
	fullBytes = int64(unsafe.Sizeof(fullChunk{}))
	markBytes = 96  // a map entry and a list of few marks
	farBytes  = 128 // a sync.Map entry beside its series
)

// SizeBytes returns the memory that the directory holds: series, labels, symbols,
// postings, chunk buffers, all as allocated, free space in them included.
func (d *Directory) SizeBytes() int64 {
	n := d.numPages.Load()*int64(unsafe.Sizeof(page{})) + d.numFar.Load()*(seriesBytes+farBytes)
	n += int64(len(*d.pages.Load())) * 8
	n += int64(unsafe.Sizeof(*d)) + d.collectedBytes.Load()
	n += d.postings.SizeBytes() + d.chunkBytes.sizeBytes()
	for i := range d.tables {
		n += d.tables[i].sizeBytes()
	}
	d.create.Lock()
	n += d.arena.sizeBytes()
	d.create.Unlock()
	for i := range d.shards {
		n += d.shards[i].sizeBytes()
	}
	return n
}

func (sh *Shard) sizeBytes() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.mu.mappedBytes + sh.mu.waiting.sizeBytes() + sh.mu.wide.sizeBytes() + int64(len(sh.mu.marks))*markBytes
}

// Chunks returns how many chunks all series have, open ones included, and how many were begun since
// recovery.
func (d *Directory) Chunks() (n int, begun uint64) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		n += int(sh.mu.chunks)
		begun += sh.mu.begun
		sh.mu.Unlock()
	}
	return n, begun
}
