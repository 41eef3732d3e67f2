package latelog

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/record"
)

// dump writes all samples of a store as one commit says them.
type dump struct {
	log   *Log
	store *late.Store
	seq   uint64

	commit Commit
	typ    record.Type // of the record that is open; TypeNone: none is
	rec    []byte
	starts record.StartEncoder
	hists  record.HistogramEncoder
	ints   histogram.Histogram
	floats histogram.FloatHistogram
	body   []byte
}

// dumpBytes is how long a record gets, and about how long a commit.
const dumpBytes = 64 << 10

func (d *dump) write() error {
	var e late.Excerpt
	for _, ref := range d.store.Refs() {
		if err := e.Take(d.store, ref, math.MaxUint64, math.MinInt64, math.MaxInt64); err != nil {
			return err
		}
		for _, c := range e.Chunks {
			if err := d.chunk(ref, c); err != nil {
				return err
			}
		}
	}
	return d.end()
}

// chunk adds the samples of a chunk.
func (d *dump) chunk(ref uint64, c late.Chunk) error {
	chunk, err := chunkenc.FromData(c.Encoding, c.Data)
	if err != nil {
		return err
	}
	it := chunk.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		switch kind {
		case chunkenc.ValFloat:
			t, v := it.At()
			d.begin(record.TypeSamplesV2)
			d.rec = d.starts.Append(d.rec, record.Sample{Ref: ref, T: t, V: v}, it.AtST())
		case chunkenc.ValHistogram:
			t := it.AtHistogram(&d.ints)
			d.begin(record.HistogramType(false, d.ints.Custom(), true))
			d.body = record.AppendHistogram(d.body[:0], &d.ints)
			d.rec = d.hists.Append(d.rec, ref, t, it.AtST(), d.body)
		default:
			t := it.AtFloatHistogram(&d.floats)
			d.begin(record.HistogramType(true, d.floats.Custom(), true))
			d.body = record.AppendFloatHistogram(d.body[:0], &d.floats)
			d.rec = d.hists.Append(d.rec, ref, t, it.AtST(), d.body)
		}
		if len(d.rec) > dumpBytes {
			if err := d.end(); err != nil {
				return err
			}
		}
	}
	return errors.WithMessage(it.Err(), "late samples in memory")
}

// begin makes the record one of a type.
func (d *dump) begin(typ record.Type) {
	if d.typ == typ {
		return
	}
	d.endRecord()
	d.typ = typ
	if typ == record.TypeSamplesV2 {
		d.rec = d.starts.Begin(d.rec[:0])
	} else {
		d.rec = d.hists.Begin(d.rec[:0], typ)
	}
}

func (d *dump) endRecord() {
	if d.typ != record.TypeNone {
		d.commit.End(append(d.commit.Begin(), d.rec...))
		d.typ = record.TypeNone
	}
	d.rec = d.rec[:0]
}

// end writes what was gathered.
func (d *dump) end() error {
	d.endRecord()
	if d.commit.Records() == 0 {
		return nil
	}
	first := record.AppendLateDump(nil, d.seq)
	var c Commit
	c.End(append(c.Begin(), first...))
	for i := range d.commit.Records() {
		c.End(append(c.Begin(), d.commit.Record(i)...))
	}
	d.commit.Reset()
	return d.log.writeNow(&c)
}
