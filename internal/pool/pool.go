// Package pool keeps things open by name: each once, however many use it, and no more of them than
// a bound. Who needs another one than those that are open has one closed that nobody uses, the one
// that was given back first. It knows neither what the things are nor what names mean.
package pool

import (
	"context"
	"io"
	"sync"
)

// Config is what a Pool works with.
type Config struct {
	Most int // open at a time, at least 1
	// Open opens a thing. It is called without a lock, and for a name by one goroutine at a time.
	Open func(name string) (io.Closer, error)
	// Stale says of a thing that nobody uses that it is of no use any more, and is to be opened
	// again. It must be quick. Nil: none ever is.
	Stale func(io.Closer) bool
	// Closed is told how the closing of a thing ended that nobody asked for. It must be quick. Nil:
	// nobody is.
	Closed func(name string, err error)
}

// Pool is safe for concurrent use.
type Pool struct {
	cfg Config

	mu struct {
		sync.Mutex
		things map[string]*thing // those that are opened, open, or closed at the moment
		// idle is a ring of those that nobody uses: idle.next was given back first.
		idle     thing
		wanting  int           // calls of Get that wait for room
		evicting int           // things that are being closed for them
		changed  chan struct{} // closed when some of it changed that somebody waits for; nil: nobody does
		closed   bool
		stats    Stats
	}
}

// Stats counts things. Opened and Evicted are since New.
type Stats struct {
	Open    int    // those that are opened or closed at the moment included
	Used    int    // of them
	Opened  uint64 // without those that failed
	Evicted uint64 // closed for others
}

// thing is one of them. Its fields are guarded by Pool.mu, but for those that ready tells of.
type thing struct {
	name       string
	ready      chan struct{} // closed when it is open, or could not be opened
	it         io.Closer     // behind ready; nil: it could not
	err        error         // behind ready
	users      int
	leaving    bool   // nobody may begin to use it: somebody closes it, or waits to
	next, prev *thing // in the ring of those that nobody uses; nil: it is not
}

// New returns a Pool with nothing open.
func New(cfg Config) *Pool {
	p := &Pool{cfg: cfg}
	p.mu.things = map[string]*thing{}
	p.mu.idle.next, p.mu.idle.prev = &p.mu.idle, &p.mu.idle
	return p
}

// Get returns a thing, which it opens if it is not open, and which stays open until release is
// called. Where as many are open as may be, and all of them are used, it waits for one, or for the
// end of ctx. Errors: ErrFull with that of ctx, that of ctx alone if it was not room that it waited
// for, ErrClosed, and those of Config.Open.
func (p *Pool) Get(ctx context.Context, name string) (it io.Closer, release func(), err error) {
	wants := false // room
	defer func() { p.stopWanting(wants) }()
	for {
		t, wait, err := p.take(name, &wants)
		switch {
		case err != nil:
			return nil, nil, err
		case t != nil:
			return p.use(ctx, t)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			if wants {
				return nil, nil, full(ctx)
			}
			return nil, nil, context.Cause(ctx)
		}
	}
}

// take returns the thing of a name, counted as used, or what to wait for until it is tried again.
func (p *Pool) take(name string, wants *bool) (t *thing, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, nil, ErrClosed
	}
	t = p.mu.things[name]
	switch {
	case t == nil && len(p.mu.things) < p.cfg.Most:
		t = &thing{name: name, ready: make(chan struct{}), users: 1}
		p.mu.things[name] = t
		go p.open(t)
		return t, nil, nil
	case t == nil:
		if !*wants {
			*wants = true
			p.mu.wanting++
		}
		if p.mu.evicting < p.mu.wanting && p.mu.idle.next != &p.mu.idle {
			p.mu.stats.Evicted++
			p.evictLocked(p.mu.idle.next)
		}
	case t.next != nil && p.cfg.Stale != nil && p.cfg.Stale(t.it):
		p.evictLocked(t)
	case !t.leaving:
		t.users++
		t.unlink()
		return t, nil, nil
	}
	return nil, p.changeLocked(), nil
}

// stopWanting ends a call of Get that has waited for room.
func (p *Pool) stopWanting(wants bool) {
	if wants {
		p.mu.Lock()
		p.mu.wanting--
		p.mu.Unlock()
	}
}

// use waits until a thing is open.
func (p *Pool) use(ctx context.Context, t *thing) (io.Closer, func(), error) {
	select {
	case <-t.ready:
	case <-ctx.Done():
		p.give(t)
		return nil, nil, context.Cause(ctx)
	}
	if t.it == nil {
		p.give(t)
		return nil, nil, t.err
	}
	return t.it, sync.OnceFunc(func() { p.give(t) }), nil
}

