package replay

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memlimit"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/metadata"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// Replay is a pipeline without barriers. The log's reader hands batches of checked
// records to decoders, one per CPU; each decoder splits the samples of its batch by
// ref. An ordered stage takes the batches as they stand in the log: it makes series,
// maps duplicate refs, and passes the samples on to workers, one per CPU. A worker
// owns the series with ref mod N and appends to them without a lock.

// StoreBytes is how many bytes of full chunks are handed over at a time: the writer copies them
// twice.
const StoreBytes = 256 << 10

const (
	workerQueue   = 6         // batches that wait for a worker, beside those collected: about what it appends at once
	setsPerWorker = 48        // empty sets of parts that are kept: twice what a worker with many series collects
	maxRoom       = 64 << 10  // samples that a set of parts is prepared for: a usual batch
	decodeLen     = 512       // samples decoded at a time: 12 KiB, first-level cache
	leastHandover = 192 << 10 // bytes of full chunks that a worker collects before it hands them over
	// bytesPerWorker is what a worker takes, and the decoder that there is for it: samples that
	// wait, are sorted, and full chunks; a batch and what it becomes. With many processors that is
	// more than the series of a small head, so under a limit of memory there are fewer.
	bytesPerWorker = 4 << 20

	maxDamages = 1000 // that a report has, each for itself

	maxWaiting = 512 << 10 // bytes of full chunks that a worker may have while others are written
)

// Target is what Run fills.
type Target struct {
	Series   *memseries.Directory // empty
	MinValid int64                // milliseconds; what is before is in blocks, and not wanted
	Chunks   *chunks.HeadFiles    // open and not loaded; full chunks that have not to be made again
	// Exemplars takes those that are read; nil: none are wanted.
	Exemplars *exemplars.Ring
	// Late takes late samples, those of the out-of-order log, too; it is empty. nil: none are
	// wanted.
	Late  *late.Restorer
	Store Store // nil: nothing is written, and full chunks stay in memory
}

// Store puts full chunks into files while the log is read, so that recovery needs no more memory
// than the process did before.
type Store interface {
	// StoreFull writes chunks, which have their Data and at most StoreBytes of it, or are one, and
	// returns where the first of them are. An error says why the others are nowhere; then it is not
	// called again. One goroutine calls it at a time.
	StoreFull(fulls []memseries.Full) ([]chunks.Ref, error)
}

// Options say what Run reads, and how.
type Options struct {
	FS       fileutil.FS
	WALDir   string          // where the segments are
	LateDir  string          // where those of the out-of-order log are, if there are any
	Reach    *logreach.Reach // what is known of how far the log reached
	Snapshot *Snapshot       // to begin with; nil: the log alone
	Workers  int             // at most: with little memory there are fewer
	// Progress is told how many bytes of snapshot and log of how many are read, from one goroutine:
	// a few times a second at most, and once at the end. Nil: nobody is.
	Progress func(done, total int64)
	Logger   *slog.Logger
}

// replay is the state of one recovery.
type replay struct {
	to          Target
	restoration memseries.Restoration // of to.Series
	opts        Options
	out         *Report
	workers     []*worker
	most        int                           // samples that a worker collects
	parts       chan *partSet                 // empty ones; kept across garbage collections, which empty a pool
	loaded      map[uint64][]memseries.Mapped // full chunks by the ref they were written under
	dups        map[uint64]uint64             // refs of the log whose labels another ref had before
	early       earlyRecords
	exemplars   exemplarLoad
	late        lateLoad
	batches     wal.Batches // of the snapshot, and then of the log
	writer      chunkWriter
	newest      struct { // scratch
		ints   histogram.Histogram
		floats histogram.FloatHistogram
	}
}

// decoded is what a decoder makes of a batch: stretches of it, cut where a tombstone
// record stands, because one that removes a series separates the samples before it
// from a series of the same labels after it.
type decoded struct {
	stretches []stretch
	unread    []record.Type // of records without a decoder
	held      []record.Type // and of those with samples that no block has
	invalid   int           // histograms that make no sense
	errs      []recordError
}

// stretch is records of a batch up to a tombstone record, or to the end.
type stretch struct {
	series    []int // indexes of series records, which come before the samples
	exemplars []int // indexes of exemplar records, whose order to the samples is of no matter
	late      []int // and of records of late samples, and of the out-of-order log
	metadata  []int // indexes of metadata records
	samples   []int // and of the sample records that parts was split from
	parts     *partSet
	stones    int // index of the tombstone record that ends it; -1: none
}

// logFile names the segment of a record.
func (r *replay) logFile(rec wal.Record) string {
	return fmt.Sprintf("%s/%08d", filepath.Base(r.opts.WALDir), rec.Segment)
}

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

