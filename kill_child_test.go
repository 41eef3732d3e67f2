//go:build unix

// A kill that cannot be caught, and locks that end with their process, are what Unix
// has; elsewhere the lock of the dead may outlive it for a while.

package tsdb_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// What a child that is going to be killed writes, and what of it must be there later.
// Commit n of a writer has all its samples at time n*killStep, but for some series, of which the
// samples of some commits come in the opposite order (killTime). The number of the round is their
// value, or makes it (killSample), so whether it is there, whole, and from which process, can be
// read off. Now
// and then a writer deletes what its first commits have in some series. The head is
// flushed, and blocks are merged, by the database's own loops.
const (
	killWriters = 4
	killSeries  = 5   // of a writer, in each of its commits
	killFreshAt = 61  // each so many commits bring a new series
	killBigAt   = 50  // each so many commits are large ones
	killBig     = 200 // series in those
	killStaleAt = 97  // each so many commits the usual series of histograms end
	killEraseAt = 350 // each so many commits the writer deletes
	killKeep    = 500 // all but so many of its last commits
	killStep    = 250 // ms
	killAhead   = 80  // commits that a writer may be ahead of others: half a block range is always taken
	killEnv     = "TSDB_TEST_KILL"
	killPipe    = 3 // file number of the pipe to the parent

	killLate    = 5 // series of a writer whose samples come late, in runs of so many
	killLateRun = 8

	killExemplars = 1000 // that are kept; each commit has one
	killHelpAt    = 70   // each so many commits the help text of a series is another one

	killSnapshotEvery = 64 << 10 // bytes of log
)

// killConfig is what the parent tells the child.
type killConfig struct {
	Dir         string
	Round       int
	Sync        int           // index in killSyncs
	Compression int           // index in compressions
	CloseAfter  time.Duration // 0: never
	Snapshots   bool          // of the head are taken, while it runs, too
	Window      time.Duration // for late samples
}

var killSyncs = []tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncInterval(time.Second), tsdb.SyncRotate(), tsdb.SyncNever()}

func (c killConfig) options() *tsdb.Options {
	o := &tsdb.Options{Clock: hurriedClock{}}
	o.Head.SamplesPerChunk = 16
	o.Head.MaxExemplars = killExemplars
	o.WAL.SegmentSize = 256 << 10
	o.WAL.Compression = compressions[c.Compression]
	o.WAL.Sync = killSyncs[c.Sync]
	o.Blocks.Range, o.Blocks.MaxRange = time.Minute, 9*time.Minute
	o.Head.OutOfOrderWindow = c.Window
	o.Head.SnapshotThreshold = -1
	if c.Snapshots {
		o.Head.SnapshotThreshold = killSnapshotEvery
	}
	return o
}

func init() { children["kill"] = killChild }

// beginChild reads the configuration of a process that is to be killed, and returns what writes its
// journal. Each line is one write to a pipe: whole or not there at all.
func beginChild(cfg any) (say func(format string, args ...any), err error) {
	if err := json.Unmarshal([]byte(os.Getenv(killEnv)), cfg); err != nil {
		return nil, err
	}
	pipe := os.NewFile(killPipe, "journal")
	say = func(format string, args ...any) {
		if _, err := pipe.Write(fmt.Appendf(nil, format+"\n", args...)); err != nil {
			os.Exit(1) // the parent is gone
		}
	}
	say("opening")
	return say, nil
}

