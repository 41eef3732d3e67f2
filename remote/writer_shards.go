package remote

import (
	"slices"
	"sync"
	"time"

	"github.com/seed347100a3/tsdb"
)

// shardSet are the shards of a Writer, and the batches that they have. The reader uses it, and
// shards give batches back.
type shardSet struct {
	w       *Writer
	list    []*writerShard
	pace    shardPace
	number  uint64        // of the last batch
	changed chan struct{} // has one when a batch came back
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		first map[*writerBatch]tsdb.TailPosition // of those that are given to shards and not sent
		free  []*writerBatch
	}
}

func newShardSet(w *Writer) *shardSet {
	ss := &shardSet{w: w, changed: make(chan struct{}, 1)}
	ss.mu.first = map[*writerBatch]tsdb.TailPosition{}
	return ss
}

// of returns the shard of a series.
func (ss *shardSet) of(s *shippedSeries) *writerShard {
	return ss.list[s.hash%uint64(len(ss.list))]
}

// newBatch returns an empty batch. All before a position is in earlier ones. doubt is its group.
func (ss *shardSet) newBatch(first tsdb.TailPosition, doubt uint32) *writerBatch {
	ss.mu.Lock()
	var b *writerBatch
	if n := len(ss.mu.free); n > 0 {
		b, ss.mu.free = ss.mu.free[n-1], ss.mu.free[:n-1]
	} else {
		b = &writerBatch{}
	}
	ss.mu.Unlock()
	ss.number++
	b.reset(ss.number)
	b.since, b.first, b.doubt, b.version = ss.w.clock.Now(), first, doubt, ss.w.version()
	return b
}

// batchFor returns the batch that a sample of a series goes into. errAway: its shard takes nothing
// for a while; 0 is any while.
func (ss *shardSet) batchFor(s *shippedSeries, doubt uint32, position tsdb.TailPosition, while time.Duration) (*writerBatch, error) {
	shard := ss.of(s)
	b := shard.batch(doubt)
	if b != nil && b.len() >= ss.w.opts.MaxSamples || b == nil && len(shard.doubts) >= maxDoubts {
		if err := ss.handOver(shard, while); err != nil {
			return nil, err
		}
		b = nil
	}
	if b == nil {
		b = ss.newBatch(position, doubt)
		shard.setBatch(doubt, b)
	}
	return b, nil
}

// maxDoubts is how many groups that are in doubt a shard has batches for.
const maxDoubts = 64

// handOver gives a shard all that was filled for it, what is in doubt first, and waits until it
// takes it. errAway: it does not for a while; 0 is any while.
func (ss *shardSet) handOver(s *writerShard, while time.Duration) error {
	for s.isFilled() {
		doubt, b := s.next()
		ss.mu.Lock()
		ss.mu.first[b] = b.first
		ss.mu.Unlock()
		err := ss.give(s, b, while)
		if err != nil {
			ss.mu.Lock()
			delete(ss.mu.first, b)
			ss.mu.Unlock()
			return err
		}
		s.setBatch(doubt, nil)
	}
	return nil
}

// batch is the one of a group that is filled, nil if there is none.
func (s *writerShard) batch(doubt uint32) *writerBatch {
	if doubt != 0 {
		return s.doubts[doubt]
	}
	return s.filling
}

func (s *writerShard) setBatch(doubt uint32, b *writerBatch) {
	switch {
	case doubt == 0:
		s.filling = b
	case b == nil:
		delete(s.doubts, doubt)
	case s.doubts == nil:
		s.doubts = map[uint32]*writerBatch{doubt: b}
	default:
		s.doubts[doubt] = b
	}
}

// with returns the batch that a series is in, nil if there is none.
func (s *writerShard) with(series *shippedSeries) *writerBatch {
	if b := s.filling; b != nil && b.has(series) {
		return b
	}
	if b := s.doubts[series.doubtGroup]; b != nil && b.has(series) {
		return b
	}
	return nil
}

func (s *writerShard) isFilled() bool { return s.filling != nil || len(s.doubts) > 0 }

// next is the batch that goes next, of those that are filled.
func (s *writerShard) next() (doubt uint32, _ *writerBatch) {
	for doubt, b := range s.doubts {
		return doubt, b
	}
	return 0, s.filling
}

