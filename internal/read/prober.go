package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// A series is listed if one of its samples may be seen. As a rule that is known without a look at
// any: the ends of a chunk are samples, so one that is in the range, and not deleted, is enough.
// Only of a series of which each chunk reaches over both ends of the range, or is touched by a
// delete, chunks are decoded, up to the first sample that may be seen (BenchmarkSelectNarrow). Sets
// do that with an iterator that they pass on (handover); who lists labels has the prober below.

// sampleProber looks into chunks for a sample that may be seen. It keeps its memory from series to
// series. The zero value is ready.
type sampleProber struct {
	src  chunkSource
	c    samplemerge.Chunk
	runs samplemerge.Runs
	run  chunkenc.Batch
}

// hasSample reports whether a series has a sample that may be seen; src are its chunks, opened with
// p.src for reuse. It counts as having one if a
// chunk cannot be read: whoever reads the series gets the error. The caller holds the Gate.
func (p *sampleProber) hasSample(src chunkSource) bool {
	p.src = src
	for {
		ok, err := p.src.Next(math.MinInt64, &p.c)
		if err != nil || !ok {
			return err != nil
		}
		if p.c.Shows(p.c.MinT) || p.c.Shows(p.c.MaxT) {
			return true
		}
		if p.c.Hides(p.c.MinT, p.c.MaxT) {
			continue
		}
		if ok, err := p.inChunk(); ok || err != nil {
			return true
		}
	}
}

// inChunk decodes the chunk up to the first sample that may be seen.
func (p *sampleProber) inChunk() (bool, error) {
	if err := p.runs.Reset(&p.c); err != nil {
		return false, err
	}
	if cap(p.run.T) == 0 {
		p.run = *chunkenc.NewBatch(clippedRun)
	}
	for {
		if err := p.runs.Next(&p.run); err != nil || p.run.Len() == 0 {
			return false, err
		}
		behind := p.run.T[p.run.Len()-1] > p.c.To
		if p.c.Clip(&p.run); p.run.Len() > 0 || behind {
			return p.run.Len() > 0, nil
		}
	}
}
