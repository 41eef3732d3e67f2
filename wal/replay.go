package wal

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/foreground"
)

const (
	// batchBytes is how many stored bytes a batch has, unless a single commit is larger:
	// enough that handing it over costs nothing, little enough to stay in a core's cache.
	batchBytes = 128 << 10
	// maxUnits bounds the other dimension, for logs of tiny commits.
	maxUnits = 8 << 10
	// batchesPerDecoder: those being decoded. Two more are with the reader and with Apply, which
	// does not keep them.
	batchesPerDecoder = 1
)

// ReplayOptions configure Replay.
type ReplayOptions struct {
	FS       fileutil.FS
	Dir      string // where the segments are: .../wal
	Decoders int    // goroutines that decompress and Decode; 0 means GOMAXPROCS
	// From is where to begin; StaleReason has nothing against it. nil: with the checkpoint.
	From *Start
	// Reached is what is known from elsewhere of how far the log reached: what is missing of it is
	// damage then, and no torn end. nil: nothing.
	Reached *Reach
	// Bounds: Reached is what Log.Bounds returned, and says where the log began, too.
	Bounds bool
	// Decode prepares a batch for Apply, for example by decoding b.Records into
	// b.Scratch. It runs on several goroutines at once, each with a batch of its own.
	// When the reading rules drop a part of a batch it is called again, with fewer
	// records, and starts over. nil: nothing to do.
	Decode func(b *Batch)
	// Apply takes the batches in log order, from one goroutine, without empty ones. An
	// error ends the replay and is returned.
	Apply func(b *Batch) error
	// Progress is told how many bytes of how many are done, after each batch.
	Progress func(done, total int64)
	Batches  *Batches     // of the replay before this one, for the next one; nil: of this one alone
	Logger   *slog.Logger // nil: none
}

// Replay reads the checkpoint and the log after it and hands all records that count to
// Apply, in order. It changes nothing on disk. The reading rules (docs/format/wal.md)
// decide what counts: of what this library wrote, whole commits; after damage that
// no sync had covered, nothing more; of what others wrote, each whole record.
//
// Damage is no error: the report has it. Errors: ErrSegments, ErrVersion, of the file
// system, of Apply, of ctx. Memory is bounded by the number of decoders and the size
// of the largest commit.
func Replay(ctx context.Context, opts ReplayOptions) (*ReplayReport, error) {
	start := time.Now()
	if opts.Decoders <= 0 {
		opts.Decoders = runtime.GOMAXPROCS(0)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	list, err := readable(ctx, opts.FS, opts.Dir)
	if err != nil {
		return nil, err
	}
	if opts.From != nil {
		list = list.from(opts.From.Segment)
		if len(list.Segments) == 0 || list.Segments[0].Number != opts.From.Segment {
			return nil, segmentsError("segment %s, from which on the log was to be read, is gone", segmentName(opts.From.Segment))
		}
	}
	r := newReport(list)
	p := newPipeline(ctx, opts, r)
	if s := opts.From; s != nil {
		p.next, r.Watermark, r.NextRef = s.NextSeq, max(s.NextSeq-1, s.Synced), s.NextRef
	}
	if err := p.takeReach(opts.Reached); err != nil {
		return nil, err
	}
	err = p.run()
	r.Elapsed = time.Since(start)
	if err != nil {
		return nil, err
	}
	p.cutBehindCheckpoint()
	opts.Logger.Debug("replayed log", "segments", r.Segments, "records", r.Records, "last_seq", r.LastSeq, "elapsed", r.Elapsed)
	return r, nil
}

func newReport(list *Listing) *ReplayReport {
	r := &ReplayReport{Checkpoint: list.Checkpoint, listing: list, cpNumber: len(list.CheckpointSegments)}
	for _, files := range [][]SegmentFile{list.CheckpointSegments, list.Segments} {
		for _, f := range files {
			r.segments = append(r.segments, segmentState{file: f, cut: -1})
		}
	}
	r.Segments = len(r.segments)
	r.doubt()
	if list.Checkpoint >= 0 && r.cpNumber == 0 && !list.partial {
		r.Damages = append(r.Damages, Damage{File: list.CheckpointDir, Checkpoint: true, Reason: "checkpoint has no files"})
	}
	return r
}

// pipeline is one replay: a source that reads batches, decoders, and the rules, which
// run on the goroutine that called Replay. A batch goes to the decoders and, in
// order, to the rules, which wait until it is decoded; then it is free again.
type pipeline struct {
	opts   ReplayOptions
	report *ReplayReport
	ctx    context.Context
	stop   context.CancelFunc

	free  chan *Batch
	work  chan *Batch
	order chan *Batch
	total int64

	covered int    // segments to read; those behind are only asked who wrote them
	behind  uint64 // not 0: what is read ends before this commit, and all of it was synced
	next    uint64 // not 0: what is read begins with this commit

	reach *Reach // where the log reached, if that says something; nil: nobody knows

	makesWay bool // for commits and queries, as a checkpoint does

	skip func(segment int, seq uint64) bool // not nil: of these commits nobody wants the records
}

func newPipeline(ctx context.Context, opts ReplayOptions, r *ReplayReport) *pipeline {
	n := batchesPerDecoder*opts.Decoders + 2
	if opts.Batches == nil {
		opts.Batches = new(Batches)
	}
	p := &pipeline{opts: opts, report: r,
		free: make(chan *Batch, n), work: make(chan *Batch, n), order: make(chan *Batch, n),
		total: r.listing.Bytes(), covered: len(r.segments)}
	p.ctx, p.stop = context.WithCancel(ctx)
	for range n {
		p.free <- opts.Batches.take()
	}
	return p
}

// run returns when all goroutines have ended.
func (p *pipeline) run() error {
	defer p.stop()
	src := &source{pipeline: p}
	src.scan.buf = p.opts.Batches.buf[:0]
	var readErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(p.work)
		defer close(p.order)
		readErr = src.run()
	})
	busy := make([]time.Duration, p.opts.Decoders)
	for i := range busy {
		wg.Go(func() { busy[i] = p.decoder() })
	}
	rules := &rules{pipeline: p, report: p.report, expect: p.next,
		lost: ledger{report: p.report, numbered: p.next > 0, suspect: len(p.report.Damages)}}
	err := p.apply(rules)
	wg.Wait()
	p.opts.Batches.keep(p.free, src.scan.buf)
	p.report.ReaderBusy = src.busy
	for _, d := range busy {
		p.report.DecoderBusy += d
	}
	switch {
	case err != nil:
		return err
	case readErr != nil && !p.report.ended:
		return readErr
	}
	return rules.finish()
}

