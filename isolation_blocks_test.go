package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// Readers and writers beside flushes, merges and deletes. Bug 42 is a commit that comes
// between the write of a block and the truncation of the head, and is lost; bug 45 deleted
// intervals that change under a reader; bug 40 series that go while somebody appends to
// them.

// movingStep is the time between two commits of a writer: a block range has twenty.
const movingStep = 3000

// meeting is where goroutines wait for each other.
type meeting struct {
	sync.Mutex
	all              sync.Cond
	members, present int
	round            int
}

func newMeeting(members int) *meeting {
	m := &meeting{members: members}
	m.all.L = m
	return m
}

// meet returns when all members have come.
func (m *meeting) meet() {
	m.Lock()
	defer m.Unlock()
	m.present++
	round := m.round
	m.beginLocked()
	for round == m.round {
		m.all.Wait()
	}
}

// leave makes the others wait no more for one of them.
func (m *meeting) leave() {
	m.Lock()
	defer m.Unlock()
	m.members--
	m.beginLocked()
}

func (m *meeting) beginLocked() {
	if m.present >= m.members {
		m.present = 0
		m.round++
		m.all.Broadcast()
	}
}

// pulse lets those who work beside writers do something for each step of these, and no more:
// how much is done altogether does not depend on how fast the machine is, nor on what else it
// does.
type pulse struct {
	sync.Mutex
	more  sync.Cond
	beats int64
	over  bool
}

func newPulse() *pulse {
	p := &pulse{}
	p.more.L = p
	return p
}

// beat is a step; the last one is over.
func (p *pulse) beat(over bool) {
	p.Lock()
	defer p.Unlock()
	p.beats++
	p.over = p.over || over
	p.more.Broadcast()
}

// next waits for a step behind the one seen last, and returns it; ok is false when there is
// none any more.
func (p *pulse) next(seen int64) (beat int64, ok bool) {
	p.Lock()
	defer p.Unlock()
	for p.beats == seen && !p.over {
		p.more.Wait()
	}
	return p.beats, !p.over
}

// movers are what the writers, readers and others share.
type movers struct {
	*fixture
	commits *pulse                   // of all writers
	acked   [isoWriters]atomic.Int64 // newest commit that was acknowledged
	begun   [isoWriters]atomic.Int64 // newest delete of this writer's series that was begun, by its last commit
	deleted [isoWriters]atomic.Int64 // and ended
}

func movingLabels(w, i int) labels.Labels {
	return labels.FromStrings("__name__", "moving", "w", strconv.Itoa(w), "i", strconv.Itoa(i))
}

// write commits batches: one sample in each series of the writer. At the end of each so
// many it waits for the others, so that all are in the same block range.
func (m *movers) write(w, windows, each int, others *meeting) error {
	for n := 1; n <= windows*each; n++ {
		if n%each == 0 {
			others.meet()
		}
		if n%each == 0 && w == 0 { // the others go on meanwhile
			if err := m.db.Compact(ctx); err != nil {
				others.leave()
				return err
			}
		}
		ts := int64(n) * movingStep
		app := m.db.Appender()
		var err error
		for i := 0; i < isoSeries && err == nil; i++ {
			_, err = app.Append(0, movingLabels(w, i), ts, float64(n))
		}
		var res tsdb.CommitResult
		if err == nil {
			res, err = app.Commit(ctx)
		} else {
			err = errors.Join(err, app.Rollback())
		}
		if err != nil || res.Samples != isoSeries {
			others.leave()
			return fmt.Errorf("writer %d, commit %d: %w, %d samples, %v", w, n, err, res.Samples, res.Rejected)
		}
		m.acked[w].Store(int64(n))
		m.commits.beat(false)
	}
	return nil
}

// erase deletes the first commits of a writer, up to one that is a while ago.
func (m *movers) erase(rng *rand.Rand) error {
	w := rng.IntN(isoWriters)
	upTo := m.acked[w].Load() - 40 - rng.Int64N(200)
	if upTo <= m.deleted[w].Load() {
		return nil
	}
	m.begun[w].Store(upTo)
	err := m.db.Delete(ctx, math.MinInt64, upTo*movingStep, labels.Equal("w", strconv.Itoa(w)))
	m.deleted[w].Store(upTo)
	return err
}

// extent is the first and the newest commit of each writer that a snapshot has.
type extent [isoWriters][2]int64