// open opens a thing. It has a goroutine of its own: whoever wanted it may wait for it no longer.
func (p *Pool) open(t *thing) {
	it, err := p.cfg.Open(t.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(t.ready)
	if err != nil {
		t.err, t.leaving = err, true
		p.removeLocked(t)
		return
	}
	t.it = it
	p.mu.stats.Opened++
	p.restLocked(t)
	p.tellLocked() // who waits to close it, too
}

// give ends what take began.
func (p *Pool) give(t *thing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.users--
	p.restLocked(t)
}

// restLocked puts a thing that nobody uses any more behind the others of them.
func (p *Pool) restLocked(t *thing) {
	if t.users > 0 || t.it == nil {
		return
	}
	if !t.leaving {
		t.prev, t.next = p.mu.idle.prev, &p.mu.idle
		t.prev.next, t.next.prev = t, t
	}
	p.tellLocked()
}

// unlink takes a thing out of those that nobody uses.
func (t *thing) unlink() {
	if t.next != nil {
		t.prev.next, t.next.prev = t.next, t.prev
		t.prev, t.next = nil, nil
	}
}

// evictLocked closes a thing that nobody uses, and does not wait for it.
func (p *Pool) evictLocked(t *thing) {
	t.unlink()
	t.leaving = true
	p.mu.evicting++
	go func() {
		p.mu.Lock()
		err := p.closeLocked(t)
		p.mu.evicting--
		p.mu.Unlock()
		if p.cfg.Closed != nil {
			p.cfg.Closed(t.name, err)
		}
	}()
}

// closeLocked closes a thing that is leaving, without the lock, and forgets it.
func (p *Pool) closeLocked(t *thing) error {
	p.mu.Unlock()
	err := t.it.Close()
	p.mu.Lock()
	p.removeLocked(t)
	return err
}

// removeLocked forgets a thing that is closed, or could not be opened.
func (p *Pool) removeLocked(t *thing) {
	delete(p.mu.things, t.name)
	p.tellLocked()
}

// changeLocked returns what is closed at the next change.
func (p *Pool) changeLocked() <-chan struct{} {
	if p.mu.changed == nil {
		p.mu.changed = make(chan struct{})
	}
	return p.mu.changed
}

func (p *Pool) tellLocked() {
	if p.mu.changed != nil {
		close(p.mu.changed)
		p.mu.changed = nil
	}
}

// Drop closes a thing, if it is open, when nobody uses it any more, and returns how that went.
// Whoever gets it meanwhile waits and has it opened again. Behind the end of ctx, the error of
// which it returns, it stays open.
func (p *Pool) Drop(ctx context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var own *thing // that this call keeps others from using
	for {
		t := p.mu.things[name]
		switch {
		case t == nil || p.mu.closed && t != own:
			return nil
		case t.it == nil || t.leaving && t != own: // it is being opened, or closed
		case t.users == 0 || p.mu.closed:
			t.unlink()
			t.leaving = true
			return p.closeLocked(t)
		default:
			own, t.leaving = t, true
		}
		wait := p.changeLocked()
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() == nil || p.mu.closed {
			continue
		}
		if own != nil {
			own.leaving = false
			p.restLocked(own)
			p.tellLocked()
		}
		return context.Cause(ctx)
	}
}

// Stats returns the numbers of now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.mu.stats
	s.Open = len(p.mu.things)
	for _, t := range p.mu.things {
		if t.users > 0 {
			s.Used++
		}
	}
	return s
}

// closers is how many things Close closes at a time: each waits for a disk.
const closers = 64

// Close closes all things, used or not, many at a time, and returns how that went. From its begin
// on Get gives ErrClosed. A second Close does nothing.
func (p *Pool) Close() []error {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return nil
	}
	p.mu.closed = true
	var all []*thing
	for _, t := range p.mu.things {
		all = append(all, t)
	}
	p.tellLocked()
	p.mu.Unlock()
	var wg sync.WaitGroup
	turns := make(chan struct{}, closers)
	errs := make([]error, len(all))
	for i, t := range all {
		turns <- struct{}{}
		wg.Go(func() {
			errs[i] = p.end(t)
			<-turns
		})
	}
	wg.Wait()
	return errs
}

// end closes a thing for good, or waits for who does.
func (p *Pool) end(t *thing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mu.things[t.name] == t {
		if t.it != nil && !t.leaving {
			t.unlink()
			t.leaving = true
			return p.closeLocked(t)
		}
		wait := p.changeLocked()
		p.mu.Unlock()
		<-wait
		p.mu.Lock()
	}
	return nil
}