// Run brings the series of a Target back as the log has them, with their full chunks, and makes
// them ordinary ones. Damage of the log is no error. If there is a snapshot, an error may say that
// it, or what it builds on, is not as it was; what was made of it is worth nothing then. Errors of
// the log: those of wal.Replay. After a sync that failed it is wal.ErrPoisoned.
func Run(ctx context.Context, to Target, opts Options) (*Report, error) {
	var load *snapshotLoad
	if opts.Snapshot != nil {
		load = &snapshotLoad{Snapshot: *opts.Snapshot}
	}
	p := newProgress(opts.Progress, opts.Logger)
	opts.Progress = p.tell
	r := newReplay(to, opts)
	if err := r.loadChunks(load); err != nil {
		return nil, err
	}
	if err := r.late.begin(r); err != nil {
		return nil, err
	}
	if err := r.run(ctx, load); err != nil {
		return nil, errors.WithMessage(err, "replay log")
	}
	r.holdAgainstLog()
	if err := r.restoration.Finish(r.out.Log.LastSeq, r.newestOf); err != nil {
		return nil, errors.WithMessage(err, "read newest chunks")
	}
	if load != nil {
		if err := load.fits(r.out.Log, r.out.LogLost); err != nil {
			return nil, err
		}
	}
	if err := r.late.run(ctx, r, load); err != nil {
		return nil, err
	}
	p.end()
	return r.out, nil
}

