package remote

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/marks"
)

// writerReader reads what is committed and gives it to the shards of a Writer. It is one goroutine.
type writerReader struct {
	w      *Writer
	tail   *tsdb.Tail
	series *seriesTable
	shards *shardSet
	floor  writerFloor

	position tsdb.TailPosition // behind what was given to shards
	gone     bool              // the log has not what comes next: until a backfill has, nothing is noted
	known    uint64            // commits up to this one may have been sent before
	ticked   time.Time         // when tick last did something
	used     []bool            // exemplars of the commit under way that are in a batch
	damaged  bool              // something of the window under way could not be read
}

func newWriterReader(w *Writer) *writerReader {
	return &writerReader{w: w, series: newSeriesTable(&w.opts, w.marks), shards: newShardSet(w), floor: writerFloor{w: w}}
}

// pollInterval is how often it is looked whether something was committed.
const pollInterval = 100 * time.Millisecond

// run reads until the Writer or the database is closed.
func (r *writerReader) run() {
	r.shards.resize(max(r.w.opts.shards, 1))
	defer r.end()
	for r.tail == nil {
		if err := r.begin(); err != nil && !r.pauseAfter(err) {
			return
		}
	}
	for failures := 0; ; failures++ {
		err := tsdb.ErrGone
		if !r.gone && failures < maxFailures {
			err = r.step()
		}
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, tsdb.ErrGone):
			failures = 0
			if !r.backfill() {
				return
			}
		case !r.pauseAfter(err):
			return
		}
	}
}

// maxFailures is how often in a row the log may fail before it counts as gone.
const maxFailures = 10

// pauseAfter logs an error and waits. false: it is no use to go on.
func (r *writerReader) pauseAfter(err error) bool {
	if errors.Is(err, tsdb.ErrClosed) || errors.Is(err, errStopped) || r.w.ctx.Err() != nil {
		return false
	}
	r.w.opts.Logger.Error("read what is to be sent", "writer", r.w.opts.Name, "error", fileutil.Logged(err))
	return r.pause(time.Second)
}

// begin goes on where the last Writer was, or behind what there is. An error: the database does not
// write its log yet, or is closed.
func (r *writerReader) begin() error {
	tail, err := tsdb.NewTail(r.w.db)
	if err != nil {
		return err
	}
	r.tail = tail
	noted := r.w.marks.Position()
	switch {
	case noted != nil:
		var p tsdb.TailPosition
		if json.Unmarshal(noted, &p) == nil && tail.Resume(p) == nil {
			r.position, r.known = p, newestSeq(tail)
			return nil
		}
	case r.w.opts.History == 0:
		if err := r.passOver(); err != nil {
			r.tail = nil
			return fileutil.JoinErrors(err, tail.Close())
		}
		return nil
	case r.w.opts.History > 0 && r.w.marks.Floor() == marks.None: // or this is no first start
		r.w.marks.SetFloor(r.w.clock.Now().Add(-r.w.opts.History).UnixMilli())
	}
	r.gone = true
	return nil
}

// newestSeq is the newest commit that there is.
func newestSeq(t *tsdb.Tail) uint64 { return t.Position().Seq + t.Behind() }

// passOver marks what there is as sent, and goes on behind it.
func (r *writerReader) passOver() (err error) {
	floor := r.floor.now()
	q, err := r.tail.Querier(floor, math.MaxInt64)
	if err != nil {
		return err
	}
	defer func() { err = fileutil.JoinErrors(err, q.Close()) }()
	set := q.Select(r.w.ctx, &tsdb.SelectHints{Transient: true})
	var sent []marks.Entry
	for set.Next() {
		last, ok, err := set.At().Last()
		if err := r.unread(err); err != nil {
			return err
		}
		if ok {
			s := r.series.byLabels(set.At().Labels())
			s.newest = last.T
			sent = append(sent, marks.Entry{ID: s.id, T: last.T})
		}
	}
	if err := r.unread(set.Err()); err != nil {
		return err
	}
	r.w.marks.OnTheWay(0, sent)
	r.w.marks.Arrived(0)
	r.w.marks.SetFloor(floor)
	r.position = r.tail.Position()
	r.notePosition()
	return nil
}

// unread logs that something is damaged and cannot be read. It is left out: waiting would not mend
// it. Other errors are returned.
func (r *writerReader) unread(err error) error {
	if !errors.Is(err, tsdb.ErrCorrupt) || errors.Is(err, fileutil.ErrMemoryFault) {
		return err
	}
	r.damaged = true
	r.w.stats.dropped[droppedUnread].Add(1)
	r.w.opts.Logger.Error("samples cannot be read and are not sent", "writer", r.w.opts.Name, "error", fileutil.Logged(err))
	return nil
}

