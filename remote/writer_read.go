package remote

import (
	"cmp"
	"context"
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

	position tsdb.TailPosition // behind what was given to shards
	gone     bool              // the log has not what comes next
	holds    bool              // the position that is noted is not raised: a backfill is under way
	noted    time.Time         // when the position was noted

	floor   int64             // time before which nothing comes any more, once floorAt was reached
	floorAt tsdb.TailPosition // and sent
}

func newWriterReader(w *Writer) *writerReader {
	return &writerReader{w: w, series: newSeriesTable(&w.opts, w.marks), shards: newShardSet(w), floor: marks.None}
}

// pollInterval is how often it is looked whether something was committed.
const pollInterval = 100 * time.Millisecond

// run reads until the Writer or the database is closed.
func (r *writerReader) run() {
	r.shards.resize(1)
	defer r.end()
	for r.tail == nil {
		if err := r.begin(); err != nil && !r.pauseAfter(err) {
			return
		}
	}
	for {
		err := tsdb.ErrGone
		if !r.gone {
			err = r.step()
		}
		switch {
		case err == nil:
		case errors.Is(err, tsdb.ErrGone):
			if !r.backfill() {
				return
			}
		case !r.pauseAfter(err):
			return
		}
	}
}

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
	if noted == nil && r.w.opts.History == 0 {
		if err := r.passOver(); err != nil {
			r.tail = nil
			return fileutil.JoinErrors(err, tail.Close())
		}
		return nil
	}
	var p tsdb.TailPosition
	if noted != nil && json.Unmarshal(noted, &p) == nil && tail.Resume(p) == nil {
		r.position = p
		return nil
	}
	r.gone = true
	return nil
}

// passOver marks what there is as sent, and goes on behind it.
func (r *writerReader) passOver() (err error) {
	from := r.w.db.Stats().AcceptsInOrderFrom
	q, err := r.tail.Querier(from, math.MaxInt64)
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
	r.position = r.tail.Position()
	if err := r.w.marks.Rewrite(from, func(uint32) bool { return false }); err != nil {
		return err
	}
	r.notePosition()
	return nil
}

// from is the time from which on samples may not have been sent.
func (r *writerReader) from() int64 {
	if floor := r.w.marks.Floor(); floor != marks.None {
		return floor
	}
	if h := r.w.opts.History; h > 0 {
		return r.w.clock.Now().Add(-h).UnixMilli()
	}
	return math.MinInt64
}

// step reads a commit, or waits for one.
func (r *writerReader) step() error {
	if r.w.isStopped() {
		return errStopped
	}
	r.w.flushes.aim(r.tail.Position().Seq + r.tail.Behind())
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
		return r.handOverDue()
	}
	r.raiseFloor()
	if err := r.handOverDue(); err != nil {
		return err
	}
	if !r.pause(pollInterval) {
		return errStopped
	}
	return nil
}

