package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errOpen = errors.New("cannot be opened")

// shelf counts what a Pool opens and closes.
type shelf struct {
	*testing.T
	mu           sync.Mutex
	open         map[string]*item
	most         int
	bad          map[string]bool
	opened       []string
	wait, closes chan struct{} // if not nil, opening and closing waits for it
}

type item struct {
	s      *shelf
	name   string
	closed atomic.Bool
	stale  atomic.Bool
}

func newShelf(t *testing.T) *shelf {
	return &shelf{T: t, open: map[string]*item{}, bad: map[string]bool{}}
}

func (s *shelf) pool(most int) *Pool {
	return New(Config{Most: most, Open: s.Open, Stale: func(c io.Closer) bool { return c.(*item).stale.Load() }})
}

func (s *shelf) Open(name string) (io.Closer, error) {
	if s.wait != nil {
		<-s.wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, name)
	if s.bad[name] {
		return nil, errOpen
	}
	if s.open[name] != nil {
		s.Errorf("%s is open twice", name)
	}
	it := &item{s: s, name: name}
	s.open[name] = it
	s.most = max(s.most, len(s.open))
	return it, nil
}

func (i *item) Close() error {
	if i.s.closes != nil {
		<-i.s.closes
	}
	if i.closed.Swap(true) {
		i.s.Errorf("%s is closed twice", i.name)
	}
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	delete(i.s.open, i.name)
	return nil
}

// names returns what is open.
func (s *shelf) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.open {
		names = append(names, name)
	}
	return names
}

func get(t *testing.T, p *Pool, name string) (*item, func()) {
	t.Helper()
	it, release, err := p.Get(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, name, it.(*item).name)
	return it.(*item), release
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func closed(t *testing.T, p *Pool) {
	t.Helper()
	require.NoError(t, errors.Join(p.Close()...))
}

func TestGet_OpensOnceHoweverManyUseIt(t *testing.T) {
	s := newShelf(t)
	s.wait = make(chan struct{})
	p := s.pool(2)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			it, release, err := p.Get(t.Context(), "a")
			if err != nil || it.(*item).closed.Load() {
				t.Error(err)
			}
			release()
		})
	}
	close(s.wait)
	wg.Wait()
	require.Equal(t, []string{"a"}, s.opened)
	require.Equal(t, Stats{Open: 1, Opened: 1}, p.Stats())
	closed(t, p)
	require.Empty(t, s.names())
	_, _, err := p.Get(t.Context(), "a")
	require.ErrorIs(t, err, ErrClosed)
	closed(t, p)
}

func TestGet_BeyondTheBound_ClosesWhatWasGivenBackFirst(t *testing.T) {
	s := newShelf(t)
	p := s.pool(3)
	_, releaseA := get(t, p, "a")
	_, releaseB := get(t, p, "b")
	_, releaseC := get(t, p, "c")
	releaseB()
	releaseB() // once more does nothing
	releaseA()
	_, again := get(t, p, "b") // a was given back before it now
	again()
	_, releaseD := get(t, p, "d")
	require.ElementsMatch(t, []string{"b", "c", "d"}, s.names())
	_, releaseE := get(t, p, "e")
	require.ElementsMatch(t, []string{"c", "d", "e"}, s.names(), "c is in use all the time")
	require.EqualValues(t, 2, p.Stats().Evicted)
	require.Equal(t, 3, p.Stats().Used)
	releaseC()
	releaseD()
	releaseE()
	closed(t, p)
	require.Equal(t, 3, s.most)
}

func TestGet_WhileAllAreUsed_WaitsForOneOrTheContext(t *testing.T) {
	s := newShelf(t)
	p := s.pool(1)
	_, release := get(t, p, "a")
	_, _, err := p.Get(ended(), "b")
	require.ErrorIs(t, err, ErrFull)
	require.ErrorIs(t, err, context.Canceled)
	got := make(chan func())
	go func() {
		_, releaseB, err := p.Get(t.Context(), "b")
		if err != nil {
			t.Error(err)
		}
		got <- releaseB
	}()
	waitFor(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.mu.wanting > 0 })
	release()
	(<-got)()
	require.Equal(t, []string{"b"}, s.names())
	closed(t, p)
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 20*time.Second, 100*time.Microsecond)
}

func TestGet_WhatCannotBeOpened_IsTriedAgainAndTakesNoRoom(t *testing.T) {
	s := newShelf(t)
	s.bad["a"] = true
	p := s.pool(1)
	for range 3 {
		_, _, err := p.Get(t.Context(), "a")
		require.ErrorIs(t, err, errOpen)
		require.Zero(t, p.Stats().Open)
	}
	_, release := get(t, p, "b")
	release()
	s.bad["a"] = false
	_, release = get(t, p, "a")
	release()
	closed(t, p)
}