// decoder decodes batches until there are no more.
func (p *pipeline) decoder() (busy time.Duration) {
	d := decompressor{makesWay: p.makesWay}
	for b := range p.work {
		start := time.Now()
		b.skip(p)
		b.decode(&d)
		if p.opts.Decode != nil && len(b.Records) > 0 {
			p.opts.Decode(b)
		}
		busy += time.Since(start)
		b.ready <- struct{}{}
		if p.makesWay {
			foreground.MakeWay()
		}
	}
	return busy
}

// apply takes the batches in order. After an error, or the end of the log, it stops
// the source and lets the rest pass by.
func (p *pipeline) apply(rules *rules) (err error) {
	done := false
	for b := range p.order {
		<-b.ready
		if !done {
			start := time.Now()
			err = p.applyBatch(rules, b)
			p.report.ApplyBusy += time.Since(start)
			if done = err != nil || p.report.ended; done {
				p.stop()
			}
		}
		p.free <- b
	}
	return err
}

func (p *pipeline) applyBatch(rules *rules, b *Batch) error {
	changed, err := rules.judge(b)
	if err != nil {
		return err
	}
	if changed {
		b.collect()
		if p.opts.Decode != nil && len(b.Records) > 0 {
			p.opts.Decode(b)
		}
	}
	p.report.Records += len(b.Records)
	if len(b.Records) > 0 && p.opts.Apply != nil {
		b.Synced = p.report.Watermark
		if err := p.opts.Apply(b); err != nil {
			return err
		}
	}
	if p.opts.Progress != nil {
		p.opts.Progress(b.bytes, p.total)
	}
	return nil
}

// openSegment opens the i-th segment of the report.
func (p *pipeline) openSegment(i int) (fileutil.File, int64, error) {
	seg := &p.report.segments[i]
	f, err := p.opts.FS.Open(seg.file.Path)
	if err != nil {
		return nil, 0, errors.WithMessage(err, "open log segment")
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.WithMessage(fileutil.JoinErrors(err, f.Close()), "open log segment")
	}
	return f, size, nil
}
