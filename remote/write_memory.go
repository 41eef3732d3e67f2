package remote

import (
	"sync/atomic"

	"github.com/pkg/errors"
)

// Requests that take little are not in the way of others, nor others in theirs: of the memory of
// all, large ones leave a part to them.
const (
	lightMemory = 64 // a request is a light one up to this part of the memory: 8 MiB by default
	keptMemory  = 8  // this part of it is kept for them
)

// requestMemory is memory that the requests under way share. It is taken before it is allocated,
// and nobody waits for it: what others hold may take long, and who waits holds something, too.
type requestMemory struct {
	most  int64        // bytes; 0 or less: any number
	taken atomic.Int64 // bytes
}

// take takes n more bytes for a request that has some. errBusy: there is no room just now.
// errMemory: there never is as much for one request.
func (m *requestMemory) take(has, n int64) error {
	all := m.taken.Add(n)
	if m.most <= 0 {
		return nil
	}
	limit := m.most
	if has+n > m.most/lightMemory {
		limit -= m.most / keptMemory
	}
	switch {
	case all <= limit:
		return nil
	case has+n > limit:
		m.taken.Add(-n)
		return errors.WithMessagef(errMemory, "%d bytes or more, one may have %d: send less at a time", has+n, limit)
	default:
		m.taken.Add(-n)
		return errBusy
	}
}

// memoryShare is what one request has of the memory.
type memoryShare struct {
	of  *requestMemory
	has int64 // bytes
}

func (s *memoryShare) take(n int64) error {
	err := s.of.take(s.has, n)
	if err == nil {
		s.has += n
	}
	return err
}

func (s *memoryShare) give(n int64) {
	s.of.taken.Add(-n)
	s.has -= n
}

func (s *memoryShare) end() { s.give(s.has) }

// memoryTaker is what bytes are taken from: a share of the memory, or of several.
type memoryTaker interface {
	take(n int64) error
	give(n int64)
}

// countedBytes are bytes whose memory is taken before it is allocated. What a pool had of it before
// need not be counted.
type countedBytes struct {
	bytes   []byte
	counted int64 // of its memory
}

// grow makes room for n more bytes, by doubling, but for no more than most unless they are. While
// they are copied there are both.
func (b *countedBytes) grow(from memoryTaker, n, most int) error {
	if cap(b.bytes)-len(b.bytes) >= n {
		return nil
	}
	size := max(len(b.bytes)+n, min(2*cap(b.bytes), most))
	if err := from.take(int64(size)); err != nil {
		return err
	}
	b.bytes = append(make([]byte, 0, size), b.bytes...)
	from.give(b.counted)
	b.counted = int64(size)
	return nil
}

// reset makes it empty, and gives back what was taken. More than so many bytes are not kept.
func (b *countedBytes) reset(from memoryTaker, kept int) {
	from.give(b.counted)
	b.bytes, b.counted = b.bytes[:0], 0
	if cap(b.bytes) > kept {
		b.bytes = nil
	}
}

// keptBytes is the most memory that a request keeps for another one.
const keptBytes = 8 << 20