// step reads a commit, or waits for one.
func (r *writerReader) step() error {
	if r.w.isStopped() {
		return errStopped
	}
	r.w.flushes.aim(newestSeq(r.tail))
	c, err := r.tail.Next()
	if err != nil {
		return err
	}
	r.w.stats.behind.Store(int64(r.tail.Behind()))
	if c != nil {
		if err := r.commit(c); err != nil {
			return err
		}
		r.position = r.tail.Position()
	}
	now := r.w.clock.Now()
	if err := r.shards.handOverDue(now, r.w.flushes.wait(r.position.Seq)); err != nil {
		return err
	}
	if r.w.flushes.isAwaited() {
		r.w.flushes.answer(r.sentUpTo().Seq)
	}
	if err := r.tick(now); err != nil {
		return err
	}
	if err := r.shards.adapt(now); err != nil {
		return err
	}
	if c == nil && !r.pause(pollInterval) {
		return errStopped
	}
	return nil
}

// pause waits for a while, less if a batch was sent. false: the Writer was closed.
func (r *writerReader) pause(d time.Duration) bool {
	after, release := r.w.after(d)
	defer release()
	select {
	case <-r.w.stop:
		return false
	case <-r.shards.changed:
	case <-after:
	}
	return true
}

// commit gives the samples of a commit to the shards.
func (r *writerReader) commit(c *tsdb.TailCommit) error {
	fresh := r.tail.Position().Seq > r.known // or it is read again
	if fresh {
		r.w.stats.dropped[droppedUnread].Add(uint64(c.Unread))
	}
	if r.w.opts.NoExemplars {
		c.Exemplars = c.Exemplars[:0]
	}
	for _, m := range c.Metadata {
		if s := r.series.byRef[m.Ref]; s != nil {
			r.series.setMetadata(s, m.Metadata)
		}
	}
	slices.SortStableFunc(c.Exemplars, func(a, b tsdb.TailExemplar) int { return cmp.Compare(a.Ref, b.Ref) })
	r.used = append(r.used[:0], make([]bool, len(c.Exemplars))...)
	for i := range c.Samples {
		sample := &c.Samples[i]
		s := r.series.of(sample.Ref, r.tail)
		if s == nil { // it is in blocks by now
			return tsdb.ErrGone
		}
		if s.skipped {
			continue
		}
		if sample.Late || sample.T <= s.newest { // as a receiver sees it, where time went back
			if fresh {
				r.w.stats.dropped[droppedLate].Add(1)
			}
			continue
		}
		if err := r.add(s, sample, 0); err != nil {
			return err
		}
		if len(c.Exemplars) > 0 {
			r.addExemplars(s, c.Exemplars, sample.Ref)
		}
	}
	return nil
}

// addExemplars adds the exemplars of a series, beside its sample.
func (r *writerReader) addExemplars(s *shippedSeries, all []tsdb.TailExemplar, ref tsdb.SeriesRef) {
	b := r.shards.of(s).with(s)
	if b == nil {
		return // a histogram that is not sent
	}
	at, _ := slices.BinarySearchFunc(all, ref, func(e tsdb.TailExemplar, ref tsdb.SeriesRef) int { return cmp.Compare(e.Ref, ref) })
	for ; at < len(all) && all[at].Ref == ref; at++ {
		if !r.used[at] {
			b.addExemplar(s, all[at].Exemplar, &r.series.symbols)
			r.used[at] = true
		}
	}
}

// add gives a sample to the shard of its series, which has none so new. errAway: the shard takes
// nothing for a while; 0 is any while.
func (r *writerReader) add(s *shippedSeries, sample *tsdb.TailSample, while time.Duration) error {
	if (sample.H != nil || sample.FH != nil) && !r.takesHistogram(sample) {
		return nil
	}
	doubt := uint32(0)
	if sample.T <= s.doubt {
		doubt = s.doubtGroup
	}
	b, err := r.shards.batchFor(s, doubt, r.position, while)
	if err != nil {
		return err
	}
	b.add(s, sample, &r.series.symbols)
	s.newest = sample.T
	r.w.stats.pending.Add(1)
	return nil
}

