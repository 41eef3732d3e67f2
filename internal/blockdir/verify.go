package blockdir

import (
	"context"
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
	// Disorder are places where labels, series or chunks are not in order, repeat, or lie outside
	// of the block's bounds: everything can be read. They are encbuf.ErrCorrupt each, the first
	// ones of TotalDisorder.
	Disorder      []error
	TotalDisorder int
}

// Verify reads everything of a block and holds it against everything else: all
// checksums and sort rules, the times in each chunk against the index, the bounds and
// counts of the meta file, the deleted series. What is wrong is in the report; an error
// says only that the block could not be read to its end: the context's, or the file
// system's.
//
// progress, if not nil, is called now and then with how many bytes of the block were read
// since the last call.
func Verify(ctx context.Context, d *Dir, progress func(bytes int64)) (Report, error) {
	v := verifier{d: d, meta: d.Meta(), deleted: d.Tombstones().Refs(), progress: progress}
	v.chunks.segments = d.Chunks()
	err := d.Index().VerifyDisorder(ctx, v.disorder, v.series)
	whole := err == nil
	v.tell(0)
	if errors.Is(err, encbuf.ErrCorrupt) {
		v.problem(err)
		err = nil
	}
	if err != nil {
		return v.report, err
	}
	if whole && !v.damagedChunks { // what cannot be read was not counted
		v.compareStats()
	}
	if whole && !v.damagedChunks && v.report.TotalDisorder == 0 { // nor what is listed twice
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

	chunks        inspector
	damagedChunks bool
	usedBytes     int64
	progress      func(bytes int64)
	told          int64 // of usedBytes
}

// tell passes progress on if there is as much of it as wanted.
func (v *verifier) tell(atLeast int64) {
	if n := v.usedBytes - v.told; v.progress != nil && n >= atLeast {
		v.progress(n)
		v.told = v.usedBytes
	}
}

// tellEvery is how many bytes are read between two reports of progress.
const tellEvery = 1 << 20

func (v *verifier) problem(err error) {
	v.report.Total++
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, err)
	}
}

func (v *verifier) disorder(err error) {
	v.report.TotalDisorder++
	if len(v.report.Disorder) < maxProblems {
		v.report.Disorder = append(v.report.Disorder, err)
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
		v.disorder(v.ofIndex(fmt.Sprintf("series %d has no chunks", id)))
	}
	for _, c := range cs {
		v.report.Stats.NumChunks++
		if c.MinT < v.meta.MinTime || c.MaxT >= v.meta.MaxTime {
			v.disorder(v.ofIndex(fmt.Sprintf("series %d has a chunk from %d to %d, the block is from %d to before %d",
				id, c.MinT, c.MaxT, v.meta.MinTime, v.meta.MaxTime)))
		}
		if err := v.chunk(id, c); err != nil {
			v.damagedChunks = true
			v.problem(err)
		}
	}
	v.tell(tellEvery)
	return nil
}

func (v *verifier) ofIndex(reason string) error {
	return encbuf.Corrupt(0, reason).At(filepath.Join(v.d.path, indexName), 0)
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
	got, err := v.chunks.inspect(id, c)
	v.report.Stats.addSamples(got.enc, got.samples)
	if got.enc == chunkenc.EncNone {
		return err
	}
	v.usedBytes += chunks.SegmentRecordSize(len(got.data))
	if !got.enc.Known() {
		v.report.UnknownChunks++
	}
	return err
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
