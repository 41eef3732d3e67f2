package tsdb_test

import (
	"bytes"
	"cmp"
	stderrors "errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// Commits of several goroutines at once: their order is known only when the log is read.

const (
	crowdWriters = 3
	crowdCommits = 3 // of each writer
)

// crowd is what is known while several goroutines commit, and after.
type crowd struct {
	before  int // commits that were there
	commits [][]row
	rank    []int // of each commit, in the order of the log; known when all are done

	mu    sync.Mutex
	acked []int // indexes of commits
}

func (w *crowd) ack(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, i)
}

// moment is the present as a crash would find it.
func (c *crasher) moment(op string) crashPoint {
	p := crashPoint{disk: c.disk.KillClone(), promise: c.promise(), op: op, crowd: c.together}
	if w := c.together; w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		p.acked = slices.Clone(w.acked)
	}
	return p
}

// settle completes the promise of a moment within a crowd, when the order is known. Under
// SyncCommit whatever stands before an acknowledged commit must be there.
func (p *crashPoint) settle(setup crashSetup) {
	w := p.crowd
	if w == nil {
		return
	}
	p.promise.hi = w.before + len(w.commits)
	p.promise.begun = p.promise.hi
	if setup.sync == "commit" {
		for _, i := range p.acked {
			p.promise.lo = max(p.promise.lo, w.before+w.rank[i]+1)
		}
	}
}

// crowd commits from several goroutines.
func (c *crasher) crowd() error {
	w := &crowd{before: c.history.len()}
	for i := range crowdWriters * crowdCommits {
		name := fmt.Sprintf("crowd-%d", i%crowdWriters)
		rows := []row{c.row(name), c.mixed("mixed-" + name)}
		if i%4 == 0 {
			c.serial++
			rows = append(rows, c.row(fmt.Sprintf("crowd-new-%d", c.serial)))
		}
		w.commits = append(w.commits, rows)
	}
	c.together = w
	errs := make([]error, crowdWriters)
	var wg sync.WaitGroup
	for writer := range crowdWriters {
		wg.Go(func() {
			for i := writer; i < len(w.commits) && errs[writer] == nil; i += crowdWriters {
				if errs[writer] = c.logRows(w.commits[i]); errs[writer] == nil {
					w.ack(i)
				}
			}
		})
	}
	wg.Wait()
	c.together = nil
	if err := stderrors.Join(errs...); err != nil {
		return err
	}
	return c.order(w)
}

// order appends the commits of a crowd to the history as they stand in the log.
func (c *crasher) order(w *crowd) error {
	place, err := placesInLog(c.disk.KillClone())
	if err != nil {
		return err
	}
	byPlace := make([]int, len(w.commits))
	for i, rows := range w.commits {
		if _, ok := place[rows[0].V]; !ok {
			return errors.Errorf("the commit of %v is not in the log", rows)
		}
		byPlace[i] = i
	}
	slices.SortFunc(byPlace, func(a, b int) int { return cmp.Compare(place[w.commits[a][0].V], place[w.commits[b][0].V]) })
	w.rank = make([]int, len(w.commits))
	for rank, i := range byPlace {
		w.rank[i] = rank
		c.history.add(w.commits[i])
	}
	if c.setup.sync == "commit" {
		c.durable = c.history.len()
	}
	return nil
}

// placesInLog returns at which place of the log each commit stands, by the value of its
// first sample.
func placesInLog(disk *tsdbtest.MemFS) (map[uint64]int, error) {
	place := map[uint64]int{}
	for _, name := range disk.Files() {
		if !strings.HasPrefix(name, "data/wal/0") {
			continue
		}
		data, err := disk.ReadFile(name)
		if err != nil {
			return nil, err
		}
		r := wal.NewReader(bytes.NewReader(data), int64(len(data)), name, 0)
		for r.Next() {
			if typ := record.TypeOf(r.Record()); typ != record.TypeSamples && typ != record.TypeSamplesV2 {
				continue
			}
			var dec record.SampleDecoder
			var first [1]record.Sample
			dec.Reset(r.Record())
			if _, err := dec.Decode(first[:]); err != nil {
				return nil, err
			}
			place[math.Float64bits(first[0].V)] = len(place)
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
	}
	return place, nil
}
