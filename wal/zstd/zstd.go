// Package zstd is the codec of logs whose records are compressed with zstd: a third smaller than
// those of snappy, for four times the processor time. It is a package of its own because its
// encoder, and the cryptography that the encoder's package imports, take 300 kB of a program. Every
// program reads such records.
//
//	opts.WAL.Compression = tsdb.CompressionBy(zstd.Codec)
package zstd

import (
	encoding "github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/wal"
)

// Codec compresses records with zstd at its fastest level. It is not changed.
var Codec = wal.NewZstdCodec(newEncoder)

func newEncoder(workers int) (wal.Encoder, error) {
	// The record's own CRC makes zstd's superfluous.
	enc, err := encoding.NewWriter(nil, encoding.WithEncoderLevel(encoding.SpeedFastest), encoding.WithEncoderConcurrency(workers),
		encoding.WithEncoderCRC(false), encoding.WithLowerEncoderMem(true))
	if err != nil {
		return nil, errors.Wrap(err, "make zstd encoder")
	}
	return enc, nil
}
