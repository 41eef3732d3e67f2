package replay

import (
	"context"
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// Snapshot is a snapshot of the head that fits the log.
type Snapshot struct {
	Path string
	Meta headsnap.Meta
}

// snapshotLoad reads a snapshot into the series that a replay makes.
type snapshotLoad struct {
	Snapshot
	trusted map[uint32]int64 // bytes of head-chunk files that its chunks may be in

	mapped mappedList // full chunks of the series whose records follow
	series uint64
}

// mappedList is the full chunks of some series: those of one are side by side in chunks, behind
// those of the series before. It is filled and emptied again and again.
type mappedList struct {
	of     []mappedOf
	chunks []memseries.Mapped
	taken  int // of these series
	from   int // in chunks, of those of the next one
}

type mappedOf struct {
	ref uint64
	end int // of its chunks in the list
}

// decodedSnapshot is what a decoder makes of a batch of the snapshot's records, but for full
// chunks: these take four times as much memory decoded, so they wait for their turn as they are.
type decodedSnapshot struct {
	series []headsnap.Series
	stones *tombstones.Set
	gone   []headsnap.Gone
	parts  *partSet
	err    error
}

// run reads the snapshot: decoders take its records apart, open chunks included, series are made
// in the order of the records, with the full chunks before them, and the workers append the
// samples. An *encbuf.CorruptError says that it cannot be used, and what was made of it is worth
// nothing.
func (l *snapshotLoad) run(ctx context.Context, r *replay, progress func(done, total int64)) error {
	err := wal.ReadSnapshot(ctx, wal.ReplayOptions{
		FS: r.opts.FS, Dir: l.Path, Decoders: len(r.workers), Progress: progress, Batches: &r.batches,
		Decode: func(b *wal.Batch) { l.decode(r, b) },
		Apply:  func(b *wal.Batch) error { return l.apply(r, b) },
	}, l.Meta.Start, l.Meta.Sum)
	if err == nil && (l.series != l.Meta.Series || !l.mapped.isEmpty()) {
		err = l.damage("series are missing")
	}
	return err
}

// fits checks what was read of the log behind the snapshot: nothing may be lost of it but a
// torn end behind what the snapshot knows. Its copies may have parts of commits that the log
// has lost, and series whose records it has lost.
func (l *snapshotLoad) fits(log *wal.ReplayReport, lost bool) error {
	for _, d := range log.Damages {
		if !d.Tail && !d.Harmless {
			return l.damage("the log behind it is damaged")
		}
	}
	if lost || log.LastSeq < l.Meta.Start.Synced {
		return l.damage("the log behind it has lost commits")
	}
	return nil
}

func (l *snapshotLoad) damage(reason string) error { return encbuf.Corrupt(0, reason).At(l.Path, 0) }

func (l *snapshotLoad) decode(r *replay, b *wal.Batch) {
	d, ok := b.Scratch.(*decodedSnapshot)
	if !ok {
		d = &decodedSnapshot{}
		b.Scratch = d
	}
	*d = decodedSnapshot{parts: r.emptyParts(), series: d.series[:0]}
	for i := range b.Records {
		rec := b.Records[i].Data
		switch headsnap.KindOf(rec) {
		case headsnap.KindGroup:
			d.err = headsnap.EachSeries(rec, func(rec []byte) error {
				s, err := headsnap.DecodeSeries(rec)
				if err != nil {
					return err
				}
				d.series = append(d.series, s)
				return nil
			})
		case headsnap.KindMapped, headsnap.KindMetadata, headsnap.KindExemplars, headsnap.KindLateReach: // apply does
		case headsnap.KindTombstones:
			d.stones, d.err = headsnap.DecodeTombstones(rec)
		case headsnap.KindGone:
			var gone []headsnap.Gone
			gone, d.err = headsnap.DecodeGone(rec)
			d.gone = append(d.gone, gone...)
		default:
			d.err = encbuf.Corrupt(0, "record of an unknown type")
		}
		if d.err != nil {
			return
		}
	}
	d.err = splitChunks(d.series, d.parts)
}

// decode appends what a record of full chunks has. Those that end before minValid are in a
// block, and maybe in no file any more.
func (l *mappedList) decode(rec []byte, minValid int64) error {
	if l.isEmpty() {
		*l = mappedList{of: l.of[:0], chunks: l.chunks[:0]}
	}
	var dec headsnap.MappedDecoder
	for dec.Reset(rec); dec.Next(); {
		for m, ok := dec.Chunk(); ok; m, ok = dec.Chunk() {
			if m.MaxT >= minValid {
				l.chunks = append(l.chunks, m)
			}
		}
		l.of = append(l.of, mappedOf{dec.Ref(), len(l.chunks)})
	}
	return dec.Err()
}

// splitChunks appends the samples of series to the parts of their workers.
func splitChunks(series []headsnap.Series, ps *partSet) error {
	var x chunkSplitter
	n := 0
	for i := range series {
		if c := &series[i].Chunk; c.Data != nil && x.dec.Reset(c.Encoding, c.Data) == nil {
			n += x.dec.Left()
		}
	}
	ps.makeRoom(n)
	x.samples = *chunkenc.NewBatch(decodeLen)
	for i := range series {
		if err := x.split(series[i].Ref, &series[i].Chunk, ps); err != nil {
			return err
		}
	}
	return nil
}

// chunkSplitter turns the chunks of a snapshot into samples for the workers.
type chunkSplitter struct {
	dec     chunkenc.Decoder
	samples chunkenc.Batch
	ints    histogram.Histogram
	floats  histogram.FloatHistogram
	body    []byte
}

func (x *chunkSplitter) split(ref uint64, c *headsnap.Chunk, ps *partSet) error {
	if c.Data == nil {
		return nil
	}
	if err := x.dec.Reset(c.Encoding, c.Data); err != nil {
		return err
	}
	part, b := &ps.parts[ref%uint64(len(ps.parts))], &x.samples
	first, last, lastSum := int64(math.MaxInt64), int64(math.MinInt64), uint64(0)
	for x.dec.Kind() != chunkenc.ValFloat {
		ok, err := x.dec.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		t, st := x.dec.T(), x.dec.ST()
		first, last = min(first, t), t
		if x.dec.Kind() == chunkenc.ValHistogram {
			x.dec.Histogram(&x.ints)
			lastSum, x.body = x.ints.Digest(), record.AppendHistogram(x.body[:0], &x.ints)
			part.addWide(ref, t, 0, chunkenc.EncHistogram, st, x.body)
		} else {
			x.dec.FloatHistogram(&x.floats)
			lastSum, x.body = x.floats.Digest(), record.AppendFloatHistogram(x.body[:0], &x.floats)
			part.addWide(ref, t, 0, chunkenc.EncFloatHistogram, st, x.body)
		}
	}
	for x.dec.Left() > 0 {
		if err := x.dec.Decode(b, decodeLen); err != nil {
			return err
		}
		n := b.Len()
		first, last, lastSum = min(first, b.T[0]), b.T[n-1], math.Float64bits(b.V[n-1])
		for i, t := range b.T {
			part.addStart(ref, t, b.V[i], b.StartOf(i))
		}
	}
	if first != c.MinT || last != c.MaxT || lastSum != c.LastSum {
		return encbuf.Corrupt(0, "chunk is not what the series record says of it")
	}
	return nil
}

// apply is the ordered stage: it decodes full chunks, makes the series that stand behind them, and
// passes the samples on.
func (l *snapshotLoad) apply(r *replay, b *wal.Batch) error {
	d := b.Scratch.(*decodedSnapshot)
	if d.err != nil {
		return d.err
	}
	if err := l.makeAll(r, d.series, b.Records); err != nil {
		return err
	}
	for _, rec := range b.Records {
		var err error
		switch headsnap.KindOf(rec.Data) {
		case headsnap.KindMetadata:
			// Those of series that are not in the snapshot the log has behind it.
			err = addMetadata(r, rec.Data, func(uint64, string) {})
		case headsnap.KindLateReach:
			err = r.late.noteReach(r, rec.Data)
		}
		if err != nil {
			return err
		}
	}
	if err := r.exemplars.snapshot(r, b.Records); err != nil {
		return err
	}
	if d.stones != nil {
		r.out.Tombs = d.stones
		r.out.Tombstones += uint64(d.stones.Len())
	}
	r.out.Gone = append(r.out.Gone, d.gone...)
	for _, g := range d.gone {
		r.to.Series.RaiseNextRef(g.Ref + 1)
	}
	// All of it was on stable storage before the snapshot got its name.
	seq := l.Meta.Start.NextSeq - 1
	r.send(d.parts, seq, seq)
	return nil
}

// makeAll makes the series of a batch, the full chunks of which stand before them, some in the
// batch before. Those of a record are decoded when all before them have their series; what is left
// at the end, before the batch is gone.
func (l *snapshotLoad) makeAll(r *replay, series []headsnap.Series, records []wal.Record) (err error) {
	for i := range series {
		for l.mapped.isEmpty() && len(records) > 0 {
			if records, err = l.decodeNext(r, records); err != nil {
				return err
			}
		}
		if err := l.makeSeries(r, &series[i], l.mapped.take(series[i].Ref)); err != nil {
			return err
		}
	}
	for len(records) > 0 {
		if records, err = l.decodeNext(r, records); err != nil {
			return err
		}
	}
	return nil
}

// decodeNext decodes the next record of full chunks, and returns those behind it.
func (l *snapshotLoad) decodeNext(r *replay, records []wal.Record) ([]wal.Record, error) {
	for i, rec := range records {
		if headsnap.KindOf(rec.Data) == headsnap.KindMapped {
			return records[i+1:], l.mapped.decode(rec.Data, r.to.MinValid)
		}
	}
	return nil, nil
}

// isEmpty tells whether all have their series.
func (l *mappedList) isEmpty() bool { return l.taken == len(l.of) }

// take returns the chunks of a series; none, if they are those of another one. They are valid
// until more are decoded.
func (l *mappedList) take(ref uint64) []memseries.Mapped {
	if l.isEmpty() || l.of[l.taken].ref != ref {
		return nil
	}
	known := l.chunks[l.from:l.of[l.taken].end]
	l.from = l.of[l.taken].end
	l.taken++
	return known
}

// makeSeries makes one series with the full chunks that the snapshot knows. What head-chunk files
// have of it beyond the snapshot comes behind them.
func (l *snapshotLoad) makeSeries(r *replay, s *headsnap.Series, known []memseries.Mapped) error {
	series, hash := r.to.Series, s.Labels.Hash()
	if series.ByRef(s.Ref) != nil || series.ByLabels(s.Labels, hash) != nil {
		return l.damage("two series have the same ref or the same labels")
	}
	made, err := r.restoration.Restore(s.Ref, s.Labels, hash)
	if err != nil {
		return l.damage(err.Error())
	}
	l.series++
	for _, m := range known {
		// One that came into a file while the snapshot was written is behind the extent, and was
		// loaded.
		if int64(m.Ref.Offset()) >= l.trusted[m.Ref.File()] && !slices.Contains(r.loaded[s.Ref], m) {
			return l.damage("a head chunk file is not what it was")
		}
		r.out.SamplesInChunks += uint64(m.Num)
	}
	r.restoration.AttachKnown(made, known, r.loaded[s.Ref])
	delete(r.loaded, s.Ref)
	return nil
}

// trust notes which parts of the head-chunk files are as the snapshot knows them.
func (l *snapshotLoad) trust(extents []chunks.HeadExtent) {
	l.trusted = map[uint32]int64{}
	for _, e := range extents {
		l.trusted[e.File] = e.Size
	}
}
