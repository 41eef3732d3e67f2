package remote

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/marks"
)

// Writer sends what is committed to a database to a receiver of remote write, by 2.0 or 1.0, as it
// comes. It reads the log, so that nobody who commits waits for it, and remembers up to where each
// series was sent, so that it goes on there after a restart or a kill. What the log does not have
// any more it reads from the head and from blocks. Its memory is bounded, however long the receiver
// is away.
//
// Each sample is sent once, and those of a series in their order. Late samples, which came out of
// order, are not sent, unless they are read from blocks or the head, and newer than what was sent
// of their series. Exemplars are sent from the log only. What was on its way when the process was
// killed is sent again as it was: a receiver has it or not. What a delete took before it was sent
// may be sent.
//
// A request that fails for a while (no connection, 5xx, 429) is repeated until it is taken. Other
// refusals are final, as the protocol wants it: the samples are dropped, counted and logged.
//
// It is safe for concurrent use.
type Writer struct {
	db    *tsdb.DB
	opts  WriterOptions
	conns connections
	clock tsdb.Clock
	marks *marks.Store

	speaks     atomic.Int64 // writeVersion
	knowsV2    atomic.Bool  // the receiver has said so
	olderSince atomic.Int64 // when 2.0 was given up, in milliseconds; 0: it was not
	stats      writerCounters

	ctx    context.Context // ends when nothing is sent any more
	cancel context.CancelFunc
	stop   chan struct{} // closed when nothing more is read
	once   sync.Once
	done   sync.WaitGroup

	flushes writerFlushes
}

// NewWriter begins to send what is committed to a database. At its first run for a database it
// sends what is committed from now on, and WriterOptions.History. Close it before the database.
//
// Errors are about the options, and about the file of what was sent. ErrWriterName: a Writer of
// this process that is not closed has the name.
func NewWriter(db *tsdb.DB, opts *WriterOptions) (*Writer, error) {
	o, err := opts.withDefaults(db)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, o.Name+".marks")
	store, damaged, err := marks.Open(db.Options().FS, path)
	if errors.Is(err, marks.ErrInUse) {
		return nil, errors.WithMessagef(ErrWriterName, "writer %q in %s", o.Name, o.Dir)
	}
	if err != nil {
		return nil, err
	}
	if damaged {
		o.Logger.Warn("what was sent is not known whole", "file", path)
	}
	if err := store.Rewrite(nil); err != nil {
		_ = store.Close() // it has nothing more to say
		return nil, err
	}
	w := &Writer{db: db, opts: o, clock: db.Options().Clock, marks: store, stop: make(chan struct{})}
	w.conns = connectionsFor(&o)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if o.Protocol != ProtocolV1 {
		w.speaks.Store(int64(writeV2))
	}
	r := newWriterReader(w)
	if err := r.begin(); err != nil && !errors.Is(err, tsdb.ErrReadOnly) {
		return nil, fileutil.JoinErrors(err, store.Close())
	}
	if newest := store.Newest(); newest != marks.None {
		w.stats.newestSent.Store(newest)
	}
	w.done.Go(r.run)
	if !o.NoMetadata {
		w.done.Go(w.sendMetadata)
	}
	return w, nil
}

