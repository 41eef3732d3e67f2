package blockset

import (
	"sync"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// announcer tells a program of new blocks, one after the other and without any lock, in a goroutine
// that is there while there is something to tell. So whoever makes a block never waits for the
// program.
type announcer struct {
	fn      func(blockdir.Meta) // nil: nobody is told
	told    sync.WaitGroup
	mu      sync.Mutex
	waiting []blockdir.Meta // guarded by mu
	running bool            // guarded by mu
}

// add has the program told of a block. It does not wait, and may be called with locks held.
func (a *announcer) add(m blockdir.Meta) {
	if a.fn == nil {
		return
	}
	a.mu.Lock()
	a.waiting = append(a.waiting, m)
	idle := !a.running
	a.running = true
	a.mu.Unlock()
	if idle {
		a.told.Go(a.run)
	}
}

// run tells until nothing is left to tell.
func (a *announcer) run() {
	for {
		a.mu.Lock()
		some := a.waiting
		a.waiting, a.running = nil, len(some) > 0
		a.mu.Unlock()
		if len(some) == 0 {
			return
		}
		for i := range some {
			a.fn(some[i])
		}
	}
}

// Wait returns when the program has been told of every block, and has returned. No block is added
// meanwhile.
func (a *announcer) Wait() { a.told.Wait() }
