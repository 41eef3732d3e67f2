package remote

import (
	"slices"
	"sync"

	"github.com/seed347100a3/tsdb"
)

// writerFlushes are those who wait until what is committed is sent.
type writerFlushes struct {
	mu struct {
		sync.Mutex
		list  []writerFlush
		ended bool
	}
}

// writerFlush is one of them.
type writerFlush struct {
	answer chan error
	aimed  bool   // seq is known
	seq    uint64 // of the last commit that it waits for
}

// add takes in one more.
func (f *writerFlushes) add() (answer chan error) {
	answer = make(chan error, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.ended {
		answer <- tsdb.ErrClosed
		return answer
	}
	f.mu.list = append(f.mu.list, writerFlush{answer: answer})
	return answer
}

// aim says which is the newest commit, for those that came since the last call.
func (f *writerFlushes) aim(newest uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.mu.list {
		if w := &f.mu.list[i]; !w.aimed {
			w.aimed, w.seq = true, newest
		}
	}
}

// wait reports whether somebody waits for no more than what is read.
func (f *writerFlushes) wait(read uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.mu.list, func(w writerFlush) bool { return w.aimed && w.seq <= read })
}

// isAwaited reports whether anybody waits.
func (f *writerFlushes) isAwaited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.list) > 0
}

// answer tells those who wait for no more than what is sent.
func (f *writerFlushes) answer(sent uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.list = slices.DeleteFunc(f.mu.list, func(w writerFlush) bool {
		done := w.aimed && w.seq <= sent
		if done {
			w.answer <- nil
		}
		return done
	})
}

// end tells all that it will not happen any more.
func (f *writerFlushes) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.mu.list {
		w.answer <- tsdb.ErrClosed
	}
	f.mu.list, f.mu.ended = nil, true
}
