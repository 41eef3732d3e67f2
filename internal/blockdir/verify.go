package blockdir

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// maxProblems is how many problems a report has; of a file full of zeros nobody wants to
// know more.
const maxProblems = 100

// Report is what Verify found.
type Report struct {
	// Stats are counted anew. Samples of chunks that this version cannot decode count as
	// their headers say.
	Stats Stats
	// UnknownChunks are those; their times are not verified.
	UnknownChunks uint64
	// UnusedBytes of the chunk segments belong to no chunk of the index. They do no harm.
	UnusedBytes int64
	// Problems are encbuf.ErrCorrupt each, the first ones of Total.
	Problems []error
	Total    int
}

// Verify reads everything of a block and holds it against everything else: all
// checksums and sort rules, the times in each chunk against the index, the bounds and
// counts of the meta file, the deleted series. What is wrong is in the report; an error
// says only that the block could not be read to its end: the context's, or the file
// system's.
func Verify(ctx context.Context, d *Dir) (Report, error) {
	v := verifier{d: d, meta: d.Meta(), deleted: d.Tombstones().Refs()}
	err := d.Index().Verify(ctx, v.series)
	whole := err == nil
	if errors.Is(err, encbuf.ErrCorrupt) {
		v.problem(err)
		err = nil
	}
	if err != nil {
		return v.report, err
	}
	if whole {
		v.compareStats()
		v.report.UnusedBytes = d.Chunks().Size() - v.usedBytes - int64(d.Chunks().Len())*chunks.SegmentHeaderBytes
	}
	for _, ref := range v.deleted {
		v.found(tombstones.FileName, fmt.Sprintf("samples of series %d are deleted, which the index does not have", ref))
	}
	return v.report, nil
}

// verifier goes through the series of one block.
type verifier struct {
	d       *Dir
	meta    Meta
	report  Report
	deleted []uint64 // series of the tombstones that were not met yet, ascending

	usedBytes int64
	buf       []byte
	it        chunkenc.Iterator
}

func (v *verifier) problem(err error) {
	v.report.Total++
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, err)
	}
}

// found is a problem of a whole file.
func (v *verifier) found(file, reason string) {
	v.problem(encbuf.Corrupt(0, reason).At(filepath.Join(v.d.path, file), 0))
}

func (v *verifier) series(id uint64, _ []index.SymbolPair, cs []index.ChunkMeta) error {
	v.report.Stats.NumSeries++
	v.meet(id)
	if len(cs) == 0 {
		v.found(indexName, fmt.Sprintf("series %d has no chunks", id))
	}
	for _, c := range cs {
		v.report.Stats.NumChunks++
		if c.MinT < v.meta.MinTime || c.MaxT >= v.meta.MaxTime {
			v.found(indexName, fmt.Sprintf("series %d has a chunk from %d to %d, the block is from %d to before %d",
				id, c.MinT, c.MaxT, v.meta.MinTime, v.meta.MaxTime))
		}
		if err := v.chunk(id, c); err != nil {
			v.problem(err)
		}
	}
	return nil
}

// meet crosses a series off the tombstones; series come by ascending id, and those that were
// passed over do not exist.
func (v *verifier) meet(id uint64) {
	for len(v.deleted) > 0 && v.deleted[0] < id {
		v.found(tombstones.FileName, fmt.Sprintf("samples of series %d are deleted, which the index does not have", v.deleted[0]))
		v.deleted = v.deleted[1:]
	}
	if len(v.deleted) > 0 && v.deleted[0] == id {
		v.deleted = v.deleted[1:]
	}
}

func (v *verifier) chunk(id uint64, c index.ChunkMeta) error {
	enc, data, err := v.d.Chunks().Read(c.Ref, v.buf)
	v.buf = data
	if err != nil {
		return err
	}
	v.usedBytes += chunks.SegmentRecordSize(len(data))
	chunk, err := chunkenc.FromData(enc, data)
	if errors.Is(err, chunkenc.ErrUnknownEncoding) {
		v.report.UnknownChunks++
		v.report.Stats.addSamples(enc, headerSamples(enc, data))
		return nil
	}
	if err != nil {
		return v.at(c.Ref, fmt.Sprintf("chunk of series %d: %v", id, err))
	}
	v.it = chunk.Iterator(v.it)
	n, mint, maxt, err := checkTimes(v.it)
	v.report.Stats.addSamples(enc, n)
	switch {
	case err != nil:
		return v.at(c.Ref, fmt.Sprintf("chunk of series %d: %v", id, err))
	case n == 0:
		return v.at(c.Ref, fmt.Sprintf("chunk of series %d has no samples", id))
	case mint != c.MinT || maxt != c.MaxT:
		return v.at(c.Ref, fmt.Sprintf("chunk of series %d has samples from %d to %d, the index says %d to %d", id, mint, maxt, c.MinT, c.MaxT))
	}
	return nil
}

// at is a problem of the chunk at a ref.
func (v *verifier) at(ref chunks.BlockRef, reason string) error {
	path := filepath.Join(v.d.path, chunksName, chunks.SegmentName(int(ref.Segment())))
	return encbuf.Corrupt(0, reason).At(path, int64(ref.Offset()))
}

// headerSamples returns the count of samples in front of a chunk that this version cannot
// decode. In histogram chunks with start timestamps two flags stand before it.
func headerSamples(enc chunkenc.Encoding, data []byte) uint64 {
	const encHistogramST, encFloatHistogramST = 5, 6
	if len(data) < 2 {
		return 0
	}
	n := binary.BigEndian.Uint16(data)
	if enc == encHistogramST || enc == encFloatHistogramST {
		n &= 1<<14 - 1
	}
	return uint64(n)
}

// checkTimes reads all samples.
func checkTimes(it chunkenc.Iterator) (n uint64, mint, maxt int64, err error) {
	for it.Next() != chunkenc.ValNone {
		t := it.AtT()
		if n == 0 {
			mint = t
		} else if t <= maxt {
			return n, mint, maxt, errors.Errorf("sample %d at %d is not behind the one at %d", n, t, maxt)
		}
		maxt = t
		n++
	}
	return n, mint, maxt, it.Err()
}

// compareStats holds what was counted against the meta file. Old writers left counts out.
func (v *verifier) compareStats() {
	said, counted := v.meta.Stats, v.report.Stats
	if said.NumFloatSamples == 0 && said.NumHistogramSamples == 0 {
		counted.NumFloatSamples, counted.NumHistogramSamples = 0, 0
	}
	said.NumTombstones = 0
	if said == (Stats{}) || said == counted {
		return
	}
	v.found(metaName, fmt.Sprintf("the meta file counts %+v, the block has %+v", said, counted))
}
