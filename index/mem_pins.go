package index

import "sync"

// pins are the readers that may know pairs which are dropped meanwhile.
type pins struct {
	mu struct {
		sync.Mutex
		readers map[uint64]int // by the epoch in which they pinned
		epoch   uint64         // grows with each Remove
	}
}

// take pins, and returns what release is given.
func (p *pins) take() (epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.readers[p.mu.epoch]++
	return p.mu.epoch
}

func (p *pins) release(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.readers[epoch]--; p.mu.readers[epoch] == 0 {
		delete(p.mu.readers, epoch)
	}
}

// endEpoch begins a new epoch. It returns the one that ends and the oldest in which a
// reader pinned that is still there.
func (p *pins) endEpoch() (ended, oldest uint64) {
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