// Whoever waits for an opening may give up; what is open then is there for the next.
func TestGet_ContextThatEndsWhileItIsOpened(t *testing.T) {
	s := newShelf(t)
	s.wait = make(chan struct{})
	p := s.pool(1)
	_, _, err := p.Get(ended(), "a")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrFull, "there was room")
	close(s.wait)
	_, release := get(t, p, "b")
	release()
	require.Equal(t, []string{"b"}, s.names())
	closed(t, p)
}

func TestGet_WhatIsStale_IsOpenedAgainWhenNobodyUsesIt(t *testing.T) {
	s := newShelf(t)
	p := s.pool(2)
	it, release := get(t, p, "a")
	it.stale.Store(true)
	same, releaseSame := get(t, p, "a")
	require.Same(t, it, same)
	release()
	releaseSame()
	other, release := get(t, p, "a")
	require.NotSame(t, it, other)
	require.Zero(t, p.Stats().Evicted)
	release()
	closed(t, p)
}

func TestDrop_WaitsForThoseWhoUseIt(t *testing.T) {
	s := newShelf(t)
	p := s.pool(2)
	require.NoError(t, p.Drop(t.Context(), "a"), "it is not open")
	it, release := get(t, p, "a")
	require.ErrorIs(t, p.Drop(ended(), "a"), context.Canceled)
	same, releaseSame := get(t, p, "a")
	require.Same(t, it, same, "it stays")
	releaseSame()
	done := make(chan error)
	go func() { done <- p.Drop(t.Context(), "a") }()
	waitFor(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return it == p.mu.things["a"].it && p.mu.things["a"].leaving
	})
	_, _, err := p.Get(ended(), "a")
	require.ErrorIs(t, err, context.Canceled, "nobody begins to use it")
	release()
	require.NoError(t, <-done)
	require.True(t, it.closed.Load())
	_, release = get(t, p, "a")
	release()
	require.NoError(t, p.Drop(t.Context(), "a"))
	require.Empty(t, s.names())
	closed(t, p)
}

// What is used is closed as well: who uses it finds out.
func TestClose_EndsWhatIsUsedAndThoseWhoWait(t *testing.T) {
	s := newShelf(t)
	p := s.pool(2)
	_, release := get(t, p, "a")
	_, _ = get(t, p, "b")
	waiting := make(chan error)
	go func() {
		_, _, err := p.Get(t.Context(), "c")
		waiting <- err
	}()
	dropped := make(chan error)
	go func() { dropped <- p.Drop(t.Context(), "b") }()
	waitFor(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mu.wanting > 0 && p.mu.things["b"].leaving
	})
	closed(t, p)
	require.ErrorIs(t, <-waiting, ErrClosed)
	require.NoError(t, <-dropped)
	release()
	require.Empty(t, s.names())
}

// What is being opened when the Pool is closed is closed behind that, whether its user gives it
// back or not; so is what is to be dropped.
func TestClose_WhileSomethingIsOpened(t *testing.T) {
	for _, drop := range []bool{false, true} {
		s := newShelf(t)
		s.wait = make(chan struct{})
		p := s.pool(2)
		used := make(chan func())
		go func() {
			_, release := get(t, p, "a")
			used <- release
		}()
		waitFor(t, func() bool { return p.Stats().Open == 1 })
		ends := make(chan error)
		go func() {
			if drop {
				ends <- p.Drop(t.Context(), "a")
			} else {
				ends <- errors.Join(p.Close()...)
			}
		}()
		waitFor(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.mu.changed != nil // it waits
		})
		close(s.wait)
		release := <-used
		if drop { // that waits for who uses it, and for nobody who comes behind
			waitFor(t, func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.mu.things["a"].leaving
			})
			release()
		}
		require.NoError(t, <-ends)
		require.Empty(t, s.names())
		release()
		closed(t, p)
	}
}

// Whatever many do at once, no more are open than may be, each once, and nothing that is used is
// closed.
func TestPool_ManyAtOnce(t *testing.T) {
	s := newShelf(t)
	p := s.pool(5)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 400 {
				name := fmt.Sprint(rng.IntN(12))
				if rng.IntN(20) == 0 {
					if err := p.Drop(t.Context(), name); err != nil {
						t.Error(err)
					}
					continue
				}
				it, release, err := p.Get(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(50) == 0 {
					it.(*item).stale.Store(true)
				}
				if it.(*item).closed.Load() || it.(*item).name != name {
					t.Errorf("%s is closed", name)
				}
				release()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 5, s.most)
	st := p.Stats()
	require.Zero(t, st.Used)
	require.Len(t, s.names(), st.Open)
	closed(t, p)
	require.Empty(t, s.names())
}
