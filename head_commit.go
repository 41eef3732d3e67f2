package tsdb

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/headlate"
	"github.com/seed347100a3/tsdb/internal/invariants"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/metadata"
	"github.com/seed347100a3/tsdb/wal"
)

// commits is what the commits of a head share.
type commits struct {
	stagings  sync.Pool   // of *staging
	appenders sync.Pool   // of *appenders with some to give out
	closed    atomic.Bool // nothing is committed any more
	metadata  *metadata.Table

	done, failed                 atomic.Uint64
	appended                     [chunkenc.ValFloatHistogram + 1]atomic.Uint64 // samples by kind
	rejected                     atomic.Uint64                                 // samples
	refused                      [2 * reasons]atomic.Uint64                    // samples, as refusals counts them
	seriesCreated, seriesRemoved atomic.Uint64
	seriesRefused                atomic.Uint64

	exemplars         *exemplars.Ring
	exemplarsRejected atomic.Uint64
}

func (c *commits) init(h *head) {
	c.exemplars = exemplars.New(h.opts.Head.MaxExemplars)
	c.stagings.New = func() any {
		sg := &staging{h: h}
		sg.commit.Apply = sg.apply
		return sg
	}
	c.metadata = &metadata.Table{}
	c.appenders.New = func() any { return &appenders{} }
}

// CommitResult is what a successful Commit did.
type CommitResult struct {
	Samples int // samples that are in the database now; exact repeats are not counted
	// Of these, by the kind that they have there: a stale marker behind a histogram is one.
	Floats, Histograms, FloatHistograms int

	// Rejected are samples that other commits, or this one, made late; ErrNotFound: their series
	// has left the head since they were appended, so append them again with their labels.
	Rejected []Reject
}

// Commit logs all staged samples and makes them visible, all or none. It ends the
// Appender. Durability on return: Options.WAL.Sync.
//
// A sample that became late since it was appended is left out and listed in the
// result. ErrNotCommitted: nothing was committed and nothing will appear later; the
// cause (ErrDiskFull, a context error, ErrReadOnly) is found by errors.Is as well.
// ErrIndeterminate: a sync failed. ErrClosed: the Appender or the DB is. A context
// that ends once the log is being written is ignored.
func (a *Appender) Commit(ctx context.Context) (res CommitResult, err error) {
	if a.staged == nil {
		return res, ErrClosed
	}
	sg := a.end()
	defer sg.release()
	log, err := a.h.ready(ctx)
	if err == nil && len(sg.samples) == 0 && len(sg.metadata.entries) == 0 && len(sg.exemplars.list) == 0 {
		err = log.Err()
	} else if err == nil {
		err = sg.run(ctx, log, &res)
	}
	if err != nil {
		res = CommitResult{}
	}
	return res, err
}

// ready returns the log, or why nothing can be committed.
func (h *head) ready(ctx context.Context) (*wal.Log, error) {
	if ctx == nil {
		return nil, notCommitted(errNilContext)
	}
	if err := ctx.Err(); err != nil {
		return nil, notCommitted(err)
	}
	if h.commits.closed.Load() {
		return nil, ErrClosed
	}
	log, err := h.writable()
	if err != nil {
		return nil, notCommitted(err)
	}
	return log, nil
}

// run takes what is staged through the commit protocol (docs/design/commit.md): reserve in
// the order of the log, write, apply in the same order, publish.
func (sg *staging) run(ctx context.Context, log *wal.Log, res *CommitResult) error {
	h := sg.h
	foreground.Begin()
	defer foreground.End()
	if err := sg.reserve(ctx, log, res); err != nil {
		return err
	}
	sg.encode()
	if err := log.Write(&sg.commit); err != nil { // behind the write it calls sg.apply
		sg.undo(log)
		return err
	}
	if len(sg.late.Kept) > 0 {
		_ = h.late.poison(h, sg.late.Write(&h.late.log)) // what is not there the log has
	}
	h.iso.WaitPublished(sg.commit.Seq())
	sg.exemplars.published(h)
	h.commits.done.Add(1)
	sg.count(res)
	h.writer.WakeUp()
	return nil
}

// count counts what was committed.
func (sg *staging) count(res *CommitResult) {
	c := &sg.h.commits
	c.rejected.Add(uint64(len(res.Rejected)))
	kinds, all := sg.wide.Kinds(sg.samples), len(sg.samples)
	if n := len(sg.late.Kept); n > 0 {
		late := sg.wide.Kinds(sg.late.Kept)
		sg.h.late.appended.Add(uint64(n))
		sg.h.late.histograms.Add(uint64(n - late[chunkenc.ValFloat]))
		for kind := range late {
			kinds[kind] += late[kind]
		}
		all += n
	}
	for kind, n := range kinds {
		if n > 0 {
			c.appended[kind].Add(uint64(n))
		}
	}
	res.Samples, res.Floats = all, kinds[chunkenc.ValFloat]
	res.Histograms, res.FloatHistograms = kinds[chunkenc.ValHistogram], kinds[chunkenc.ValFloatHistogram]
}