// Flush waits until all that was committed before is sent, or refused, or for the context.
// ErrClosed: the Writer is.
func (w *Writer) Flush(ctx context.Context) error {
	select {
	case err := <-w.flushes.add():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeTimeout is how long Close waits for requests that are under way.
const closeTimeout = 5 * time.Second

// Close ends the Writer. Requests that are under way get a few seconds; what is not sent by then
// the next Writer of the database sends.
func (w *Writer) Close() error {
	err := tsdb.ErrClosed
	w.once.Do(func() {
		close(w.stop)
		over := make(chan struct{})
		go func() {
			defer close(over)
			w.done.Wait()
		}()
		after, release := w.after(closeTimeout)
		defer release()
		select {
		case <-over:
		case <-after:
		}
		w.cancel()
		<-over
		w.conns.release()
		err = w.marks.Close()
	})
	return err
}

// WriterStats are counters of a Writer since it began, and where it is. They are taken one after
// the other.
type WriterStats struct {
	Protocol string // "1.0" or "2.0"
	Shards   int    // requests that may be on their way at a time

	// What was sent and taken.
	Samples, Histograms, Exemplars, Requests, Bytes uint64
	Retries                                         uint64 // requests that were sent again

	// What was not sent, or not taken, for good: late samples that were committed while the Writer
	// ran; what the receiver refused; kinds that 1.0 has no place for; entries of the log that make
	// no sense.
	DroppedLate, DroppedRefused, DroppedUnsupported, DroppedUnread uint64
	LastRefusal                                                    string // of the receiver

	// Repeated are samples that were on their way when an earlier process ended, and that the
	// receiver refused: it had them by then, as a rule.
	Repeated uint64

	// LostBefore is the time of the oldest sample when it was found that all behind those which
	// were sent had gone, as by retention: what was not sent of them may be lost. 0: that never
	// was.
	LostBefore int64

	Backfills   uint64 // how often the log did not have what came next
	Backfilling bool   // that is under way

	// NewestTaken is the time of the newest sample of the database while something waits to be
	// sent, NewestSent that of the newest one that the receiver took, in milliseconds since 1970;
	// 0: there is none. While nothing waits they are the same. Commits is how many commits have not
	// been looked at yet, Pending how many samples wait to be sent or are on their way.
	NewestTaken, NewestSent int64
	Commits                 uint64
	Pending                 int64

	Series     int    // that are known
	Failing    string // why requests are sent again just now; empty: they are not
	MarksError string // why it may not be known after a restart what was sent; empty: it will be
}

// dropReason is why samples are not sent, or not taken, for good.
type dropReason uint8

const (
	droppedLate dropReason = iota
	droppedRefused
	droppedUnsupported
	droppedUnread
	droppedRepeated // the receiver has them, as a rule
	dropReasons
)

type writerCounters struct {
	sent                                        [itemKinds]atomic.Uint64
	dropped                                     [dropReasons]atomic.Uint64
	requests, bytes, retries, backfills         atomic.Uint64
	backfilling                                 atomic.Bool
	newestSent, pending, shards, series, behind atomic.Int64
	lostBefore                                  atomic.Int64
	refusal, failing                            atomic.Pointer[string]
}

// Stats returns what the Writer has done, and where it is.
func (w *Writer) Stats() WriterStats {
	c := &w.stats
	s := WriterStats{
		Protocol: "1.0", Shards: int(c.shards.Load()),
		Samples: c.sent[itemSample].Load(), Histograms: c.sent[itemHistogram].Load(), Exemplars: c.sent[itemExemplar].Load(),
		Requests: c.requests.Load(), Bytes: c.bytes.Load(), Retries: c.retries.Load(),
		DroppedLate: c.dropped[droppedLate].Load(), DroppedRefused: c.dropped[droppedRefused].Load(), DroppedUnsupported: c.dropped[droppedUnsupported].Load(), DroppedUnread: c.dropped[droppedUnread].Load(),
		Repeated: c.dropped[droppedRepeated].Load(), LostBefore: c.lostBefore.Load(),
		Backfills: c.backfills.Load(), Backfilling: c.backfilling.Load(),
		NewestSent: c.newestSent.Load(), Commits: uint64(c.behind.Load()), Pending: c.pending.Load(), Series: int(c.series.Load()),
	}
	if w.version() == writeV2 {
		s.Protocol = "2.0"
	}
	s.NewestTaken = s.NewestSent
	if s.Commits > 0 || s.Pending > 0 || s.Backfilling {
		_, newest := boundsOf(w.db)
		s.NewestTaken = max(newest, s.NewestSent)
	}
	if text := c.refusal.Load(); text != nil {
		s.LastRefusal = *text
	}
	if text := c.failing.Load(); text != nil {
		s.Failing = *text
	}
	if err := w.marks.Err(); err != nil {
		s.MarksError = err.Error()
	}
	return s
}

func (w *Writer) version() writeVersion { return writeVersion(w.speaks.Load()) }

// wait waits, and reports whether the Writer goes on.
func (w *Writer) wait(d time.Duration) bool {
	after, release := w.after(d)
	defer release()
	select {
	case <-after:
		return true
	case <-w.stop:
		return false
	}
}

// after returns what gets the time after a while. Release it.
func (w *Writer) after(d time.Duration) (_ <-chan time.Time, release func()) {
	ticker := w.clock.NewTicker(max(d, 1))
	return ticker.C(), ticker.Stop
}

// isDBClosed reports whether the database is closed, or about to be.
func (w *Writer) isDBClosed() bool {
	q, err := w.db.Querier(0, 0)
	if err != nil {
		return errors.Is(err, tsdb.ErrClosed)
	}
	_ = q.Close() // nothing was read
	return false
}

func (w *Writer) isStopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// report logs that requests begin to fail, or succeed again.
func (w *Writer) report(err error) {
	if err == nil {
		if w.stats.failing.Swap(nil) != nil {
			w.opts.Logger.Info("receiver takes samples again", "writer", w.opts.Name)
		}
		return
	}
	text := err.Error()
	if w.stats.failing.Swap(&text) == nil {
		w.opts.Logger.Warn("receiver does not take samples, sending again", "writer", w.opts.Name, "error", fileutil.Logged(err))
	}
}