// takesHistogram reports whether a histogram is sent.
func (r *writerReader) takesHistogram(sample *tsdb.TailSample) bool {
	custom := sample.H != nil && sample.H.Schema == histogram.CustomBuckets || sample.FH != nil && sample.FH.Schema == histogram.CustomBuckets
	if r.w.opts.NoHistograms {
		return false
	}
	if custom && r.w.version() == writeV1 {
		r.w.stats.dropped[droppedUnsupported].Add(1)
		return false
	}
	return true
}

// tickInterval is how often the position is noted: what is read again after a kill.
const tickInterval = time.Second

// tick does what is to be done now and then.
func (r *writerReader) tick(now time.Time) error {
	if now.Sub(r.ticked) < tickInterval {
		return nil
	}
	r.ticked = now
	if !r.gone {
		r.floor.raise(newestSeq(r.tail), r.sentUpTo().Seq)
	}
	r.notePosition()
	if r.w.marks.IsLong() {
		return r.rewriteMarks()
	}
	return nil
}

// sentUpTo is the position up to which all is sent.
func (r *writerReader) sentUpTo() tsdb.TailPosition { return r.shards.oldest(r.position) }

func (r *writerReader) notePosition() {
	r.w.stats.series.Store(int64(len(r.series.byID)))
	if r.gone {
		return
	}
	text, err := json.Marshal(r.sentUpTo())
	if err == nil && string(text) != string(r.w.marks.Position()) {
		r.w.marks.SetPosition(text)
	}
}

// rewriteMarks makes the file of marks short again, and forgets series that are behind the floor.
func (r *writerReader) rewriteMarks() error {
	mayGo := r.series.forget(r.w.marks.Floor(), r.tail)
	if r.series.symbols.isWasteful(r.series.byID) {
		if err := r.shards.handOverDue(r.w.clock.Now(), true); err != nil {
			return err
		}
		if !r.shards.areFilled() { // batches know symbols by their numbers while they are filled
			r.series.symbols = r.series.symbols.without(r.series.byID)
		}
	}
	if err := r.w.marks.Rewrite(mayGo); err != nil {
		r.w.opts.Logger.Error("write what was sent", "writer", r.w.opts.Name, "error", fileutil.Logged(err))
	}
	return nil
}

// end stops the shards, and notes what is sent.
func (r *writerReader) end() {
	r.w.flushes.end()
	r.shards.end()
	if r.tail == nil {
		return
	}
	r.notePosition()
	_ = r.tail.Close() // it was read only
}

// writerFloor finds times before which nothing comes any more that is not sent. A mark below is not
// needed: a backfill begins there.
type writerFloor struct {
	w       *Writer
	next    int64  // is one when all up to a commit is sent
	at      uint64 // that commit
	since   time.Time
	accepts int64 // what was taken in order when it was looked last
}

// floorMargin is how far a floor stays behind what the database takes in order: commits that are
// under way, and a start that a restart or a flush that failed sets back, are well within.
const floorMargin = 24 * time.Hour

// now is a floor for what is committed from now on, marks.None if there is none.
func (f *writerFloor) now() int64 {
	accepts := min(f.w.db.Stats().AcceptsInOrderFrom, f.w.clock.Now().UnixMilli())
	margin := max(floorMargin, 2*f.w.db.Options().Blocks.Range).Milliseconds()
	if accepts < math.MinInt64/2 {
		return marks.None
	}
	return accepts - margin
}

// floorInterval is how often the floor is raised.
const floorInterval = time.Minute

// raise notes a floor now and then. newest is the newest commit, sent the one up to which all is
// sent.
func (f *writerFloor) raise(newest, sent uint64) {
	noted, accepts := f.w.marks.Floor(), f.w.db.Stats().AcceptsInOrderFrom
	if !f.since.IsZero() && accepts < f.accepts { // time went back
		f.w.marks.SetFloor(min(noted, f.now()))
		f.next, f.at = marks.None, newest
	}
	f.accepts = accepts
	if now := f.w.clock.Now(); !f.since.IsZero() && now.Sub(f.since) < floorInterval {
		return
	}
	if f.since.IsZero() || sent >= f.at {
		if !f.since.IsZero() && f.next > noted {
			f.w.marks.SetFloor(f.next)
		}
		f.next, f.at, f.since = f.now(), newest, f.w.clock.Now()
	}
}

// check lowers a floor that is ahead of the clock, as one that was noted while the clock was ahead.
func (f *writerFloor) check() {
	if noted := f.w.marks.Floor(); noted != marks.None && noted > f.w.clock.Now().UnixMilli() {
		f.w.marks.SetFloor(min(noted, f.now()))
	}
}