// isDue reports whether what is filled has waited so long.
func (s *writerShard) isDue(now time.Time, deadline time.Duration) bool {
	if s.filling != nil && now.Sub(s.filling.since) >= deadline {
		return true
	}
	for _, b := range s.doubts {
		if now.Sub(b.since) >= deadline {
			return true
		}
	}
	return false
}

// dbCheck is how often it is looked whether the database is closed while a shard takes nothing.
const dbCheck = time.Second

// give gives a shard a batch.
func (ss *shardSet) give(s *writerShard, b *writerBatch, while time.Duration) error {
	select {
	case s.batches <- b:
		return nil
	default:
	}
	since := time.Now()
	defer func() { ss.pace.blocked += time.Since(since) }()
	var over <-chan time.Time
	if while > 0 {
		after, release := ss.w.after(while)
		defer release()
		over = after
	}
	look, release := ss.w.after(dbCheck)
	defer release()
	for {
		select {
		case s.batches <- b:
			return nil
		case <-ss.w.stop:
			return errStopped
		case <-over:
			return errAway
		case <-look:
			if ss.w.isDBClosed() {
				return tsdb.ErrClosed
			}
		}
	}
}

// handOverDue gives shards that are free what has waited long enough, or all.
func (ss *shardSet) handOverDue(now time.Time, all bool) error {
	for _, s := range ss.list {
		if s.isFilled() && len(s.batches) == 0 && (all || s.isDue(now, ss.w.opts.Deadline)) {
			if err := ss.handOver(s, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// back takes a batch back from a shard. One that is not sent keeps its place.
func (ss *shardSet) back(b *writerBatch, sent bool) {
	ss.w.stats.pending.Add(-int64(b.len()))
	ss.mu.Lock()
	if sent {
		delete(ss.mu.first, b)
		ss.mu.free = append(ss.mu.free, b)
	}
	ss.mu.Unlock()
	select {
	case ss.changed <- struct{}{}:
	default:
	}
}

// oldest is the position of the oldest batch that is not sent, or another one if that is before it.
func (ss *shardSet) oldest(at tsdb.TailPosition) tsdb.TailPosition {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, first := range ss.mu.first {
		if first.Seq < at.Seq {
			at = first
		}
	}
	for _, s := range ss.list {
		if b := s.filling; b != nil && b.first.Seq < at.Seq {
			at = b.first
		}
		for _, b := range s.doubts {
			if b.first.Seq < at.Seq {
				at = b.first
			}
		}
	}
	return at
}

// areFilled reports whether there is a batch that no shard has yet.
func (ss *shardSet) areFilled() bool {
	return slices.ContainsFunc(ss.list, (*writerShard).isFilled)
}

// isBusy reports whether there is something that is read and not sent.
func (ss *shardSet) isBusy() bool {
	ss.mu.Lock()
	n := len(ss.mu.first)
	ss.mu.Unlock()
	return n > 0 || ss.areFilled()
}

// drain waits until all that was read is sent.
func (ss *shardSet) drain() error {
	for _, s := range ss.list {
		if err := ss.handOver(s, 0); err != nil {
			return err
		}
	}
	look, release := ss.w.after(dbCheck)
	defer release()
	for ss.isBusy() {
		select {
		case <-ss.changed:
		case <-ss.w.stop:
			return errStopped
		case <-look:
			if ss.w.isDBClosed() {
				return tsdb.ErrClosed
			}
		}
	}
	return nil
}

// adapt changes the number of shards to what it takes to keep up. What is under way is sent first,
// so that no series is in two of them.
func (ss *shardSet) adapt(now time.Time) error {
	n := ss.pace.shards(len(ss.list), ss.w.opts.MaxShards, now)
	if n == len(ss.list) {
		return nil
	}
	if err := ss.drain(); err != nil {
		return err
	}
	ss.resize(n)
	return nil
}

// resize makes there be so many shards. None has anything.
func (ss *shardSet) resize(n int) {
	for len(ss.list) > n {
		last := len(ss.list) - 1
		close(ss.list[last].batches)
		ss.list = ss.list[:last]
	}
	for len(ss.list) < n {
		s := &writerShard{w: ss.w, number: len(ss.list), batches: make(chan *writerBatch, 1)}
		ss.list = append(ss.list, s)
		ss.running.Go(func() { s.run(ss.back) })
	}
	ss.w.stats.shards.Store(int64(n))
}

// end waits for the requests that are under way.
func (ss *shardSet) end() {
	for _, s := range ss.list {
		close(s.batches)
	}
	ss.running.Wait()
}
