package remote

import (
	"math"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// union gives the samples of several series as one, in the order of times. Of samples of the same
// time that of the first series counts.
type union struct {
	merged samplemerge.Merger
	parts  []unionPart
	begun  bool  // parts are in merged
	ahead  error // behind what was given

	mergedOther
}

// newUnion returns an iterator before the first sample.
func newUnion(in ...chunkenc.Iterator) *batchIterator {
	u := &union{parts: make([]unionPart, len(in))}
	for i, it := range in {
		u.parts[i].it = it
	}
	return &batchIterator{src: u}
}

// unionOf returns an iterator before the first sample of some series.
func unionOf(group []*tsdb.Series) *batchIterator {
	in := make([]chunkenc.Iterator, len(group))
	for i, s := range group {
		in[i] = s.Iterator(nil)
	}
	return newUnion(in...)
}

// samples implements batchSource. Samples in front of damage are given first.
func (u *union) samples(b *chunkenc.Batch) (chunkenc.ValueType, error) {
	open(b)
	if err := u.begin(); err != nil {
		return chunkenc.ValNone, err
	}
	u.leave(&u.merged)
	stop := samplemerge.AtChunk
	for stop == samplemerge.AtChunk && u.ahead == nil {
		if stop, u.ahead = u.merged.Step(b); stop == samplemerge.AtChunk && u.ahead == nil {
			u.before, u.ahead = nil, u.merged.Open()
		}
	}
	kind := u.stopped(&u.merged, stop, b)
	if kind != chunkenc.ValNone {
		return kind, nil
	}
	return kind, u.ahead
}

// begin adds the parts, which have an error if they have one at once.
func (u *union) begin() error {
	for i := 0; !u.begun && i < len(u.parts) && u.ahead == nil; i++ {
		u.ahead = u.merged.Add(&u.parts[i])
	}
	u.begun = true
	return u.ahead
}

// seek implements batchSource.
func (u *union) seek(t int64) error {
	if u.ahead != nil {
		return u.ahead
	}
	u.leave(&u.merged)
	u.before = nil
	return u.merged.Seek(t)
}

// unionPart is one series of a union: samples that are decoded already. What is no float is encoded
// again, as the merger wants it: so hints are made of what the series has.
type unionPart struct {
	it     chunkenc.Iterator
	run    chunkenc.Batch
	others unionChunk
	begun  bool               // the iterator was moved
	last   int64              // time of the last sample that was given then
	stands chunkenc.ValueType // of the iterator's sample, if it was not given; else ValNone
}

// unionSamples is how many samples a chunk has that is made of several series, as others have.
const unionSamples = 120

// unionChunk is a chunk that is made of samples of an iterator.
type unionChunk struct {
	enc    chunkenc.Encoder
	data   []byte
	ints   histogram.Histogram
	floats histogram.FloatHistogram
}

// take begins the chunk with the sample that an iterator stands on, adds those behind it that fit,
// and returns the kind of the first one that does not; the iterator stands on that.
func (u *unionChunk) take(it chunkenc.Iterator, kind chunkenc.ValueType) (next chunkenc.ValueType, maxt int64, err error) {
	u.enc.Reset()
	for kind != chunkenc.ValNone && u.enc.Len() < unionSamples {
		if err := u.append(it, kind); err != nil {
			if u.enc.Len() == 0 {
				return kind, 0, err
			}
			break
		}
		maxt = it.AtT()
		kind = it.Next()
	}
	u.data = u.enc.AppendTo(u.data[:0])
	return kind, maxt, nil
}

// append adds the sample that an iterator stands on.
func (u *unionChunk) append(it chunkenc.Iterator, kind chunkenc.ValueType) error {
	switch kind {
	case chunkenc.ValHistogram:
		t := it.AtHistogram(&u.ints)
		return u.enc.AppendHistogram(t, &u.ints, it.AtST())
	case chunkenc.ValFloatHistogram:
		t := it.AtFloatHistogram(&u.floats)
		return u.enc.AppendFloatHistogram(t, &u.floats, it.AtST())
	default:
		t, v := it.At()
		return u.enc.Append(t, v, it.AtST())
	}
}

// Next implements samplemerge.Source.
func (p *unionPart) Next(from int64, c *samplemerge.Chunk) (bool, error) {
	kind := p.move(from)
	switch kind {
	case chunkenc.ValNone:
		return false, p.it.Err()
	case chunkenc.ValFloat:
		*c = samplemerge.Chunk{Samples: &p.run, MinT: p.run.T[0], MaxT: p.run.T[p.run.Len()-1]}
	default:
		if err := p.encode(kind, c); err != nil {
			return false, err
		}
	}
	c.Bounds = samplemerge.Everything()
	p.begun, p.last = true, c.MaxT
	return true, nil
}

// move finds the next samples: floats are in the run then, and the iterator stands on the first one
// of others.
func (p *unionPart) move(from int64) chunkenc.ValueType {
	kind := p.stands
	p.stands = chunkenc.ValNone
	switch {
	case kind != chunkenc.ValNone:
	case from > math.MinInt64 && (!p.begun || p.last < from):
		kind = p.it.Seek(from)
	default:
		if kind = p.it.NextBatch(&p.run); kind > chunkenc.ValFloat {
			p.it.Next()
		}
		return kind
	}
	if kind == chunkenc.ValFloat {
		p.stand()
	}
	return kind
}

// stand makes a run of the sample that the iterator stands on.
func (p *unionPart) stand() {
	t, v := p.it.At()
	p.run.T, p.run.V, p.run.ST = append(p.run.T[:0], t), append(p.run.V[:0], v), p.run.ST[:0]
	if st := p.it.AtST(); st != 0 {
		p.run.ST = append(p.run.ST, st)
	}
}

// encode makes a chunk of the sample that the iterator stands on, and of those behind it that fit.
func (p *unionPart) encode(kind chunkenc.ValueType, c *samplemerge.Chunk) (err error) {
	o, mint := &p.others, p.it.AtT()
	*c = samplemerge.Chunk{MinT: mint}
	if p.stands, c.MaxT, err = o.take(p.it, kind); err != nil {
		return err
	}
	c.Encoding, c.Data = o.enc.Encoding(), o.data
	return nil
}

// Place implements samplemerge.Source. Where samples are that do not ascend, their iterator knows.
func (p *unionPart) Place(err error) error { return err }