// killChild opens, tells what it found, and has writers commit until the process is killed.
func killChild() error {
	var cfg killConfig
	say, err := beginChild(&cfg)
	if err != nil {
		return err
	}
	db, err := tsdb.Open(cfg.Dir, cfg.options())
	if err != nil {
		say("fail open: %q", err.Error())
		return err
	}
	if r := db.OpenReport(); !r.Clean() {
		say("fail open report: %q", fmt.Sprintf("%+v", r))
	} else if r.Snapshot != "" {
		say("from %s", r.Snapshot)
	}
	last, err := killLast(db)
	if err != nil {
		say("fail read: %q", err.Error())
		return err
	}
	if err := killFindBeside(db, last); err != nil {
		say("fail beside: %q", err.Error())
		return err
	}
	say("opened %d %d %d %d", last[0], last[1], last[2], last[3])
	var wg sync.WaitGroup
	p := newPeloton(last)
	for w := range killWriters {
		wg.Go(func() {
			defer p.reached(w, math.MaxInt)
			if err := killWrite(db, cfg.Round, w, last[w]+1, p, say); err != nil && !errors.Is(err, tsdb.ErrClosed) {
				say("fail commit: %q", err.Error())
			}
		})
	}
	if cfg.CloseAfter > 0 {
		<-time.NewTimer(cfg.CloseAfter).C
		say("closing")
		if err := db.Close(); err != nil {
			say("fail close: %q", err.Error())
			return err
		}
		say("closed")
	}
	wg.Wait()
	return nil
}

// peloton keeps writers near to each other: what is too far behind is out of bounds, once the
// head is flushed.
type peloton struct {
	sync.Mutex
	moved sync.Cond
	at    [killWriters]int
}

func newPeloton(at [killWriters]int) *peloton {
	p := &peloton{at: at}
	p.moved.L = p
	return p
}

// reached says where a writer is, and returns when the others are not far behind.
func (p *peloton) reached(w, n int) {
	p.Lock()
	defer p.Unlock()
	p.at[w] = n
	p.moved.Broadcast()
	for n != math.MaxInt && n > slices.Min(p.at[:])+killAhead {
		p.moved.Wait()
	}
}

// killWrite commits one after the other and tells of each that was acknowledged.
func killWrite(db *tsdb.DB, round, writer, n int, p *peloton, say func(string, ...any)) error {
	refs := map[string]tsdb.SeriesRef{}
	for ; ; n++ {
		p.reached(writer, n)
		app := db.Appender()
		add := func(name, i string) error {
			key := name + i
			ls := labels.Labels{}
			if refs[key] == 0 {
				ls = labels.FromStrings("__name__", name, "w", strconv.Itoa(writer), "i", i)
			}
			s := killSample(name, i, n, round)
			ref, err := app.AppendSample(refs[key], ls, s.sample())
			if errors.Is(err, tsdb.ErrNotFound) { // it was idle, and went
				ls = labels.FromStrings("__name__", name, "w", strconv.Itoa(writer), "i", i)
				ref, err = app.AppendSample(0, ls, s.sample())
			}
			refs[key] = ref
			return err
		}
		var err error
		for i := 0; i < killSeries && err == nil; i++ {
			err = add("k", strconv.Itoa(i))
		}
		for i := 0; i < killLate && err == nil; i++ {
			err = add("late", strconv.Itoa(i))
		}
		if n%killFreshAt == 0 && err == nil {
			err = add("fresh", strconv.Itoa(n))
		}
		for i := 0; i < killBig && n%killBigAt == 0 && err == nil; i++ {
			err = add("big", strconv.Itoa(i))
		}
		if err == nil {
			err = killBeside(app, refs["k0"], n)
		}
		if err != nil {
			return err
		}
		res, err := app.Commit(ctx)
		if err == nil && len(res.Rejected) > 0 {
			err = errors.Errorf("commit %d of writer %d: %v", n, writer, res.Rejected)
		}
		if err != nil {
			return err
		}
		say("ack %d %d", writer, n)
		if n%killEraseAt == 0 && n > killKeep {
			if err := killErase(db, writer, n-killKeep, say); err != nil {
				return err
			}
		}
	}
}

// killBeside stages what commit n has beside its samples, of one of its series.
func killBeside(app *tsdb.Appender, ref tsdb.SeriesRef, n int) error {
	e := exemplar.Exemplar{Labels: labels.FromStrings("n", strconv.Itoa(n)), Value: float64(n), T: int64(n) * killStep, HasT: true}
	if _, err := app.AppendExemplar(ref, labels.Labels{}, e); err != nil {
		return err
	}
	_, err := app.SetMetadata(ref, labels.Labels{}, tsdb.Metadata{Help: strconv.Itoa(n / killHelpAt)})
	return err
}

