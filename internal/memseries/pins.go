package memseries

import "sync"

// readerPins knows since when the oldest reader looks at series, in epochs: one ends
// whenever slots are given back.
type readerPins struct {
	mu struct {
		sync.Mutex
		epoch   uint64
		readers map[uint64]int // by the epoch in which they pinned
	}
}

// Pin keeps the label pairs of series that are removed from now on, and their text,
// readable until release is called, once. Whoever uses a Series that may be removed
// meanwhile holds one from before finding it.
func (d *Directory) Pin() (release func()) {
	unpin := d.postings.Pin()
	epoch := d.pins.pin()
	return func() {
		d.pins.unpin(epoch)
		unpin()
	}
}

func (p *readerPins) pin() (epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.readers == nil {
		p.mu.readers = map[uint64]int{}
	}
	p.mu.readers[p.mu.epoch]++
	return p.mu.epoch
}

func (p *readerPins) unpin(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.readers[epoch]--; p.mu.readers[epoch] == 0 {
		delete(p.mu.readers, epoch)
	}
}

// endEpoch begins a new epoch. It returns the one that ends and the oldest in which a
// reader pinned that is still there, the new one if there is none.
func (p *readerPins) endEpoch() (ended, oldest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended = p.mu.epoch
	p.mu.epoch++
	oldest = p.mu.epoch
	for epoch := range p.mu.readers {
		oldest = min(oldest, epoch)
	}
	return ended, oldest
}