// raiseFloor notes before which time nothing comes any more that was not read.
func (r *writerReader) raiseFloor() {
	if st := r.w.db.Stats(); r.tail.Behind() == 0 && !r.w.stats.backfilling.Load() {
		r.floor, r.floorAt = st.AcceptsInOrderFrom, r.position
	}
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
	r.w.stats.dropped[droppedUnread].Add(uint64(c.Unread))
	if r.w.opts.NoExemplars {
		c.Exemplars = c.Exemplars[:0]
	}
	for _, m := range c.Metadata {
		if s := r.series.byRef[m.Ref]; s != nil {
			r.series.setMetadata(s, m.Metadata)
		}
	}
	slices.SortStableFunc(c.Exemplars, func(a, b tsdb.TailExemplar) int { return cmp.Compare(a.Ref, b.Ref) })
	for i := range c.Samples {
		sample := &c.Samples[i]
		if sample.Late {
			r.w.stats.dropped[droppedLate].Add(1)
			continue
		}
		s := r.series.of(sample.Ref, r.tail)
		if s == nil { // it is in blocks by now
			return tsdb.ErrGone
		}
		if err := r.add(s, sample); err != nil {
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
	b := r.shards.of(s).filling
	if b == nil || !b.has(s) {
		return // its sample was sent before
	}
	at, _ := slices.BinarySearchFunc(all, ref, func(e tsdb.TailExemplar, ref tsdb.SeriesRef) int { return cmp.Compare(e.Ref, ref) })
	for ; at < len(all) && all[at].Ref == ref; at++ {
		b.addExemplar(s, all[at].Exemplar, &r.series.symbols)
		all[at].Ref = 0 // once
	}
}

// add gives a sample to the shard of its series, if it was not sent before.
func (r *writerReader) add(s *shippedSeries, sample *tsdb.TailSample) error {
	if s.skipped || sample.T <= s.newest {
		return nil
	}
	if (sample.H != nil || sample.FH != nil) && !r.takesHistogram(sample) {
		return nil
	}
	shard := r.shards.of(s)
	doubtful := sample.T <= s.doubt
	if b := shard.filling; b != nil && !b.isEmpty() && (b.len() >= r.w.opts.MaxSamples || b.doubtful != doubtful) {
		if err := r.shards.handOver(shard); err != nil {
			return err
		}
	}
	if shard.filling == nil {
		shard.filling = r.shards.newBatch(r.position, doubtful)
	}
	shard.filling.add(s, sample, &r.series.symbols)
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

// handOverDue gives shards what has waited long enough, if they are free, and does what is to be
// done now and then.
func (r *writerReader) handOverDue() error {
	now := r.w.clock.Now()
	if err := r.shards.handOverDue(now, r.w.flushes.wait(r.position.Seq)); err != nil {
		return err
	}
	r.w.flushes.answer(r.sentUpTo().Seq)
	if now.Sub(r.noted) < noteInterval {
		return nil
	}
	r.noted = now
	r.notePosition()
	r.rewriteMarks()
	return r.shards.adapt(now)
}

// noteInterval is how often the position is noted: what is read again after a kill.
const noteInterval = time.Second

// sentUpTo is the position up to which all is sent.
func (r *writerReader) sentUpTo() tsdb.TailPosition { return r.shards.oldest(r.position) }

func (r *writerReader) notePosition() {
	r.w.stats.series.Store(int64(len(r.series.byID)))
	if r.holds {
		return
	}
	at := r.sentUpTo()
	text, err := json.Marshal(at)
	if err == nil && string(text) != string(r.w.marks.Position()) {
		r.w.marks.SetPosition(text)
	}
}

// rewriteMarks makes the file of marks short again when it is long, and forgets series.
func (r *writerReader) rewriteMarks() {
	if !r.w.marks.IsLong() || r.shards.areFilled() {
		return
	}
	floor := int64(marks.None)
	if r.floor != marks.None && r.floorAt.Seq <= r.sentUpTo().Seq && !r.holds {
		floor = r.floor
	}
	if err := r.w.marks.Rewrite(floor, r.series.forget(floor, r.tail)); err != nil {
		r.w.opts.Logger.Error("write what was sent", "writer", r.w.opts.Name, "error", fileutil.Logged(err))
	}
}

// end stops the shards, and notes what is sent.
func (r *writerReader) end() {
	r.shards.end()
	r.notePosition()
	r.w.flushes.end()
	if r.tail != nil {
		_ = r.tail.Close() // it was read only
	}
}

// backfill sends what the log does not have any more, up to now, and goes on behind it. false: the
// Writer or the database was closed.
func (r *writerReader) backfill() bool {
	w := r.w
	w.stats.backfills.Add(1)
	w.stats.backfilling.Store(true)
	r.holds = true // until all of it is sent a restart begins it again
	w.opts.Logger.Info("the log has not what is to be sent, reading blocks", "writer", w.opts.Name)
	for {
		err := r.sendRange(r.from())
		if err == nil {
			err = r.shards.drain()
		}
		if err == nil {
			break
		}
		if !r.pauseAfter(err) {
			return false
		}
	}
	r.holds, r.gone = false, false
	r.position = r.tail.Position()
	w.stats.backfilling.Store(false)
	r.notePosition()
	return true
}

// backfillWindow is how much time is read by one Querier: it holds files that are deleted.
const backfillWindow = 2 * time.Hour

// sendRange sends what is from a time on, window by window. The Tail goes on behind the last one.
func (r *writerReader) sendRange(from int64) error {
	mint, maxt, _, err := r.w.db.Bounds(r.w.ctx)
	if err != nil {
		return err
	}
	from = max(from, mint)
	for ; mint <= maxt && from < maxt-backfillWindow.Milliseconds(); from += backfillWindow.Milliseconds() {
		q, err := r.w.db.Querier(from, from+backfillWindow.Milliseconds()-1)
		if err != nil {
			return err
		}
		if err := r.sendAll(q); err != nil {
			return err
		}
	}
	q, err := r.tail.Querier(from, math.MaxInt64)
	if err != nil {
		return err
	}
	return r.sendAll(q)
}

// sendAll sends what a Querier has, and closes it.
func (r *writerReader) sendAll(q *tsdb.Querier) (err error) {
	defer func() { err = fileutil.JoinErrors(err, q.Close()) }()
	set := q.Select(r.w.ctx, &tsdb.SelectHints{Transient: true})
	reader := sampleReader{}
	for set.Next() {
		at := set.At()
		s := r.series.byLabels(at.Labels())
		if s.skipped {
			continue
		}
		for sample := range reader.after(at, s.newest) {
			if err := r.add(s, sample); err != nil {
				return err
			}
		}
		if err := r.unread(reader.err); err != nil {
			return err
		}
	}
	return r.unread(set.Err())
}

// unread logs that something cannot be read. It is left out: waiting would not mend it. What the
// end of the Writer or of the database came to is returned.
func (r *writerReader) unread(err error) error {
	if err == nil || errors.Is(err, tsdb.ErrClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	r.w.stats.dropped[droppedUnread].Add(1)
	r.w.opts.Logger.Error("samples cannot be read and are not sent", "writer", r.w.opts.Name, "error", fileutil.Logged(err))
	return nil
}
