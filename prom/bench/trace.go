package bench

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the recording
	"encoding/binary"
	"io"
	"math"
	"sync"
)

// traceFile is what "tsdbutil demo" recorded of a machine at work for some minutes, a sample
// a second: compressed, the number of samples of a series, then series after series the bits
// of its values. Labels are not in it.
//
//go:embed testdata/trace.gz
var traceFile []byte

// trace returns the values of each series of the recording.
var trace = sync.OnceValue(func() (series [][]float64) {
	r, err := gzip.NewReader(bytes.NewReader(traceFile))
	if err != nil {
		panic("BUG: the recorded trace is damaged: " + err.Error())
	}
	data, err := io.ReadAll(r)
	if err != nil {
		panic("BUG: the recorded trace is damaged: " + err.Error())
	}
	samples := int(binary.LittleEndian.Uint64(data))
	for data = data[8:]; len(data) > 0; data = data[8*samples:] {
		line := make([]float64, samples)
		for i := range line {
			line[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		series = append(series, line)
	}
	return series
})