func newReplay(to Target, opts Options) *replay {
	r := &replay{to: to, restoration: memseries.NewRestoration(to.Series), opts: opts, loaded: map[uint64][]memseries.Mapped{}, dups: map[uint64]uint64{}}
	r.out = &Report{Tombs: &tombstones.Set{}, Metadata: &metadata.Table{}}
	limit := memlimit.Bytes()
	n := memlimit.Workers(opts.Workers, bytesPerWorker, limit)
	r.most = mostCollected(limit, n)
	r.parts = make(chan *partSet, setsPerWorker*n)
	for range n {
		restorer := r.restoration.NewRestorer()
		restorer.EncodingOf(r.encodingOf)
		restorer.MinValid = to.MinValid
		r.workers = append(r.workers, &worker{
			restorer: restorer,
			queue:    make(chan work, workerQueue),
			written:  make(chan writtenChunks, 1),
			oldest:   math.MaxInt64,
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
	d.stretches, d.unread, d.held, d.invalid, d.errs = d.stretches[:0], d.unread[:0], d.held[:0], 0, d.errs[:0]
	cur := stretch{stones: -1}
	for i, rec := range b.Records {
		switch typ := record.TypeOf(rec.Data); typ {
		case record.TypeSeries:
			cur.series = append(cur.series, i)
		case record.TypeSamples, record.TypeSamplesV2:
			cur.makeRoom(r, b.Records[i:])
			cur.samples = append(cur.samples, i)
			if err := cur.parts.split(rec.Data, nil); err != nil {
				d.errs = append(d.errs, recordError{rec, err})
			}
		case record.TypeTombstones, record.TypeLateTombstones:
			cur.stones = i
			d.stretches = append(d.stretches, cur)
			cur = stretch{stones: -1}
		case record.TypeExemplars:
			cur.exemplars = append(cur.exemplars, i)
		case record.TypeLate, record.TypeLateReach:
			cur.late = append(cur.late, i)
		case record.TypeMetadata:
			cur.metadata = append(cur.metadata, i)
		default:
			if typ.HoldsHistograms() {
				cur.addHistograms(r, d, b.Records, i)
				continue
			}
			d.unread = append(d.unread, typ)
			if typ.HoldsSamples() {
				d.held = append(d.held, typ)
			}
		}
	}
	d.stretches = append(d.stretches, cur)
}

// makeRoom sees to it that there are parts, with room for the samples of the records that are left
// of a batch.
func (s *stretch) makeRoom(r *replay, records []wal.Record) {
	if s.parts == nil {
		s.parts = r.emptyParts()
		s.parts.makeRoom(maxSamples(records))
		s.parts.makeWideRoom(records)
	}
}

// addHistograms splits record number i of its batch, which is one of histograms.
func (s *stretch) addHistograms(r *replay, d *decoded, batch []wal.Record, i int) {
	s.makeRoom(r, batch[i:])
	s.samples = append(s.samples, i)
	invalid, err := s.parts.splitHistograms(batch[i].Data, nil)
	d.invalid += invalid
	if err != nil {
		d.errs = append(d.errs, recordError{batch[i], err})
	}
}

// apply is the ordered stage.
func (r *replay) apply(b *wal.Batch) error {
	d := b.Scratch.(*decoded)
	for i := range d.errs {
		r.damage(&d.errs[i])
	}
	r.out.SamplesInvalid += uint64(d.invalid)
	for _, typ := range d.unread {
		r.out.Unread.Add(typ)
	}
	for _, typ := range d.held {
		r.out.Held.Add(typ)
	}
	for _, s := range d.stretches {
		for _, i := range s.series {
			if err := r.applySeries(b.Records[i]); err != nil {
				return err
			}
		}
		r.adoptDups()
		for _, i := range s.metadata {
			if err := addMetadata(r, b.Records[i].Data, r.early.metadata.keep); err != nil {
				r.damage(&recordError{b.Records[i], err})
			}
		}
		for _, i := range s.exemplars {
			r.exemplars.record(r, b.Records[i])
		}
		for _, i := range s.late {
			r.late.record(r, b.Records[i])
		}
		if s.parts != nil {
			r.dispatch(s, b)
		}
		if s.stones >= 0 {
			r.applyTombstones(b.Records[s.stones])
		}
	}
	return nil
}

func (r *replay) damage(e *recordError) {
	if n := len(r.out.Damages); n >= maxDamages {
		r.out.omitted++
		r.out.Damages[n-1].Reason = fmt.Sprintf("this record and %d more make no sense", r.out.omitted)
		return
	}
	r.out.Damages = append(r.out.Damages, Damage{
		File: r.logFile(e.rec), Offset: e.rec.Offset, Reason: e.err.Error(),
	})
}

// dispatch passes samples on to the workers that own their series.
func (r *replay) dispatch(s stretch, b *wal.Batch) {
	if len(r.dups) > 0 {
		r.remap(s, b)
	}
	r.send(s.parts, b.Records[len(b.Records)-1].Seq, b.Synced)
}

// remap splits the samples of a stretch once more, those of duplicate refs to the series
// that had the labels first. It goes by the records: among samples of several refs for
// one series their order counts.
func (r *replay) remap(s stretch, b *wal.Batch) {
	s.parts.clear()
	for _, i := range s.samples {
		// The decoder has reported what is wrong with the record.
		if rec := b.Records[i].Data; record.TypeOf(rec).HoldsHistograms() {
			_, _ = s.parts.splitHistograms(rec, r.dups)
		} else {
			_ = s.parts.split(rec, r.dups)
		}
	}
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

// run reads the log, behind the snapshot if there is one.
func (r *replay) run(ctx context.Context, load *snapshotLoad) (err error) {
	if r.to.Store != nil {
		r.writer.start(r.to, len(r.workers))
	}
	var wg sync.WaitGroup
	for _, w := range r.workers {
		wg.Go(func() { w.run(r) })
	}
	r.out.Log, err = r.read(ctx, load)
	for _, w := range r.workers {
		close(w.queue)
	}
	wg.Wait()
	if r.to.Store != nil {
		r.out.StoreErr = r.writer.stop()
	}
	r.collect()
	switch failed := r.out.StoreErr; {
	case err == nil && errors.Is(failed, chunks.ErrPoisoned):
		return errors.WithMessage(wal.Poisoned(failed), "write head chunks")
	case failed != nil:
		r.opts.Logger.Warn("write head chunks during replay", "error", fileutil.Logged(failed))
	}
	return err
}

// read reads snapshot and log, while the workers work.
func (r *replay) read(ctx context.Context, load *snapshotLoad) (*wal.ReplayReport, error) {
	opts := wal.ReplayOptions{
		FS: r.opts.FS, Dir: r.opts.WALDir,
		Decoders: len(r.workers),
		Decode:   r.decode, Apply: r.apply,
		Progress: r.opts.Progress, Batches: &r.batches, Logger: r.opts.Logger, Reached: r.opts.Reach.ForReplay(),
	}
	if load == nil {
		return wal.Replay(ctx, opts)
	}
	list, err := wal.List(r.opts.FS, r.opts.WALDir)
	if err != nil {
		return nil, err
	}
	behind := list.BytesFrom(load.Meta.Start.Segment)
	if err := load.run(ctx, r, func(done, total int64) { r.opts.Progress(done, total+behind) }); err != nil {
		return nil, err
	}
	before := load.Meta.Sum.Bytes
	opts.Progress = func(done, total int64) { r.opts.Progress(before+done, before+total) }
	opts.From = &load.Meta.Start
	return wal.Replay(ctx, opts)
}

// collect sums up what the workers counted and takes over what they hold.
func (r *replay) collect() {
	rep := r.out
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
	r.exemplars.end(r)
	rep.MetadataUnknown = r.early.metadata.left()
	// Samples of duplicate refs may stay in the log for as long as it likes.
	for ref := range r.dups {
		rep.Gone = append(rep.Gone, headsnap.Gone{Ref: ref, Segment: math.MaxInt})
	}
}
