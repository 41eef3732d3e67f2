package headsnap

import (
	"context"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Check reads a whole snapshot and says what is wrong with it, as an *encbuf.CorruptError.
// Whether it fits the log and the head-chunk files is another question: mapped gets each full chunk
// that it speaks of.
func Check(ctx context.Context, fsys fileutil.FS, path string, mapped func(chunks.Mapped)) (Meta, error) {
	meta, err := ReadMeta(fsys, path)
	if err != nil {
		return Meta{}, err
	}
	series := uint64(0)
	err = wal.ReadSnapshot(ctx, wal.ReplayOptions{FS: fsys, Dir: path, Decoders: 1, Apply: func(b *wal.Batch) error {
		for i := range b.Records {
			n, err := checkRecord(b.Records[i].Data, mapped)
			if err != nil {
				return err
			}
			series += n
		}
		return nil
	}}, meta.Start, meta.Sum)
	if err == nil && series != meta.Series {
		err = encbuf.Corrupt(0, "series are missing").At(path, 0)
	}
	return meta, err
}

// checkRecord returns how many series a record has.
func checkRecord(rec []byte, mapped func(chunks.Mapped)) (series uint64, err error) {
	switch KindOf(rec) {
	case KindGroup:
		err = EachSeries(rec, func(rec []byte) error {
			series++
			_, err := DecodeSeries(rec)
			return err
		})
	case KindMapped:
		var dec MappedDecoder
		for dec.Reset(rec); dec.Next(); {
			for m, ok := dec.Chunk(); ok; m, ok = dec.Chunk() {
				mapped(m)
			}
		}
		err = dec.Err()
	case KindTombstones:
		_, err = DecodeTombstones(rec)
	case KindGone:
		_, err = DecodeGone(rec)
	case KindMetadata:
		var dec record.MetadataDecoder
		for dec.Reset(rec); dec.Next(); {
		}
		err = dec.Err()
	case KindLateReach:
		_, err = record.ReadLateReach(rec)
	case KindExemplars:
		err = EachExemplar(rec, func(*exemplars.Entry) {})
	default:
		err = encbuf.Corrupt(0, "record of an unknown type")
	}
	return series, err
}
