package remote

import (
	"math"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/marks"
)

// backfill sends what the log does not have any more, up to now, and goes on behind it. false: the
// Writer or the database was closed.
func (r *writerReader) backfill() bool {
	w := r.w
	r.gone = true // until all of it is sent a restart begins it again
	w.stats.backfills.Add(1)
	w.stats.backfilling.Store(true)
	w.opts.Logger.Info("the log has not what is to be sent, reading blocks", "writer", w.opts.Name)
	for {
		err := r.sendBehindMarks()
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
	r.gone = false
	r.position, r.known = r.tail.Position(), r.tail.Position().Seq
	w.stats.backfilling.Store(false)
	r.notePosition()
	return true
}

const (
	// backfillWindow is how much time is read by one Querier: it holds files that are deleted.
	backfillWindow = 2 * time.Hour
	// backfillPatience is how long a Querier stays open while nobody takes what it reads: it holds
	// memory of the head.
	backfillPatience = 10 * time.Second
)

// sendBehindMarks sends what is behind the marks, window by window. The Tail goes on behind the
// last one. That begins before the times that are still taken in order: what comes to earlier
// windows would be missed. Windows end where blocks do, so that damage to one costs no more than
// that.
func (r *writerReader) sendBehindMarks() error {
	r.floor.check()
	accepts := r.w.db.Stats().AcceptsInOrderFrom
	last := min(accepts, r.w.clock.Now().UnixMilli())
	if last > math.MinInt64/2 {
		last -= 2 * r.w.db.Options().Blocks.Range.Milliseconds()
	}
	oldest, newest := boundsOf(r.w.db)
	floor := r.w.marks.Floor()
	from := max(floor, oldest)
	r.tellOfLoss(oldest)
	borders := blockBorders(r.w.db)
	for from < last && from <= newest {
		to := min(from+backfillWindow.Milliseconds(), last, borderBehind(borders, from))
		if err := r.sendWindow(func() (*tsdb.Querier, error) { return r.w.db.Querier(from, to-1) }); err != nil {
			return err
		}
		if err := r.shards.adapt(r.w.clock.Now()); err != nil {
			return err
		}
		from = to
	}
	for from = max(min(from, last), floor); ; { // again behind each block, as long as something is damaged
		r.damaged = false
		if err := r.sendWindow(func() (*tsdb.Querier, error) { return r.tail.Querier(from, math.MaxInt64) }); err != nil {
			return err
		}
		next := borderBehind(borders, from)
		if !r.damaged || next == math.MaxInt64 {
			break
		}
		from = next
	}
	if r.w.db.Stats().AcceptsInOrderFrom < accepts {
		return errors.WithMessage(errTimeWentBack, "backfill")
	}
	return nil
}

// blockBorders are the times at which blocks begin and end, in order.
func blockBorders(db *tsdb.DB) (borders []int64) {
	for _, b := range db.Blocks() {
		borders = append(borders, b.MinTime, b.MaxTime)
	}
	slices.Sort(borders)
	return slices.Compact(borders)
}

// borderBehind is the first border behind a time, math.MaxInt64 if there is none.
func borderBehind(borders []int64, t int64) int64 {
	i, _ := slices.BinarySearch(borders, t+1)
	if i == len(borders) {
		return math.MaxInt64
	}
	return borders[i]
}

// boundsOf are the times of all samples, by what blocks and the head say of themselves.
func boundsOf(db *tsdb.DB) (oldest, newest int64) {
	oldest, newest = math.MaxInt64, math.MinInt64
	if st := db.Stats(); st.MinT <= st.MaxT {
		oldest, newest = st.MinT, st.MaxT
	}
	for _, b := range db.Blocks() {
		oldest, newest = min(oldest, b.MinTime), max(newest, b.MaxTime-1)
	}
	return oldest, newest
}

// tellOfLoss tells that blocks may have gone before they were sent.
func (r *writerReader) tellOfLoss(oldest int64) {
	newest := r.w.marks.Newest()
	if newest == marks.None || oldest == math.MaxInt64 || oldest <= newest+1 || r.w.stats.lostBefore.Load() == oldest {
		return
	}
	r.w.stats.lostBefore.Store(oldest)
	r.w.opts.Logger.Warn("there are no samples any more behind those that were sent", "writer", r.w.opts.Name, "sent_up_to", newest, "oldest", oldest)
}

// sendWindow sends what Queriers of a window have. While nobody takes anything none is open; the
// next one goes on behind the marks.
func (r *writerReader) sendWindow(open func() (*tsdb.Querier, error)) error {
	for {
		q, err := open()
		if err != nil {
			return err
		}
		err = fileutil.JoinErrors(r.sendAll(q), q.Close())
		if !errors.Is(err, errAway) {
			return err
		}
		for _, s := range r.shards.list {
			if err := r.shards.handOver(s, 0); err != nil {
				return err
			}
		}
	}
}

// sendAll sends what a Querier has.
func (r *writerReader) sendAll(q *tsdb.Querier) error {
	set := q.Select(r.w.ctx, &tsdb.SelectHints{Transient: true})
	reader := sampleReader{}
	for set.Next() {
		if r.w.isStopped() {
			return errStopped
		}
		at := set.At()
		s := r.series.byLabels(at.Labels())
		if s.skipped {
			continue
		}
		for sample := range reader.after(at, s.newest) {
			if err := r.add(s, sample, backfillPatience); err != nil {
				return err
			}
		}
		if err := r.unread(reader.err); err != nil {
			return err
		}
		if err := r.tick(r.w.clock.Now()); err != nil {
			return err
		}
	}
	return r.unread(set.Err())
}
