package bench

import (
	"context"
	"encoding/binary"
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// sustainWriter appends to its part of the series, as one scraper among several does.
type sustainWriter struct {
	sustainPart
	db       *tsdb.DB
	number   int
	refs     []tsdb.SeriesRef // of its places; 0: to be found by labels
	vs       []float64
	rejected []tsdb.Reject
	acks     *os.File
	next     int64 // commit, in this process and those before it
	repeated int64 // commit that a process before this one may have made, unacknowledged

	mu struct {
		sync.Mutex
		took    []time.Duration // of commits, since the recorder looked
		samples int             // in them
		late    time.Duration   // the most that one of them began behind its time
		due     time.Time       // when the next one is, or was
	}
}

// acknowledgement has eight bytes in the file for each writer: how many commits have
// returned. What is written there outlives the process, as it does in the database.
const acknowledgement = 8

func newSustainWriter(o *sustainOrder, db *tsdb.DB, number int, acks *os.File) (*sustainWriter, error) {
	next, err := acknowledged(acks, number)
	if err != nil {
		return nil, err
	}
	part := o.part(number)
	return &sustainWriter{
		sustainPart: part, db: db, number: number, acks: acks, next: next, repeated: next,
		refs: make([]tsdb.SeriesRef, part.hi-part.lo), vs: make([]float64, perCommit),
	}, nil
}

// acknowledged returns how many commits of a writer have returned.
func acknowledged(acks *os.File, number int) (int64, error) {
	var b [acknowledgement]byte
	_, err := acks.ReadAt(b[:], int64(number)*acknowledgement)
	return int64(binary.LittleEndian.Uint64(b[:])), errors.Wrap(err, "read acknowledgement")
}

// fill makes all series, as fast as it can.
func (w *sustainWriter) fill() error {
	for w.next < int64(w.commits()) {
		if err := w.one(time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// pace makes commits at their time from begin on until end. One that comes too late does not
// move those behind it.
func (w *sustainWriter) pace(begin, end time.Time) error {
	pause := w.pause()
	for n := 0; ; n++ {
		due := begin.Add(time.Duration(n) * pause)
		w.mu.Lock()
		w.mu.due = due
		w.mu.Unlock()
		if time.Sleep(min(time.Until(due), time.Until(end))); !time.Now().Before(end) {
			return nil
		}
		if err := w.one(due); err != nil {
			return err
		}
	}
}

// one makes the next commit and writes down that it is made.
func (w *sustainWriter) one(due time.Time) error {
	begin := time.Now()
	n, err := w.commit()
	if err != nil {
		return err
	}
	took := time.Since(begin)
	w.next++
	var b [acknowledgement]byte
	binary.LittleEndian.PutUint64(b[:], uint64(w.next))
	if _, err := w.acks.WriteAt(b[:], int64(w.number)*acknowledgement); err != nil {
		return errors.Wrap(err, "write acknowledgement")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.took = append(w.mu.took, took)
	w.mu.samples += n
	w.mu.late = max(w.mu.late, begin.Sub(due))
	return nil
}

// commit appends what commit number next has. One that the process before this one may have
// made is repeated, and counts fewer samples then.
func (w *sustainWriter) commit() (samples int, err error) {
	k, from, to, t := w.sustainPart.commit(w.next)
	for place := max(from, w.lo+w.replaced(k-1)); place < min(to, w.lo+w.replaced(k)); place++ {
		w.refs[place-w.lo] = 0
	}
	app := w.db.Appender()
	for place := from; place < to; {
		end := place
		for ; end < to && w.refs[end-w.lo] != 0; end++ {
			w.vs[end-place] = sustainValue(w.seriesAt(end, k), k)
		}
		w.rejected, err = app.AppendBatch(t, w.refs[place-w.lo:end-w.lo], w.vs[:end-place], w.rejected[:0])
		if err == nil && len(w.rejected) > 0 {
			err = w.rejected[0].Err
		}
		if err == nil && end < to {
			series := w.seriesAt(end, k)
			w.refs[end-w.lo], err = app.Append(0, labels.FromStrings(pairs(series)...), t, sustainValue(series, k))
			end++
		}
		if err != nil {
			return 0, errors.WithMessagef(err, "commit %d of writer %d", w.next, w.number)
		}
		place = end
	}
	res, err := app.Commit(context.Background())
	if err == nil && (len(res.Rejected) > 0 || res.Samples != to-from && w.next != w.repeated) {
		err = errors.Errorf("%d of %d samples were committed", res.Samples, to-from)
	}
	return res.Samples, err
}

// taken is what writers did since the last look.
type taken struct {
	took    []time.Duration
	samples int
	backlog time.Duration
}

// take adds what this writer did to what others did.
func (w *sustainWriter) take(all *taken, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all.took = append(all.took, w.mu.took...)
	all.samples += w.mu.samples
	all.backlog = max(all.backlog, w.mu.late)
	if !w.mu.due.IsZero() {
		all.backlog = max(all.backlog, now.Sub(w.mu.due))
	}
	w.mu.took, w.mu.samples, w.mu.late = w.mu.took[:0], 0, 0
}
