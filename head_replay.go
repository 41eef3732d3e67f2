package tsdb

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memlimit"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Replay is a pipeline without barriers. The log's reader hands batches of checked
// records to decoders, one per CPU; each decoder splits the samples of its batch by
// ref. An ordered stage takes the batches as they stand in the log: it makes series,
// maps duplicate refs, and passes the samples on to workers, one per CPU. A worker
// owns the series with ref mod N and appends to them without a lock.

const (
	workerQueue   = 6         // batches that wait for a worker, beside those collected: about what it appends at once
	setsPerWorker = 48        // empty sets of parts that are kept: twice what a worker with many series collects
	maxRoom       = 64 << 10  // samples that a set of parts is prepared for: a usual batch
	decodeRun     = 512       // samples decoded at a time: 12 KiB, first-level cache
	leastHandover = 192 << 10 // bytes of full chunks that a worker collects before it hands them over
	mostHandover  = 256 << 10 // bytes that are handed over at a time: the writer copies them twice
	// bytesPerWorker is what a worker takes, and the decoder that there is for it: samples that wait, are
	// sorted, and full chunks; a batch and what it becomes. With many processors that is more than the
	// series of a small head, so under a limit of memory there are fewer.
	bytesPerWorker = 4 << 20

	maxWaiting = 512 << 10 // bytes of full chunks that a worker may have while others are written
)

// replay is the state of one recovery.
type replay struct {
	h       *Head
	report  *OpenReport
	workers []*replayWorker
	most    int                           // samples that a worker collects
	parts   chan *partSet                 // empty ones; kept across garbage collections, which empty a pool
	loaded  map[uint64][]memseries.Mapped // full chunks by the ref they were written under
	dups    map[uint64]uint64             // refs of the log whose labels another ref had before
	early   earlyRecords
	unread  record.Counts
	held    record.Counts // those of them with samples that no block has
	batches wal.Batches   // of the snapshot, and then of the log
	writer  chunkReplayWriter
	// readOnly: full chunks stay in memory, as nothing may be written.
	readOnly bool
	snapshot *snapshotLoad // what to begin with; nil: the log alone
	reach    *logreach.Reach
}

// decoded is what a decoder makes of a batch: runs of samples, cut where a tombstone
// record stands, because one that removes a series separates the samples before it
// from a series of the same labels after it.
type decoded struct {
	runs   []run
	unread []record.Type // of records without a decoder
	held   []record.Type // and of those with samples that no block has
	starts int           // samples with start timestamps
	err    *recordError
}

type run struct {
	series  []int // indexes of series records, which come before the samples
	samples []int // and of the sample records that parts was split from
	parts   *partSet
	stones  int // index of the tombstone record that ends the run; -1: none
}

// logFile names the segment of a record.
func logFile(rec wal.Record) string { return fmt.Sprintf("%s/%08d", walDirName, rec.Segment) }

// recordError is a record that passed its checksum and still made no sense.
type recordError struct {
	rec wal.Record
	err error
}

// work is a message to a worker.
type work struct {
	set     *partSet // of the last span of a worker; nil of those before
	span    sampleSpan
	seq     uint64          // newest commit of the samples
	synced  uint64          // commits known to be on stable storage
	barrier *sync.WaitGroup // not nil: tell that everything before is done
}

func (h *Head) newReplay(report *OpenReport, loaded map[uint64][]memseries.Mapped) *replay {
	r := &replay{h: h, report: report, loaded: loaded, dups: map[uint64]uint64{}}
	limit := memlimit.Bytes()
	n := memlimit.Workers(h.opts.Head.ReplayWorkers, bytesPerWorker, limit)
	r.most = mostCollected(limit, n)
	r.parts = make(chan *partSet, setsPerWorker*n)
	for range n {
		restorer := h.dir.NewRestorer()
		restorer.MinValid = h.minValid.Load()
		r.workers = append(r.workers, &replayWorker{
			restorer: restorer,
			queue:    make(chan work, workerQueue),
			written:  make(chan writtenChunks, 1),
		})
	}
	return r
}

// decode splits one batch; it runs on the log's decoder goroutines.
func (r *replay) decode(b *wal.Batch) {
	d, ok := b.Scratch.(*decoded)
	if !ok {
		d = &decoded{}
		b.Scratch = d
	}
	d.runs, d.unread, d.held, d.starts, d.err = d.runs[:0], d.unread[:0], d.held[:0], 0, nil
	cur := run{stones: -1}
	for i, rec := range b.Records {
		switch typ := record.TypeOf(rec.Data); typ {
		case record.TypeSeries:
			cur.series = append(cur.series, i)
		case record.TypeSamples, record.TypeSamplesV2:
			if cur.parts == nil {
				cur.parts = r.emptyParts()
				cur.parts.makeRoom(maxSamples(b.Records[i:]))
			}
			cur.samples = append(cur.samples, i)
			starts, err := cur.parts.split(rec.Data, nil)
			if err != nil && d.err == nil {
				d.err = &recordError{rec, err}
			}
			d.starts += starts
		case record.TypeTombstones:
			cur.stones = i
			d.runs = append(d.runs, cur)
			cur = run{stones: -1}
		default:
			d.unread = append(d.unread, typ)
			if record.HoldsUnread(rec.Data, r.h.minValid.Load()) {
				d.held = append(d.held, typ)
			}
		}
	}
	d.runs = append(d.runs, cur)
}