// read reads a snapshot, and checks that all series of a writer have the same commits,
// without a hole.
func (m *movers) read(q *tsdb.Querier) (s extent, err error) {
	var series [isoWriters]int
	batch := chunkenc.NewBatch(256)
	var it chunkenc.Iterator
	for one, err := range q.Select(ctx, nil, labels.Equal("__name__", "moving")).All() {
		if err != nil {
			return s, err
		}
		w, err := strconv.Atoi(one.Labels().Get("w"))
		if err != nil {
			return s, err
		}
		first, last := int64(0), int64(0)
		for it = one.Iterator(it); it.NextBatch(batch) != chunkenc.ValNone; {
			for k, t := range batch.T {
				n := t / movingStep
				if first == 0 {
					first, last = n, n-1
				}
				if n != last+1 || t%movingStep != 0 || batch.V[k] != float64(n) {
					return s, fmt.Errorf("%v has %v at %d behind commit %d", one.Labels(), batch.V[k], t, last)
				}
				last = n
			}
		}
		if it.Err() != nil {
			return s, it.Err()
		}
		if first == 0 {
			continue // all that this snapshot could have of it is deleted
		}
		if series[w]++; series[w] > 1 && s[w] != [2]int64{first, last} {
			return s, fmt.Errorf("torn: %v has commits %d to %d, others %v", one.Labels(), first, last, s[w])
		}
		s[w] = [2]int64{first, last}
	}
	for w, n := range series {
		if n != 0 && n != isoSeries {
			return s, fmt.Errorf("torn: writer %d has %d of %d series", w, n, isoSeries)
		}
	}
	return s, nil
}

// watch reads snapshots: each has what was acknowledged before it was opened, and not what
// was deleted; and it stands while it is open.
func (m *movers) watch(rng *rand.Rand) error {
	type held struct {
		q *tsdb.Querier
		s extent
	}
	var open []held
	look := func(h held) error {
		again, err := m.read(h.q)
		if err == nil && again != h.s {
			err = fmt.Errorf("a snapshot moved: %v, then %v", h.s, again)
		}
		return err
	}
	for seen, ok := m.commits.next(0); ok; seen, ok = m.commits.next(seen) {
		var acked, deleted extent
		for w := range isoWriters {
			acked[w][1], deleted[w][0] = m.acked[w].Load(), m.deleted[w].Load()
		}
		q, err := m.db.Querier(math.MinInt64, math.MaxInt64)
		if err != nil {
			return err
		}
		s, err := m.read(q)
		for w := range isoWriters {
			lost := s[w][1] < acked[w][1] && acked[w][1] > m.begun[w].Load()
			back := s[w][0] > 0 && s[w][0] <= deleted[w][0]
			hole := s[w][0] > m.begun[w].Load()+1
			if err == nil && (lost || back || hole) {
				err = fmt.Errorf("writer %d: commits %v, acknowledged %d, deleted %d", w, s[w], acked[w][1], deleted[w][0])
			}
		}
		open = append(open, held{q, s})
		if k := rng.IntN(len(open)); err == nil && len(open) > rng.IntN(6) {
			err = errors.Join(look(open[k]), open[k].q.Close())
			open = slices.Delete(open, k, k+1)
		}
		if err != nil {
			return err
		}
	}
	for _, h := range open {
		if err := errors.Join(look(h), h.q.Close()); err != nil {
			return err
		}
	}
	return nil
}

func TestIsolation_Bug42_FlushMergeAndDeleteTakeNothingFromReadersAndWriters(t *testing.T) {
	t.Parallel()
	watchdog(t)
	m := &movers{commits: newPulse(), fixture: newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range, o.Blocks.MaxRange = time.Minute, 9*time.Minute
		o.Head.SamplesPerChunk = 16
		o.Limits.MaxFuture = -1
		o.WAL.SegmentSize = 256 << 10
	})}
	windows, each := 120, 8 // half a block range is always taken
	if !sweep.Whole() {
		windows = 25
	}
	errs := make(chan error, 64)
	var others sync.WaitGroup
	for seed := range uint64(2) {
		others.Go(func() { errs <- m.watch(rand.New(rand.NewPCG(seed, 3))) })
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for name, do := range map[string]func() error{
		"compact": func() error { return m.db.Compact(ctx) },
		"clean":   func() error { return m.db.CleanTombstones(ctx) },
		"delete":  func() error { return m.erase(rng) },
		"chunks":  func() error { return tsdb.WriteHeadChunks(m.db) },
	} {
		others.Go(func() {
			for seen, ok := m.commits.next(0); ok; seen, ok = m.commits.next(seen) {
				if err := do(); err != nil && !errors.Is(err, context.Canceled) {
					errs <- fmt.Errorf("%s: %w", name, err)
					return
				}
			}
		})
	}
	meeting := newMeeting(isoWriters)
	var writers sync.WaitGroup
	for w := range isoWriters {
		writers.Go(func() { errs <- m.write(w, windows, each, meeting) })
	}
	writers.Wait()
	m.commits.beat(true)
	others.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NotEmpty(t, m.db.Blocks())
	deleted := int64(0)
	for w := range isoWriters {
		deleted += m.deleted[w].Load()
	}
	require.Positive(t, deleted)
	for range 3 {
		q, err := m.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		s, err := m.read(q)
		require.NoError(t, errors.Join(err, q.Close()))
		for w := range isoWriters {
			require.Equal(t, [2]int64{m.deleted[w].Load() + 1, int64(windows * each)}, s[w])
		}
		require.NoError(t, m.db.Flush(ctx))
		m.reopen()
	}
}
