package replay

import (
	"math"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// loadChunks reads which full chunks the head-chunk files have, beyond those that a snapshot
// knows.
func (r *replay) loadChunks(load *snapshotLoad) (err error) {
	if load != nil {
		if err := r.to.Chunks.Trust(load.Meta.Files); err != nil {
			return err
		}
	}
	maxRef := uint64(0)
	r.out.Chunks, err = r.to.Chunks.Load(func(c chunks.HeadChunk) error {
		ref := uint64(c.Series)
		maxRef = max(maxRef, ref)
		ms := r.loaded[ref]
		if c.OutOfOrder {
			r.late.chunks = append(r.late.chunks, c)
			return nil
		}
		// A chunk that is not newer than the one before it does not belong here.
		if len(ms) > 0 && c.MinT <= ms[len(ms)-1].MaxT {
			return nil
		}
		if c.MaxT < r.to.MinValid {
			return nil // a block has it
		}
		r.loaded[ref] = append(ms, memseries.Mapped{Ref: c.Ref, MinT: c.MinT, MaxT: c.MaxT, Num: uint16(c.NumSamples)})
		return nil
	})
	if err != nil {
		return errors.WithMessage(err, "load head chunks")
	}
	if load != nil {
		load.trust(r.out.Chunks.Trusted)
	}
	// Series that the log lost must not lend their chunks to new ones.
	r.to.Series.RaiseNextRef(maxRef + 1)
	return nil
}

// encodingOf reads the encoding of a full chunk. One that cannot be read is told by newestOf, or by
// whoever reads its samples: what follows it is taken for floats.
func (r *replay) encodingOf(m memseries.Mapped) chunkenc.Encoding {
	enc, _, err := r.to.Chunks.Read(m.Ref, nil)
	if err != nil {
		return chunkenc.EncXOR
	}
	return enc
}

// newestOf reads the Sum of the sample at the end of a full chunk, and what it is.
func (r *replay) newestOf(m memseries.Mapped) (sum uint64, of chunkenc.ValueType, err error) {
	enc, data, err := r.to.Chunks.Read(m.Ref, nil)
	if err != nil {
		return 0, of, err
	}
	c, err := chunkenc.FromData(enc, data)
	if err != nil {
		return 0, of, err
	}
	it := c.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		switch kind {
		case chunkenc.ValHistogram:
			it.AtHistogram(&r.newest.ints)
			sum = r.newest.ints.Digest()
		case chunkenc.ValFloatHistogram:
			it.AtFloatHistogram(&r.newest.floats)
			sum = r.newest.floats.Digest()
		default:
			_, v := it.At()
			sum = math.Float64bits(v)
		}
	}
	return sum, enc.Kind(), it.Err()
}

// holdAgainstLog compares the full chunks of the files with what the log says, before
// FinishRestore: some are left over from before the log was truncated, others show that
// it was cut.
func (r *replay) holdAgainstLog() {
	s := logreach.StateOf(r.out.Log, r.opts.Reach)
	if !s.Noted || s.Lost {
		behind, unreached := r.restoration.BeyondLog()
		if s.IsCut(behind) && !s.Lost {
			s.Lost = true
			r.out.Damages = append(r.out.Damages, Damage{File: filepath.Base(r.opts.WALDir), Reason: logreach.ReasonCut})
		}
		if s.Lost {
			r.out.ChunksBeyondLog = behind + unreached
		}
	}
	if s.MayLackSeries(r.out.Log) {
		for _, ms := range r.loaded {
			r.out.ChunksUnknown += len(ms)
		}
	}
	r.out.Start, r.out.Truncated = r.to.MinValid, logreach.NeverTruncated
	if s.Noted {
		r.out.Truncated = r.opts.Reach.Mark
	}
	if s.Noted && !s.Lost && !s.Foreign && oldest(r.workers) >= r.out.Truncated {
		r.out.Start = max(r.out.Start, r.out.Truncated)
	}
	if t := s.Stale(r.out.Truncated); t > logreach.NeverTruncated {
		if dropped, newest := r.restoration.DropStale(t); dropped > 0 {
			r.out.Truncated = max(r.out.Truncated, newest+1)
		}
	}
	r.out.LogLost = s.Lost
}

// oldest returns the time of the oldest sample that the workers had from snapshot and log.
func oldest(workers []*worker) int64 {
	t := int64(math.MaxInt64)
	for _, w := range workers {
		t = min(t, w.oldest)
	}
	return t
}
