package pace

import "context"

// Slots bound how many do something at a time. Nil does not bound. It is safe for concurrent use.
type Slots chan struct{}

// NewSlots returns room for n at a time.
func NewSlots(n int) Slots { return make(Slots, n) }

// Take waits for room, which is taken until Give, or returns the error of a context that ends
// first.
func (s Slots) Take(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give is called once for each Take that returned nil.
func (s Slots) Give() {
	if s != nil {
		<-s
	}
}
