package wal

import (
	"context"
	"log/slog"
	"runtime"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// SnapshotOptions configure NewSnapshotWriter.
type SnapshotOptions struct {
	FS          fileutil.FS
	Dir         string // exists, and is empty
	Compression *Codec // nil: None
	Start       Start
}

// SnapshotSum is what the records of a snapshot come to.
type SnapshotSum struct {
	Records  uint64
	Checksum uint32 // CRC-32C over, for each record, its length as a uvarint and its bytes
	Bytes    int64  // of the files
}

// SnapshotWriter writes the state of the head as records into files of their own. They have
// the form of a checkpoint: segments, between a header and a trailer. It is for one
// goroutine.
type SnapshotWriter struct{ w *checkpointWriter }

// NewSnapshotWriter begins the files in opts.Dir.
func NewSnapshotWriter(opts SnapshotOptions) (*SnapshotWriter, error) {
	o := Options{FS: opts.FS, SegmentSize: DefaultSegmentSize, Compression: opts.Compression}
	w, err := newCheckpointWriter(o, opts.Dir, nil)
	if err != nil {
		return nil, err
	}
	s := opts.Start
	h := header{segment: uint64(s.Segment) - 1, nextSeq: s.NextSeq, nextRef: s.NextRef, synced: s.NextSeq - 1}
	if err := w.begin(h); err != nil {
		return nil, fileutil.JoinErrors(diskFull(err), w.close())
	}
	return &SnapshotWriter{w: w}, nil
}

// Append adds a record, which it does not keep. ErrRecordTooLarge, ErrDiskFull,
// ErrPoisoned after a failed sync.
func (s *SnapshotWriter) Append(rec []byte) error { return diskFull(s.w.append(rec)) }

// Finish writes the end. On return the files are on stable storage; the directory is
// not synced.
func (s *SnapshotWriter) Finish() (SnapshotSum, error) {
	err := diskFull(s.w.finish())
	return SnapshotSum{Records: s.w.sum.records, Checksum: s.w.sum.crc, Bytes: s.w.bytes}, err
}

// Close lets go of everything, also after an error.
func (s *SnapshotWriter) Close() error { return s.w.close() }

// ReadSnapshot hands all records of the snapshot in opts.Dir to opts.Apply, in order and
// with opts.Decode before, as Replay does. start and sum are what the snapshot must be.
//
// Anything that is not as it was written is an *encbuf.CorruptError, and what Apply got so
// far is worth nothing. Other errors are of the file system, of Apply, of ctx.
func ReadSnapshot(ctx context.Context, opts ReplayOptions, start Start, sum SnapshotSum) error {
	entries, err := opts.FS.ReadDir(opts.Dir)
	if err != nil {
		return errors.WithMessage(err, "list snapshot")
	}
	list := &Listing{Checkpoint: start.Segment - 1, CheckpointDir: opts.Dir}
	if list.CheckpointSegments, err = segmentFiles(opts.Dir, entries); err != nil {
		return err
	}
	if contiguous(list.CheckpointSegments, 0, opts.Dir) != nil || list.Bytes() != sum.Bytes {
		return snapshotDamage(opts.Dir, "files are missing, or have another length")
	}
	if opts.Decoders <= 0 {
		opts.Decoders = runtime.GOMAXPROCS(0)
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	p := newPipeline(ctx, opts, newReport(list))
	p.opts.Apply = func(b *Batch) error {
		if err := p.report.snapshotDamage(); err != nil {
			return err
		}
		return opts.Apply(b)
	}
	if err := p.run(); err != nil {
		return err
	}
	return p.report.checkSnapshot(start, sum)
}

// checkSnapshot compares what was read with what it must be.
func (r *ReplayReport) checkSnapshot(start Start, sum SnapshotSum) error {
	h := r.cpHeader
	switch {
	case len(r.Damages) > 0:
		return r.snapshotDamage()
	case h == nil || h.segment+1 != uint64(start.Segment) || h.nextSeq != start.NextSeq:
		return snapshotDamage(r.listing.CheckpointDir, "header is that of another snapshot")
	case r.cpSum != trailer{sum.Records, sum.Checksum}:
		return snapshotDamage(r.listing.CheckpointDir, "records are not those that were written")
	default:
		return nil
	}
}

// snapshotDamage is the first damage that was found so far as an error.
func (r *ReplayReport) snapshotDamage() error {
	if len(r.Damages) == 0 {
		return nil
	}
	d := r.Damages[0]
	return encbuf.Corrupt(0, d.Reason).At(d.File, d.Offset)
}

func snapshotDamage(path, reason string) error { return encbuf.Corrupt(0, reason).At(path, 0) }
