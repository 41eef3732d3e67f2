package replay

import (
	"context"
	"io/fs"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// Late samples stand in both logs: in the log under the frame of their commit, which decides, until
// a checkpoint leaves them out; in the out-of-order log until they are in blocks. What both have is
// taken once (docs/design/late-samples.md).

// LateReport is what was read of late samples.
type LateReport struct {
	Log     *wal.ReplayReport // of the out-of-order log; nil: there is none
	Samples uint64            // that were taken; of both logs once, but for what one of them says in part
	Unknown uint64            // without a series record, and not deleted
	Invalid uint64            // histograms that make no sense
	Void    uint64            // of commits that the log does not have
	Chunks  int               // out-of-order chunks in head-chunk files
	// Incomplete: the out-of-order log lacks something that was read elsewhere, or has what does
	// not count.
	Incomplete bool
	// NextSegment is that of the out-of-order log behind all that the log speaks of.
	NextSegment int
	Taken       chunks.Ref // out-of-order chunks before it are in the out-of-order log, or in blocks
}

// lateLoad reads late samples.
type lateLoad struct {
	reach   logreach.Late
	commits []uint64 // of the log that have late samples, ascending
	partly  bool     // a record of these could not be read to its end
	had     []uint64 // of these and others, what the out-of-order log has
	deletes []lateDelete
	unknown map[uint64]uint64  // samples without a series record, by ref
	stones  map[uint64]bool    // refs without a series record of which something was deleted
	marked  []record.Tombstone // intervals of late samples alone, which the next tombstone record has at its end
	renamed bool               // something has the ref of a series that another ref had before, of which only this log tells
	chunks  []chunks.HeadChunk

	dec     record.HistogramDecoder
	ints    histogram.Histogram
	floats  histogram.FloatHistogram
	samples [decodeLen]record.Sample
	starts  [decodeLen]int64
}

// lateDelete is a delete of a series, by a commit of the log.
type lateDelete struct{ ref, seq uint64 }

// record takes a record of the log.
func (l *lateLoad) record(r *replay, rec wal.Record) {
	if record.TypeOf(rec.Data) == record.TypeLateReach {
		if err := l.noteReach(r, rec.Data); err != nil {
			l.damage(r, rec, err)
		}
		return
	}
	segment, samples, err := record.ReadLate(rec.Data)
	if err != nil {
		l.damage(r, rec, err)
		return
	}
	r.out.Late.NextSegment = max(r.out.Late.NextSegment, segment+1)
	if segment >= l.reach.Oldest && r.to.Late != nil { // else blocks have it
		if n := len(l.commits); n == 0 || l.commits[n-1] != rec.Seq {
			l.commits = append(l.commits, rec.Seq)
		}
		l.take(r, rec, samples, rec.Seq)
	}
}

// noteReach takes a record of how far the out-of-order log reached.
func (l *lateLoad) noteReach(r *replay, rec []byte) error {
	noted, err := record.ReadLateReach(rec)
	if err == nil {
		l.reach.Noted = noted
		r.out.Late.NextSegment = max(r.out.Late.NextSegment, noted.Segment+1)
	}
	return err
}

// take adds the samples of a record, which has no prefix any more.
func (l *lateLoad) take(r *replay, rec wal.Record, data []byte, seq uint64) {
	var err error
	if record.TypeOf(data).HoldsHistograms() {
		err = l.histograms(r, data, seq)
	} else {
		err = l.floatSamples(r, data, seq)
	}
	if err != nil {
		l.damage(r, rec, err)
	}
}

// damage reports a record, and that what it says is not known.
//
//go:noinline
func (l *lateLoad) damage(r *replay, rec wal.Record, err error) {
	l.partly = true
	r.damage(&recordError{rec, err})
}

// has reports whether the log has all samples of a commit that the out-of-order log has, too.
func (l *lateLoad) has(seq uint64) bool {
	_, found := slices.BinarySearch(l.commits, seq)
	return found && !l.partly
}

func (l *lateLoad) floatSamples(r *replay, data []byte, seq uint64) error {
	var dec record.SampleDecoder
	dec.Reset(data)
	for {
		n, err := dec.DecodeStarts(l.samples[:], l.starts[:])
		for i := range l.samples[:n] {
			s := late.Sample{T: l.samples[i].T, Sum: math.Float64bits(l.samples[i].V), ST: l.starts[i], Encoding: chunkenc.EncXOR}
			if s.ST != 0 {
				s.Encoding = chunkenc.EncXOR2
			}
			l.add(r, l.samples[i].Ref, &s, seq)
		}
		if err != nil || n < len(l.samples) {
			return err
		}
	}
}

func (l *lateLoad) histograms(r *replay, data []byte, seq uint64) error {
	for l.dec.Reset(data); l.dec.Next(); {
		s := late.Sample{T: l.dec.T(), ST: l.dec.ST(), Encoding: chunkenc.EncHistogram, Body: l.dec.Entry()}
		err := l.dec.Check()
		switch {
		case err != nil:
		case l.dec.Floats():
			s.Encoding = chunkenc.EncFloatHistogram
			err = l.dec.DecodeFloat(&l.floats)
			s.Sum = l.floats.Digest()
		default:
			err = l.dec.DecodeInt(&l.ints)
			s.Sum = l.ints.Digest()
		}
		if err != nil {
			r.out.Late.Invalid++
			continue
		}
		l.add(r, l.dec.Ref(), &s, seq)
	}
	return l.dec.Err()
}

// add adds one sample.
func (l *lateLoad) add(r *replay, ref uint64, s *late.Sample, seq uint64) {
	if of, ok := r.dups[ref]; ok {
		ref, l.renamed = of, true
	}
	switch {
	case s.T <= memseries.NoTime || s.T == math.MaxInt64: // no sample has these times
		r.out.Late.Invalid++
		return
	case r.to.Series.ByRef(ref) != nil:
	case r.out.Log != nil && seq > r.out.Log.LastSeq:
		r.out.Late.Void++
		return
	default:
		if l.unknown == nil {
			l.unknown = map[uint64]uint64{}
		}
		l.unknown[ref]++
		return
	}
	r.out.Late.Samples++
	r.to.Late.Add(ref, s, seq)
}

// delete takes a deleted interval of the log, or of the out-of-order log.
func (l *lateLoad) delete(r *replay, stone record.Tombstone, seq uint64) {
	if of, ok := r.dups[stone.Ref]; ok {
		stone.Ref = of
	}
	switch {
	case r.to.Late == nil:
	case r.to.Series.ByRef(stone.Ref) == nil: // it left when its last sample was deleted, maybe
		if l.stones == nil {
			l.stones = map[uint64]bool{}
		}
		l.stones[stone.Ref] = true
	case stone.Mint <= stone.Maxt:
		l.deletes = append(l.deletes, lateDelete{stone.Ref, seq})
		r.to.Late.Delete(stone.Ref, tombstones.Interval{Mint: stone.Mint, Maxt: stone.Maxt}, seq)
	}
}

// begin finds out where the out-of-order log begins.
func (l *lateLoad) begin(r *replay) error {
	if r.to.Late == nil {
		return nil
	}
	return l.reach.List(r.opts.FS, r.opts.LateDir)
}

// run reads the out-of-order log and the chunks behind the log, when all series are known. If that
// log has lost something, a snapshot is worth nothing: the log before it may still have it.
func (l *lateLoad) run(ctx context.Context, r *replay, snap *snapshotLoad) error {
	if r.to.Late == nil {
		return nil
	}
	out := &r.out.Late
	if err := l.read(ctx, r); err != nil {
		return errors.WithMessage(err, "replay out-of-order log")
	}
	if snap != nil && out.Log != nil && logreach.StateOf(out.Log, &logreach.Reach{}).Lost {
		return snap.damage("the out-of-order log is damaged")
	}
	for _, c := range l.chunks {
		if c.Ref < out.Taken {
			continue
		}
		if err := l.chunk(r, c); err != nil {
			r.out.Damages = append(r.out.Damages, Damage{File: chunksDirName, Reason: err.Error()})
			continue
		}
		out.Chunks++
	}
	out.Incomplete = l.isIncomplete(r)
	void, err := r.to.Late.Finish(r.out.Log.LastSeq)
	out.Void += uint64(void)
	for ref, n := range l.unknown {
		if !l.stones[ref] {
			out.Unknown += n
		}
	}
	return err
}

// read reads the out-of-order log, if there is or was one.
func (l *lateLoad) read(ctx context.Context, r *replay) error {
	if _, err := r.opts.FS.Stat(r.opts.LateDir); errors.Is(err, fs.ErrNotExist) && l.reach.Noted == nil {
		return nil
	}
	if err := l.reach.List(r.opts.FS, r.opts.LateDir); err != nil {
		return err
	}
	log, err := wal.Replay(ctx, wal.ReplayOptions{
		FS: r.opts.FS, Dir: r.opts.LateDir, Decoders: len(r.workers), Logger: r.opts.Logger, Reached: l.reach.ForReplay(), Bounds: true,
		Apply: func(b *wal.Batch) error { l.apply(r, b); return nil },
	})
	if err == nil {
		l.reach.Weigh(log)
		r.out.Late.Log = log
	}
	return err
}

// isIncomplete reports whether the out-of-order log says something else than what was read.
func (l *lateLoad) isIncomplete(r *replay) bool {
	out := &r.out.Late
	if l.renamed || out.Chunks > 0 || l.reach.BeginsElsewhere() || out.Log != nil && (len(out.Log.Damages) > 0 || out.Log.Foreign > 0) {
		return true
	}
	slices.Sort(l.had)
	if n := len(l.had); n > 0 && l.had[n-1] > r.out.Log.LastSeq {
		return true // numbers that are given out again
	}
	for _, seq := range l.commits {
		if _, found := slices.BinarySearch(l.had, seq); !found {
			return true
		}
	}
	for _, d := range l.deletes {
		if _, found := slices.BinarySearch(l.had, d.seq); !found && r.to.Late.Has(d.ref) {
			return true
		}
	}
	return false
}

// chunksDirName is how reports call the head-chunk files.
const chunksDirName = "chunks_head"

// apply takes a batch of the out-of-order log.
func (l *lateLoad) apply(r *replay, b *wal.Batch) {
	of, taken := uint64(late.Foreign), false // the commit of the log, and whether that has its samples
	for i, own := 0, uint64(0); i < len(b.Records); i++ {
		rec := b.Records[i]
		if rec.Seq == 0 || rec.Seq != own {
			of, own, taken = late.Foreign, rec.Seq, false
		}
		switch typ := record.TypeOf(rec.Data); typ {
		case record.TypeLateCommit:
			seq, err := record.ReadLateCommit(rec.Data)
			if err != nil {
				r.damage(&recordError{rec, err})
				continue
			}
			of, taken = seq, l.has(seq)
			l.had = append(l.had, seq)
		case record.TypeLateDump:
			seq, err := record.ReadLateCommit(rec.Data)
			if err != nil {
				r.damage(&recordError{rec, err})
				continue
			}
			of, taken = seq, false // what it says is no commit: some of it may be missing
		case record.TypeLateTombstones:
			l.tombstones(r, rec, of)
		case record.TypeLateChunks:
			ref, err := record.ReadLateChunks(rec.Data)
			if err != nil {
				r.damage(&recordError{rec, err})
				continue
			}
			r.out.Late.Taken, l.reach.Marked = max(r.out.Late.Taken, chunks.Ref(ref)), true
		case record.TypeMmapMarkers:
			// What is in chunks is taken once, as is what both logs have.
		default:
			if !typ.HoldsSamples() || !typ.Known() {
				r.out.Unread.Add(typ)
				continue
			}
			if !taken {
				l.take(r, rec, rec.Data, of)
			}
		}
	}
}

func (l *lateLoad) tombstones(r *replay, rec wal.Record, seq uint64) {
	for _, stone := range stonesOf(r, rec, record.ReadLateTombstones(rec.Data), nil) {
		l.delete(r, stone, seq)
	}
}

// unmarked returns how many of the intervals of a record of the log are not of late samples alone.
// Those that are stand at its end, and in the record before it.
func (l *lateLoad) unmarked(stones []record.Tombstone) int {
	n := len(stones) - len(l.marked)
	if n < 0 || !slices.Equal(stones[n:], l.marked) {
		n = len(stones)
	}
	l.marked = l.marked[:0]
	return n
}

// chunk takes the samples of an out-of-order chunk, which another engine wrote.
func (l *lateLoad) chunk(r *replay, c chunks.HeadChunk) error {
	enc, data, err := r.to.Chunks.Read(c.Ref, nil)
	if err != nil {
		return err
	}
	chunk, err := chunkenc.FromData(enc, data)
	if err != nil {
		return err
	}
	var body []byte
	it := chunk.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		s := late.Sample{T: it.AtT(), ST: it.AtST(), Encoding: chunkenc.EncXOR}
		switch kind {
		case chunkenc.ValHistogram:
			it.AtHistogram(&l.ints)
			s.Encoding, s.Sum = chunkenc.EncHistogram, l.ints.Digest()
			body = record.AppendHistogram(body[:0], &l.ints)
			s.Body = body
		case chunkenc.ValFloatHistogram:
			it.AtFloatHistogram(&l.floats)
			s.Encoding, s.Sum = chunkenc.EncFloatHistogram, l.floats.Digest()
			body = record.AppendFloatHistogram(body[:0], &l.floats)
			s.Body = body
		default:
			_, v := it.At()
			s.Sum = math.Float64bits(v)
			if s.ST != 0 {
				s.Encoding = chunkenc.EncXOR2
			}
		}
		l.add(r, uint64(c.Series), &s, late.Foreign)
	}
	return it.Err()
}