// reserve takes the next place in the log and raises the newest time of each series to what this
// commit will bring, so that later commits are judged by it. What is late is taken out.
func (sg *staging) reserve(ctx context.Context, log *wal.Log, res *CommitResult) error {
	h := sg.h
	if err := h.enqueue(ctx, log, &sg.commit, sg.shards); err != nil {
		return err
	}
	h.series.Shards.TakeTurnsLocked(sg.shards, &sg.turns)
	kept, late, minValid := 0, 0, h.bounds.minValid.Load() // the turns are drawn: a flush that raises it now waits for them (Shards.Barrier)
	samples := sg.samples
	for i := range samples {
		st := &samples[i]
		if st.Late != memseries.InOrder || st.Series.PendingT() >= st.T || st.T < minValid || st.Series.Dead() {
			sg.late.beside = headlate.Beside{Seq: sg.commit.Seq(), Wide: &sg.wide, Own: sg.samples[:kept]}
			if err := sg.reserveOtherLocked(st, minValid, &late); err != nil {
				res.Rejected = append(res.Rejected, Reject{i, SeriesRef(st.Series.Ref()), sg.refused.note(st, err)})
			}
			continue
		}
		if st.Encoding != chunkenc.EncXOR || memseries.OfHistograms(st.Series) {
			sg.wide.End(st, st.Series.PendingKind())
			memseries.ReserveKind(st.Series, st.Encoding)
		}
		st.Series.Reserve(st.T, st.Sum)
		sg.logLocked(st.Series)
		if kept < i {
			samples[kept] = *st
		}
		kept++
	}
	clear(samples[kept:])
	sg.samples = samples[:kept]
	if sg.hasNotes() {
		sg.metadata.reserveLocked(sg)
		sg.exemplars.reserveLocked(sg)
	}
	h.series.Shards.Unlock(sg.shards)
	return nil
}

// enqueue gives a commit its place in the log and returns with its shards locked, or
// with an error and nothing locked.
func (h *head) enqueue(ctx context.Context, log *wal.Log, c *wal.Commit, shards memseries.ShardSet) error {
	for {
		h.series.Shards.Lock(shards)
		err := log.Enqueue(c)
		if err == nil {
			return nil
		}
		h.series.Shards.Unlock(shards)
		if !errors.Is(err, wal.ErrRetry) {
			return notCommitted(err)
		}
		if err := log.WaitSettled(ctx); err != nil {
			return notCommitted(err)
		}
	}
}

// reserveOtherLocked is reserve for a sample that is not newer than its series, or not accepted in
// order. late counts those that were staged as late.
func (sg *staging) reserveOtherLocked(st *memseries.Sample, minValid int64, late *int) error {
	if st.Late != memseries.InOrder {
		*late++
		return sg.reserveLateLocked(st, *late-1)
	}
	return sg.becomeLateLocked(st, sg.refusedLocked(st, minValid))
}

// refusedLocked says why a sample is not taken. An exact repeat is no error: it is there, or comes
// with an older commit, without which this one does not succeed either.
func (sg *staging) refusedLocked(st *memseries.Sample, minValid int64) error {
	s := st.Series
	switch newest := s.PendingT(); {
	case st.T <= newest:
		return lateBy(st, newest, s.PendingSum())
	case s.Dead():
		return ErrNotFound
	default:
		return &BoundsError{T: st.T, From: minValid, To: sg.h.bounds.acceptsTo()}
	}
}

// apply adds the samples to their series, behind all commits that reserved before, and publishes
// them. The log calls it, maybe in the goroutine of another commit.
func (sg *staging) apply() {
	h := sg.h
	seq, floor := sg.commit.Seq(), h.iso.Floor()
	h.series.Shards.LockInTurn(sg.shards, &sg.turns)
	mint, maxt := h.series.Shards.ApplyLocked(sg.samples, &sg.wide, seq, floor, h.iso)
	if sg.hasNotes() {
		sg.metadata.applyLocked(sg)
		sg.exemplars.applyLocked(sg)
	}
	if len(sg.late.Kept) > 0 {
		sg.late.ApplyLocked(&h.series.Shards, &h.late.log, seq)
	}
	h.series.Shards.EndTurn(sg.shards)
	h.bounds.widen(mint, maxt)
	if invariants.Enabled {
		sg.checkApplied(seq, mint, maxt)
	}
	h.iso.Publish(seq)
}

// checkApplied holds what a reader relies on once a commit is published: its samples are there
// before it is, and the head says that it has them. Only then is a commit seen as a whole.
func (sg *staging) checkApplied(seq uint64, mint, maxt int64) {
	invariants.Check(sg.h.iso.Published() < seq, "commit %d is published before it is applied", seq)
	first, last := sg.h.bounds.minT.Load(), sg.h.bounds.maxT.Load()
	invariants.Check(first <= mint && maxt <= last, "commit %d has samples of [%d, %d], the head says [%d, %d]", seq, mint, maxt, first, last)
}

// undo takes the reservation back, in turn, and lets new commits in. Every commit
// behind this one fails as well, so each series falls back to what is applied.
func (sg *staging) undo(log *wal.Log) {
	h := sg.h
	h.series.Shards.LockInTurn(sg.shards, &sg.turns)
	for i := range sg.samples {
		h.series.Shards.UnreserveLocked(sg.samples[i].Series)
	}
	for _, s := range sg.fresh {
		s.SetLogged(false)
	}
	sg.exemplars.undo(sg)
	sg.late.Undo(h.late.store, sg.commit.Seq())
	h.series.Shards.EndTurn(sg.shards)
	log.Settle(&sg.commit)
	h.commits.failed.Add(1)
}

// notCommitted says that nothing was written, and why.
func notCommitted(cause error) error {
	if errors.Is(cause, ErrNotCommitted) || errors.Is(cause, ErrClosed) {
		return cause
	}
	return wal.NotCommitted(cause)
}