// killFindBeside says what is wrong with what commits had beside their samples, the newest of which
// are those of last.
func killFindBeside(db *tsdb.DB, last [killWriters]int) error {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	of := []*labels.Matcher{labels.Equal("__name__", "k"), labels.Equal("i", "0")}
	all, err := q.Exemplars(ctx, of...)
	if err != nil {
		return err
	}
	found := [killWriters]int{}
	for _, s := range all {
		w, err := strconv.Atoi(s.Labels.Get("w"))
		if err != nil {
			return err
		}
		for i, e := range s.Exemplars {
			n := last[w] - (len(s.Exemplars) - 1 - i)
			if e.T != int64(n)*killStep || e.Value != float64(n) {
				return errors.Errorf("exemplar %d of %d of writer %d is of %d and %g, want commit %d", i, len(s.Exemplars), w, e.T, e.Value, n)
			}
		}
		found[w] = len(s.Exemplars)
	}
	described, err := q.Metadata(ctx, of...)
	if err != nil {
		return err
	}
	help := map[string]string{}
	for _, m := range described {
		help[m.Labels.Get("w")] = m.Metadata.Help
	}
	for w, n := range last {
		if n > 0 && (found[w] == 0 || help[strconv.Itoa(w)] != strconv.Itoa(n/killHelpAt)) {
			return errors.Errorf("of writer %d there are %d exemplars and the help %q at commit %d", w, found[w], help[strconv.Itoa(w)], n)
		}
	}
	return q.Close()
}

// killTime returns the time of what a series has of commit n, in steps; and the commit of a time.
func killTime(name string, n int) int {
	if name == "late" {
		return n - n%killLateRun + (killLateRun - 1 - n%killLateRun)
	}
	return n
}

// killSample returns what a series has of commit n, written in a round: each of the usual series,
// and of those that come late, has samples of its own kind, those of histograms a stale marker now
// and then.
func killSample(name, i string, n, round int) anySample {
	s := anySample{T: int64(killTime(name, n)) * killStep, V: math.Float64bits(float64(round))}
	if name != "k" && name != "late" || i == "0" {
		return s
	}
	if i == "1" || i == "3" {
		s.ST = s.T - killStep
	}
	if i == "1" {
		return s
	}
	h := &histogram.Histogram{
		Count: uint64(2*n + round), Sum: float64(round),
		PositiveSpans: []histogram.Span{{Offset: int32(round % 3), Length: 2}}, PositiveBuckets: []int64{int64(n), int64(round)},
	}
	switch {
	case n%killStaleAt == 0:
		h.SetStale()
	case i == "4":
		h.Schema, h.CustomValues = histogram.CustomBuckets, []float64{0.1, 1, 2.5, 10}
	}
	if s.H = h; i == "3" {
		s.H, s.FH = nil, h.ToFloat(nil)
	}
	return s
}

// killErase deletes what the series of a writer that are written by each commit have up to the time
// of the nth.
func killErase(db *tsdb.DB, writer, n int, say func(string, ...any)) error {
	say("erasing %d %d", writer, n)
	names, err := labels.Regexp("__name__", "k|late")
	if err == nil {
		err = db.Delete(ctx, math.MinInt64, int64(n)*killStep, names, labels.Equal("w", strconv.Itoa(writer)))
	}
	if err == nil {
		say("erased %d %d", writer, n)
	}
	return err
}

// killLast returns the newest commit of each writer.
func killLast(db *tsdb.DB) (last [killWriters]int, err error) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return last, err
	}
	b := chunkenc.NewBatch(1024)
	for s, err := range q.Select(ctx, nil, labels.Equal("__name__", "k"), labels.Equal("i", "0")).All() {
		if err != nil {
			return last, err
		}
		w, err := strconv.Atoi(s.Labels().Get("w"))
		if err != nil {
			return last, err
		}
		it := s.Iterator(nil)
		for it.NextBatch(b) != chunkenc.ValNone {
			last[w] = int(b.T[len(b.T)-1] / killStep)
		}
		if it.Err() != nil {
			return last, it.Err()
		}
	}
	return last, q.Close()
}
