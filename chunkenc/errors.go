package chunkenc

import (
	"errors"

	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Opening a chunk.
var (
	// ErrUnknownEncoding: the encoding byte names no encoding that this version
	// reads. The error that wraps it says which number it was.
	ErrUnknownEncoding = errors.New("unknown chunk encoding")
)

// Appending to a chunk.
var (
	// ErrChunkFull: the chunk has MaxSamples samples; begin another one.
	ErrChunkFull = xorchunk.ErrFull
)
