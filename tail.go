package tsdb

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/logtail"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// What a Tail returns.
type (
	// TailPosition is where a commit stands in the log. It may be written down, and be used by a
	// later process.
	TailPosition = wal.Place
	// TailCommit is what was committed together: Samples, Exemplars and Metadata, and Unread, how
	// many records or histograms of it make no sense to this version.
	TailCommit = logtail.Commit
	// TailSample has Ref, T, ST and Late (the series had a newer sample), and H, FH or V: it is an
	// integer histogram, one with float counts, or a float. TailExemplar and TailMetadata have Ref,
	// and the fields of exemplar.Exemplar and of Metadata.
	TailSample   = logtail.Sample
	TailExemplar = logtail.Exemplar
	TailMetadata = logtail.Metadata
)

// ErrGone: the log does not have the commit any more that a Tail would return next, or it cannot
// be read. What the log had is in blocks, or in the head, by then: Tail.Querier has it.
var ErrGone = wal.ErrGone

// Tail reads what is committed to a database, commit by commit in their order, from its log: for
// programs that pass on what they store. It does not hold up anybody: the database neither waits
// for it nor keeps its log for it. One that stays behind for long gets ErrGone, and goes on behind
// a Querier.
//
// Deletes are not among what it returns, and what is deleted may be.
//
// One goroutine at a time. Close it before the database.
type Tail struct {
	db     *DB
	log    *wal.Tail
	commit TailCommit
}

// NewTail returns a Tail of the commits that follow. Close it. ErrClosed: the database is closed.
// ErrReadOnly: it does not write its log yet (DB.Health).
func NewTail(db *DB) (*Tail, error) {
	t := &Tail{db: db}
	if err := t.open(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tail) open() error {
	if t.db.closing.Load() {
		return ErrClosed
	}
	log, err := t.db.head.writable()
	if err == nil {
		t.log, err = wal.NewTail(log, t.db.head.iso.Published())
	}
	return errors.WithMessage(err, "read the log")
}

// Resume makes the Tail go on behind a position, which may be one of an earlier process. ErrGone:
// the log has not what comes next; the Tail is where it was.
func (t *Tail) Resume(p TailPosition) error {
	was := t.log.Place()
	err := t.log.Resume(p)
	if err != nil {
		_ = t.log.Behind(was.Seq) // if that is gone, too, Next says so
	}
	return err
}

// Querier returns a snapshot of a closed range as DB.Querier does, and makes the Tail go on behind
// it: the next commit is the first one that the Querier does not see. Times are milliseconds. Close
// the Querier. ErrGone: the log has not what comes next, and there is no Querier. ErrClosed.
func (t *Tail) Querier(mint, maxt int64) (*Querier, error) {
	q, err := t.db.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	if err := t.log.Behind(q.seq); err != nil {
		return nil, fileutil.JoinErrors(err, q.Close())
	}
	return q, nil
}

// Next returns the next commit, nil if there is none yet. It is good until the next call. ErrGone:
// see there. ErrClosed: the database is closed. Behind an error of the file system it may be called
// again.
func (t *Tail) Next() (*TailCommit, error) {
	if t.db.closing.Load() {
		return nil, ErrClosed
	}
	records, ok, err := t.log.Next(t.db.head.iso.Published())
	if err != nil || !ok {
		return nil, err
	}
	t.commit.Read(records)
	return &t.commit, nil
}

// Position returns where the last commit stands that Next returned, or that a Querier saw.
func (t *Tail) Position() TailPosition { return t.log.Place() }

// Behind returns how many commits there are that Next has not returned yet.
func (t *Tail) Behind() uint64 {
	if published, at := t.db.head.iso.Published(), t.log.Place().Seq; published > at {
		return published - at
	}
	return 0
}

// Labels returns the labels of a series. ok is false if the head has no such series any more.
func (t *Tail) Labels(ref SeriesRef) (_ labels.Labels, ok bool) {
	series := t.db.head.series
	s := series.ByRef(uint64(ref))
	if s == nil {
		return labels.Labels{}, false
	}
	s.Pin() // or others get its labels' place meanwhile
	defer s.Unpin()
	if s.Dead() {
		return labels.Labels{}, false
	}
	return series.Labels(s), true
}

// Metadata returns what is known of a series. ok is false if nothing is.
func (t *Tail) Metadata(ref SeriesRef) (_ Metadata, ok bool) {
	value := t.db.head.commits.metadata.Of(uint64(ref))
	if value == "" {
		return Metadata{}, false
	}
	return record.DecodeMetadataValue([]byte(value)), true
}

// Close lets go of the log.
func (t *Tail) Close() error { return t.log.Close() }
