package xorchunk

import "errors"

// ErrFull: the chunk has MaxSamples samples; begin another one.
var ErrFull = errors.New("chunk is full")
