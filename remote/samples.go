package remote

import (
	"context"
	"math"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// The answer in samples, a ReadResponse:
//
//	response: 1 results    repeated QueryResult, one a query
//	result:   1 timeseries repeated TimeSeries
//	series:   1 labels     repeated Label       2 samples repeated Sample
//	sample:   1 value      double               2 timestamp int64
//
// Each of them has its length in front, and the snappy block around them has that of all,
// so the answer is written in two passes over the same snapshot: the first one adds up
// sizes and counts samples, the second one writes. A third one is made over a series that
// is too long for the buffer; it costs little beside compressing it.

// heldSamples is how many samples of a series are held while its size is not known: 128 KiB
// of them.
const heldSamples = 8 << 10

// sampleAnswer writes an answer of samples.
type sampleAnswer struct {
	out      *pacedWriter
	external external
	limit    int    // samples of a query; negative: any number
	longest  uint64 // content that a block may have, maxBlock but in tests
	block    *blockEncoder

	own, labels []labels.Label
	group       []*tsdb.Series // namesakes that are answered as the series; none: it is alone
	it          chunkenc.Iterator
	batch       chunkenc.Batch
	held        chunkenc.Batch // samples of a series, as many as fit
	head        []byte         // of a message
}

// errNoFloat: a series has samples of a kind that is not given.
var errNoFloat = errors.WithMessage(tsdb.ErrUnsupported, "sample that is no float")

func (a *sampleAnswer) write(ctx context.Context, queries []*openQuery) error {
	a.out.header = map[string]string{"Content-Type": samplesContentType, "Content-Encoding": snappyEncoding}
	sizes := make([]uint64, len(queries))
	total := uint64(0)
	for i, q := range queries {
		var err error
		if sizes[i], err = a.measureQuery(ctx, q); err != nil {
			return err
		}
		if total += sizeMessage(sizes[i]); total > a.longest {
			return errTooLarge
		}
	}
	var err error
	if a.block, err = newBlockEncoder(a.out, total); err != nil {
		return err
	}
	for i, q := range queries {
		if err := a.writeQuery(ctx, q, sizes[i]); err != nil {
			return err
		}
	}
	if err := a.block.flush(); err != nil {
		return err
	}
	warn(a.out, queries)
	return a.out.finish(nil)
}

// sizeMessage is the size of an embedded message of n bytes, with its tag.
func sizeMessage(n uint64) uint64 { return 1 + uint64(sizeVarint(n)) + n }

// measureQuery returns the size of a query's result.
func (a *sampleAnswer) measureQuery(ctx context.Context, q *openQuery) (size uint64, err error) {
	set := q.selectSeries(ctx)
	left := a.limit
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		s := set.At()
		labelBytes := a.takeLabels(s)
		if skip, err := a.begin(ctx, q, s); err != nil {
			return 0, err
		} else if skip {
			continue
		}
		n, samples, err := a.measureSamples(ctx, left)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		if left >= 0 {
			left -= n
		}
		if size += sizeMessage(labelBytes + samples); size > a.longest {
			return 0, errTooLarge
		}
	}
	q.warnings = set.Warnings()
	return size, set.Err()
}

// begin puts the iterator before the first sample of a series, the labels of which were taken; skip
// says that they were answered before.
func (a *sampleAnswer) begin(ctx context.Context, q *openQuery, s *tsdb.Series) (skip bool, err error) {
	if a.group, skip, err = q.namesakes.group(ctx, q, a.own, a.labels); err == nil && !skip {
		a.open(s)
	}
	return skip, err
}

// open does begin once more, for the same series.
func (a *sampleAnswer) open(s *tsdb.Series) {
	if len(a.group) > 0 {
		a.it = unionOf(a.group)
	} else {
		a.it = s.Iterator(a.it)
	}
}

// takeLabels sets the labels of the series that is worked on and returns their size.
func (a *sampleAnswer) takeLabels(s *tsdb.Series) (size uint64) {
	a.own = s.AppendLabels(a.own[:0])
	a.labels = a.external.merge(a.labels[:0], a.own)
	for _, l := range a.labels {
		size += sizeMessage(uint64(sizeLabel(l)))
	}
	return size
}

// measureSamples adds up what is left of the iterator. More than limit samples are an
// error, unless it is negative.
func (a *sampleAnswer) measureSamples(ctx context.Context, limit int) (n int, size uint64, err error) {
	for a.nextBatch(ctx, &err) {
		if n += a.batch.Len(); limit >= 0 && n > limit {
			return n, size, errSampleLimit
		}
		size += sizeSamples(a.batch.T, a.batch.V)
	}
	return n, size, err
}