// apply is the ordered stage.
func (r *replay) apply(b *wal.Batch) error {
	d := b.Scratch.(*decoded)
	if d.err != nil {
		r.damage(d.err)
	}
	for _, typ := range d.unread {
		r.unread.Add(typ)
	}
	for _, typ := range d.held {
		r.held.Add(typ)
	}
	r.report.StartTimestamps += uint64(d.starts)
	for _, run := range d.runs {
		for _, i := range run.series {
			if err := r.applySeries(b.Records[i]); err != nil {
				return err
			}
		}
		r.adoptDups()
		if run.parts != nil {
			r.dispatch(run, b)
		}
		if run.stones >= 0 {
			if err := r.applyTombstones(b.Records[run.stones]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replay) damage(e *recordError) {
	r.report.Damages = append(r.report.Damages, Damage{
		File: logFile(e.rec), Offset: e.rec.Offset, Reason: e.err.Error(),
	})
}

// dispatch passes samples on to the workers that own their series.
func (r *replay) dispatch(run run, b *wal.Batch) {
	if len(r.dups) > 0 {
		r.remap(run, b)
	}
	r.send(run.parts, b.Records[len(b.Records)-1].Seq, b.Synced)
}

// remap splits the samples of a run once more, those of duplicate refs to the series
// that had the labels first. It goes by the records: among samples of several refs for
// one series their order counts.
func (r *replay) remap(run run, b *wal.Batch) {
	run.parts.clear()
	for _, i := range run.samples {
		// The decoder has reported what is wrong with the record.
		_, _ = run.parts.split(b.Records[i].Data, r.dups)
	}
}

// applySeries makes the series of a record.
func (r *replay) applySeries(rec wal.Record) error {
	var dec record.SeriesDecoder
	dec.Reset(rec.Data)
	for dec.Next() {
		ls, err := dec.Labels()
		if err != nil {
			break // Err says it
		}
		if err := r.restore(dec.Ref(), ls, rec); err != nil {
			return err
		}
	}
	if err := dec.Err(); err != nil {
		r.damage(&recordError{rec, err})
	}
	return nil
}

// restore makes one series, or learns that its ref is another name for one.
func (r *replay) restore(ref uint64, ls labels.Labels, rec wal.Record) error {
	dir, hash := r.h.dir, ls.Hash()
	if s := dir.ByRef(ref); s != nil {
		if dir.ByLabels(ls, hash) != s {
			r.damage(&recordError{rec, errors.Errorf("series ref %d has two label sets; the first one stays", ref)})
		}
		return nil
	}
	if s := dir.ByLabels(ls, hash); s != nil {
		r.dups[ref] = s.Ref()
		dir.RaiseNextRef(ref + 1)
		r.attachMore(s, ref)
		r.early.dups = append(r.early.dups, ref)
		r.applyEarlyTombstones(ref, s)
		return nil
	}
	if first, ok := r.dups[ref]; ok {
		r.damage(&recordError{rec, errors.Errorf("series ref %d stands for ref %d and has other labels; the first ones stay", ref, first)})
		return nil
	}
	s, err := dir.Restore(ref, ls, hash)
	if errors.Is(err, memseries.ErrRefUsed) {
		r.damage(&recordError{rec, errors.Errorf("series ref %d was that of a series that is gone", ref)})
		return nil
	}
	if err != nil {
		return errors.WithMessagef(err, "series record in %s at offset %d: ref %d", logFile(rec), rec.Offset, ref)
	}
	if ms := r.loaded[ref]; ms != nil {
		dir.Attach(s, ms)
		delete(r.loaded, ref)
	}
	r.applyEarlyTombstones(ref, s)
	return nil
}

// attachMore hands full chunks that were written under a duplicate ref to the series.
// Its worker may be at it, so all of them come to rest first; this is rare.
func (r *replay) attachMore(s *memseries.Series, ref uint64) {
	ms := r.loaded[ref]
	if ms == nil {
		return
	}
	delete(r.loaded, ref)
	r.barrier()
	r.h.dir.AttachMore(s, ms)
}

// applyTombstones notes deleted intervals, and drops series that the log says were
// removed as a whole.
func (r *replay) applyTombstones(rec wal.Record) error {
	var dec record.TombstoneDecoder
	dec.Reset(rec.Data)
	for dec.Next() {
		stone := dec.At()
		if ref, ok := r.dups[stone.Ref]; ok {
			stone.Ref = ref
		}
		r.h.dir.RaiseNextRef(stone.Ref + 1)
		s := r.h.dir.ByRef(stone.Ref)
		switch {
		case stone.Mint > stone.Maxt || stone.Maxt < r.h.minValid.Load():
		case s == nil:
			r.early.keep(stone)
		case stone.WholeSeries():
			r.barrier()
			r.adopt(stone.Ref, s)
			r.h.dir.Drop(s)
			maps.DeleteFunc(r.dups, func(_, ref uint64) bool { return ref == stone.Ref })
		default:
			r.h.tombs.Load().Add(stone.Ref, tombstones.Interval{Mint: stone.Mint, Maxt: stone.Maxt})
			r.report.Tombstones++
		}
	}
	if err := dec.Err(); err != nil {
		r.damage(&recordError{rec, err})
	}
	return nil
}

// barrier waits until the workers have done all that they were given.
func (r *replay) barrier() {
	var wg sync.WaitGroup
	wg.Add(len(r.workers))
	for _, w := range r.workers {
		w.queue <- work{barrier: &wg}
	}
	wg.Wait()
}

// run replays the log of dir, behind the snapshot if there is one.
func (r *replay) run(ctx context.Context, walDir string) (*wal.ReplayReport, error) {
	r.writer.start(r.h)
	var wg sync.WaitGroup
	for _, w := range r.workers {
		wg.Go(func() { w.run(r) })
	}
	p := progress{report: r.h.opts.Progress, logger: r.h.opts.Logger, shown: -progressEvery}
	p.begun = time.Now()
	rep, err := r.read(ctx, walDir, &p)
	if err == nil {
		p.end()
	}
	for _, w := range r.workers {
		close(w.queue)
	}
	wg.Wait()
	r.writer.stop()
	r.collect()
	switch failed := r.writer.err; {
	case err == nil && errors.Is(failed, chunks.ErrPoisoned):
		return nil, errors.WithMessage(poisoned(failed), "write head chunks")
	case failed != nil:
		r.h.opts.Logger.Warn("write head chunks during replay", "error", logged(failed))
	}
	return rep, err
}

// read reads snapshot and log, while the workers work.
func (r *replay) read(ctx context.Context, walDir string, p *progress) (*wal.ReplayReport, error) {
	opts := wal.ReplayOptions{
		FS: r.h.opts.FS, Dir: walDir,
		Decoders: len(r.workers),
		Decode:   r.decode, Apply: r.apply,
		Progress: p.tell, Batches: &r.batches, Logger: r.h.opts.Logger, Reached: r.reach.ForReplay(),
	}
	if s := r.snapshot; s != nil {
		list, err := wal.List(r.h.opts.FS, walDir)
		if err != nil {
			return nil, err
		}
		p.more = tailBytes(list, s.meta.Start.Segment)
		if err := s.run(ctx, r, p.tell); err != nil {
			return nil, err
		}
		p.before, p.more = s.meta.Sum.Bytes, 0
		opts.From = &s.meta.Start
	}
	return wal.Replay(ctx, opts)
}

// Progress is reported this often at most.
const (
	progressEvery    = 200 * time.Millisecond // to the callback
	progressLogEvery = 5 * time.Second
)

// progress thins the log's progress out for the callback and the logger.
type progress struct {
	report        func(RecoveryProgress) // may be nil
	logger        *slog.Logger
	begun         time.Time
	shown, logged time.Duration // when report and logger were called last
	last          RecoveryProgress
	before, more  int64 // bytes of what was read before, and is read behind
}

func (p *progress) tell(done, total int64) {
	done, total = p.before+done, p.before+total+p.more
	elapsed := time.Since(p.begun)
	p.last = RecoveryProgress{Done: done, Total: total}
	if p.report != nil && done < total && elapsed-p.shown >= progressEvery {
		p.shown = elapsed
		p.report(p.last)
	}
	if elapsed-p.logged >= progressLogEvery {
		p.logged = elapsed
		p.logger.Info("replaying log", "done_bytes", done, "total_bytes", total, "elapsed", elapsed)
	}
}

// end tells that all is done: also when there is no log, or it ended early.
func (p *progress) end() {
	if p.report != nil {
		p.report(RecoveryProgress{Done: p.last.Total, Total: p.last.Total})
	}
}

// collect sums up what the workers counted and takes over what they hold.
func (r *replay) collect() {
	rep := r.report
	for _, w := range r.workers {
		w.restorer.Close()
		rep.Samples += w.restorer.Samples
		rep.SamplesInChunks += w.restorer.Covered
		rep.SamplesLate += w.restorer.Late
		rep.SamplesUnknown += w.restorer.Unknown
		rep.SamplesInBlocks += w.restorer.Old
		rep.SeriesRebuilt += int(w.restorer.Holes)
		rep.WorkerBusy += w.busy
	}
	// Samples of duplicate refs may stay in the log for as long as it likes.
	for ref := range r.dups {
		r.h.trunc.remember(math.MaxInt, ref)
	}
	rep.UnreadRecords, rep.UnreadSampleRecords = r.unread.Names(), r.held.Total()
	r.h.unread = r.held
}
