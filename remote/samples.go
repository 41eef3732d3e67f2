package remote

import (
	"context"
	"math"

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
//	                                            4 histograms repeated Histogram
//	sample:   1 value      double               2 timestamp int64
//
// Samples and histograms stand in the order of their times. Histogram: histogram_encode.go.
//
// Each of them has its length in front, and the snappy block around them has that of all,
// so the answer is written in two passes over the same snapshot: the first one adds up
// sizes and counts samples, the second one writes. A third one is made over a series that
// is too long for the buffer; it costs little beside compressing it.

// heldSamples is how many samples of a series are held while its size is not known: 128 KiB
// of them.
const heldSamples = 8 << 10

// heldBytes is how many bytes of a series with histograms are held then: hundreds of them.
const heldBytes = 64 << 10

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
	histograms  histogramEncoder
	bytes       []byte // samples of a series behind held, from the first histogram on
	head        []byte // of a message
}

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
	for {
		switch kind := a.nextBatch(ctx, &err); kind {
		case chunkenc.ValNone:
			return n, size, err
		case chunkenc.ValFloat:
			n += a.batch.Len()
			size += sizeSamples(a.batch.T, a.batch.V)
		default:
			n++
			a.it.Next()
			size += sizeMessage(uint64(len(a.histograms.message(a.it, kind))))
		}
		if limit >= 0 && n > limit {
			return n, size, errSampleLimit
		}
	}
}

// nextBatch reads on and returns the kind of what follows: floats are in the batch then, anything
// else stands behind the iterator. ValNone is the end, and an error.
func (a *sampleAnswer) nextBatch(ctx context.Context, err *error) chunkenc.ValueType {
	kind := a.it.NextBatch(&a.batch)
	if kind == chunkenc.ValNone {
		*err = a.it.Err()
		return kind
	}
	if *err = ctx.Err(); *err != nil {
		return chunkenc.ValNone
	}
	return kind
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
	more, err := a.hold(ctx)
	if err != nil || a.held.Len() == 0 && len(a.bytes) == 0 {
		return err
	}
	size, rest := sizeSamples(a.held.T, a.held.V)+uint64(len(a.bytes)), uint64(0)
	last := a.it.AtT()
	if more {
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
	if err := a.block.samples(a.held.T, a.held.V); err != nil {
		return err
	}
	if err := a.block.packed(a.bytes); err != nil || rest == 0 {
		return err
	}
	return a.writeRest(ctx, s, last, rest)
}

// hold reads the samples of the iterator: floats, up to heldSamples, and from the first histogram
// on all of them as they are written, up to heldBytes. There may be more if it has stopped for
// these.
func (a *sampleAnswer) hold(ctx context.Context) (more bool, err error) {
	if cap(a.held.T) == 0 {
		a.held = *chunkenc.NewBatch(heldSamples)
	}
	n, own, kind := 0, a.batch, chunkenc.ValFloat
	for n < heldSamples {
		a.batch.T, a.batch.V = a.held.T[n:n:heldSamples], a.held.V[n:n:heldSamples]
		if kind = a.nextBatch(ctx, &err); kind != chunkenc.ValFloat {
			break
		}
		n += a.batch.Len()
	}
	a.held.T, a.held.V = a.held.T[:n], a.held.V[:n]
	a.batch.T, a.batch.V = own.T, own.V
	a.bytes = a.bytes[:0]
	if kind == chunkenc.ValFloat {
		return true, nil
	}
	for ; kind != chunkenc.ValNone; kind = a.nextBatch(ctx, &err) {
		a.take(kind)
		if len(a.bytes) >= heldBytes {
			return true, err
		}
	}
	return false, err
}

// take appends to bytes what nextBatch has come to.
func (a *sampleAnswer) take(kind chunkenc.ValueType) {
	if kind == chunkenc.ValFloat {
		for i, t := range a.batch.T {
			a.bytes = appendSample(a.bytes, t, math.Float64bits(a.batch.V[i]))
		}
		return
	}
	a.it.Next()
	a.takeHistogram(kind)
}

// takeHistogram appends to bytes the histogram that the iterator stands on.
func (a *sampleAnswer) takeHistogram(kind chunkenc.ValueType) {
	m := a.histograms.message(a.it, kind)
	a.bytes = protowire.AppendVarint(append(a.bytes, bytesTag(4)), uint64(len(m)))
	a.bytes = append(a.bytes, m...)
}

// writeRest writes the samples of a long series that come after last, size bytes of them.
func (a *sampleAnswer) writeRest(ctx context.Context, s *tsdb.Series, last int64, size uint64) error {
	a.open(s)
	a.bytes = a.bytes[:0]
	end := a.block.pos + size
	switch kind := a.it.Seek(last + 1); kind {
	case chunkenc.ValNone:
		return errChanged
	case chunkenc.ValFloat:
		t, v := a.it.At()
		if err := a.block.samples([]int64{t}, []float64{v}); err != nil {
			return err
		}
	default:
		a.takeHistogram(kind)
	}
	var err error
	for kind := a.nextBatch(ctx, &err); kind != chunkenc.ValNone; kind = a.nextBatch(ctx, &err) {
		if err := a.writeNext(kind, end); err != nil {
			return err
		}
	}
	if err == nil {
		err = a.flushBytes(end)
	}
	if err == nil && a.block.pos != end {
		err = errChanged
	}
	return err
}

// writeNext writes what nextBatch has come to, for a series that must end at a place. Histograms
// wait in bytes until there are some.
func (a *sampleAnswer) writeNext(kind chunkenc.ValueType, end uint64) error {
	if kind != chunkenc.ValFloat {
		if a.take(kind); len(a.bytes) < heldBytes {
			return nil
		}
		return a.flushBytes(end)
	}
	if err := a.flushBytes(end); err != nil {
		return err
	}
	if a.block.pos+sizeSamples(a.batch.T, a.batch.V) > end {
		return errChanged
	}
	return a.block.samples(a.batch.T, a.batch.V)
}

// flushBytes writes what is in bytes, for a series that must end at a place.
func (a *sampleAnswer) flushBytes(end uint64) error {
	if a.block.pos+uint64(len(a.bytes)) > end {
		return errChanged
	}
	err := a.block.packed(a.bytes)
	a.bytes = a.bytes[:0]
	return err
}

// maxSampleBytes is the most that one sample takes: tag, length, tagged value, tagged
// time.
const maxSampleBytes = 2 + 9 + 11

// sizeSamples is the length of samples as fields of their series. A value is left out only
// if all of its bits are zero, so that the negative zero stays one. Times ascend.
func sizeSamples(ts []int64, vs []float64) (size uint64) {
	if len(ts) == 0 {
		return 0
	}
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