// nextBatch reads on; false at the end and on an error.
func (a *sampleAnswer) nextBatch(ctx context.Context, err *error) bool {
	switch a.it.NextBatch(&a.batch) {
	case chunkenc.ValFloat:
		*err = ctx.Err()
		return *err == nil
	case chunkenc.ValNone:
		*err = a.it.Err()
		return false
	default:
		*err = errNoFloat
		return false
	}
}

func (a *sampleAnswer) writeQuery(ctx context.Context, q *openQuery, size uint64) error {
	a.head = protowire.AppendVarint(append(a.head[:0], bytesTag(1)), size)
	if err := a.block.write(a.head); err != nil {
		return err
	}
	end := a.block.pos + size
	set := q.selectSeries(ctx)
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.writeSeries(ctx, q, set.At(), end); err != nil {
			return err
		}
	}
	if a.block.pos != end && set.Err() == nil {
		return errChanged
	}
	return set.Err()
}

// writeSeries writes a series; nothing, if it has no samples in the range. end is where
// the result of the query must end.
func (a *sampleAnswer) writeSeries(ctx context.Context, q *openQuery, s *tsdb.Series, end uint64) error {
	labelBytes := a.takeLabels(s)
	if skip, err := a.begin(ctx, q, s); err != nil || skip {
		return err
	}
	if err := a.hold(ctx); err != nil || a.held.Len() == 0 {
		return err
	}
	size, rest := sizeSamples(a.held.T, a.held.V), uint64(0)
	last := a.it.AtT()
	if a.held.Len() == heldSamples {
		var err error
		if _, rest, err = a.measureSamples(ctx, -1); err != nil {
			return err
		}
	}
	size += labelBytes + rest
	if a.block.pos+sizeMessage(size) > end {
		return errChanged
	}
	a.head = protowire.AppendVarint(append(a.head[:0], bytesTag(1)), size)
	if err := a.block.series(a.head, a.labels); err != nil {
		return err
	}
	if err := a.block.samples(a.held.T, a.held.V); err != nil || rest == 0 {
		return err
	}
	return a.writeRest(ctx, s, last, rest)
}

// hold reads the samples of the iterator, up to heldSamples.
func (a *sampleAnswer) hold(ctx context.Context) (err error) {
	if cap(a.held.T) == 0 {
		a.held = *chunkenc.NewBatch(heldSamples)
	}
	n, own := 0, a.batch
	for n < heldSamples {
		a.batch.T, a.batch.V = a.held.T[n:n:heldSamples], a.held.V[n:n:heldSamples]
		if !a.nextBatch(ctx, &err) {
			break
		}
		n += a.batch.Len()
	}
	a.held.T, a.held.V = a.held.T[:n], a.held.V[:n]
	a.batch.T, a.batch.V = own.T, own.V
	return err
}

// writeRest writes the samples of a long series that come after last, size bytes of them.
func (a *sampleAnswer) writeRest(ctx context.Context, s *tsdb.Series, last int64, size uint64) error {
	a.open(s)
	if a.it.Seek(last+1) != chunkenc.ValFloat {
		return errChanged
	}
	t, v := a.it.At()
	end := a.block.pos + size
	if err := a.block.samples([]int64{t}, []float64{v}); err != nil {
		return err
	}
	var err error
	for a.nextBatch(ctx, &err) {
		if a.block.pos+sizeSamples(a.batch.T, a.batch.V) > end {
			return errChanged
		}
		if err := a.block.samples(a.batch.T, a.batch.V); err != nil {
			return err
		}
	}
	if err == nil && a.block.pos != end {
		err = errChanged
	}
	return err
}

// maxSampleBytes is the most that one sample takes: tag, length, tagged value, tagged
// time.
const maxSampleBytes = 2 + 9 + 11

// sizeSamples is the length of samples as fields of their series. A value is left out only
// if all of its bits are zero, so that the negative zero stays one. Times ascend.
func sizeSamples(ts []int64, vs []float64) (size uint64) {
	for _, v := range vs {
		if math.Float64bits(v) != 0 {
			size += 9
		}
	}
	first, last := sizeInt(ts[0]), sizeInt(ts[len(ts)-1])
	if first == last && ts[0] != 0 {
		return size + uint64(len(ts)*(2+first))
	}
	for _, t := range ts {
		size += uint64(2 + sizeInt(t))
	}
	return size
}
