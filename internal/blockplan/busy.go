package blockplan

import (
	"context"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
)

// Busy is the blocks that go into merges that are under way, or are being removed.
type Busy struct {
	mu struct {
		sync.Mutex
		ids   []ulid.ULID
		given chan struct{} // closed by the next Give; nil: nobody waits
	}
}

// Take marks blocks as busy; false if one of them is.
func (b *Busy) Take(ids []ulid.ULID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.anyLocked(ids) {
		return false
	}
	b.mu.ids = append(b.mu.ids, ids...)
	return true
}

// TakeEach marks those of the blocks as busy that are not, and returns both kinds.
func (b *Busy) TakeEach(ids []ulid.ULID) (taken, busy []ulid.ULID) {
	for i := range ids {
		if b.Take(ids[i : i+1]) {
			taken = append(taken, ids[i])
		} else {
			busy = append(busy, ids[i])
		}
	}
	return taken, busy
}

// Give marks them as busy no more.
func (b *Busy) Give(ids []ulid.ULID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.ids = slices.DeleteFunc(b.mu.ids, func(id ulid.ULID) bool { return slices.Contains(ids, id) })
	if b.mu.given != nil {
		close(b.mu.given)
		b.mu.given = nil
	}
}

// Has reports whether a block is busy.
func (b *Busy) Has(id ulid.ULID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.mu.ids, id)
}

// All returns those that are busy.
func (b *Busy) All() []ulid.ULID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.ids)
}

func (b *Busy) anyLocked(ids []ulid.ULID) bool {
	return slices.ContainsFunc(ids, func(id ulid.ULID) bool { return slices.Contains(b.mu.ids, id) })
}

// Wait returns when none of these blocks is busy, or with the error of the context.
func (b *Busy) Wait(ctx context.Context, ids []ulid.ULID) error {
	for {
		b.mu.Lock()
		if !b.anyLocked(ids) {
			b.mu.Unlock()
			return ctx.Err()
		}
		if b.mu.given == nil {
			b.mu.given = make(chan struct{})
		}
		given := b.mu.given
		b.mu.Unlock()
		select {
		case <-given:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
