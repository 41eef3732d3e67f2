package remote

import "context"

// lightContent is the longest content of a light request, whose samples are stored within some
// milliseconds. Senders send a tenth of it at a time.
const lightContent = 1 << 20

// slots are places for the requests that are stored. A fourth of them is kept for light ones: those
// are over at once, whatever heavy ones take.
type slots struct {
	all   chan struct{} // nil: any number
	heavy chan struct{} // of all: a heavy request takes a place here first
}

func newSlots(n int) (s slots) {
	if n > 0 {
		s.all = make(chan struct{}, n)
		s.heavy = make(chan struct{}, max(1, n-max(1, n/4)))
	}
	return s
}

// try reports whether there is a place, which is taken then.
func (s *slots) try(heavy bool) bool {
	if s.all == nil {
		return true
	}
	if heavy && !isFree(s.heavy) {
		return false
	}
	free := isFree(s.all)
	if heavy && !free {
		<-s.heavy
	}
	return free
}

func isFree(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// wait waits for a place. The error is the cause of the context's end.
func (s *slots) wait(ctx context.Context, heavy bool) error {
	if heavy {
		if err := occupy(ctx, s.heavy); err != nil {
			return err
		}
	}
	err := occupy(ctx, s.all)
	if heavy && err != nil {
		<-s.heavy
	}
	return err
}

func occupy(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *slots) leave(heavy bool) {
	if s.all == nil {
		return
	}
	<-s.all
	if heavy {
		<-s.heavy
	}
}

// turn is a place that a request has.
type turn struct {
	in    *intake
	heavy bool
	has   bool
}

// enter waits until a request may be stored.
func (in *intake) enter(ctx context.Context, heavy bool) (t turn, err error) {
	t = turn{in: in, heavy: heavy}
	err = t.wait(ctx)
	return t, err
}

func (t *turn) wait(ctx context.Context) error {
	if t.has = t.in.slots.try(t.heavy); t.has {
		return nil
	}
	if t.in.opts.ReadTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.in.opts.ReadTimeout, errBusy)
		defer cancel()
	}
	err := t.in.slots.wait(ctx, t.heavy)
	t.has = err == nil
	return err
}

// becomeHeavy gives a request that turns out to be heavy another place.
func (t *turn) becomeHeavy(ctx context.Context) error {
	if t.heavy {
		return nil
	}
	t.leave()
	t.heavy = true
	return t.wait(ctx)
}

func (t *turn) leave() {
	if t.has {
		t.in.slots.leave(t.heavy)
	}
	t.has = false
}
