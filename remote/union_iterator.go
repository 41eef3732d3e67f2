package remote

import (
	"math"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// union gives the float samples of several series as one, in the order of times. Of samples of the
// same time that of the first series counts.
type union struct {
	merged samplemerge.Merger
	parts  []unionPart
	begun  bool  // parts are in merged
	ahead  error // behind what was given
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
func (u *union) samples(b *chunkenc.Batch) error {
	open(b)
	if err := u.begin(); err != nil {
		return err
	}
	_, u.ahead = u.merged.Next(b) // parts give floats only
	if b.Len() > 0 {
		return nil
	}
	return u.ahead
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
	return u.merged.Seek(t)
}

// unionPart is one series of a union: samples that are decoded already.
type unionPart struct {
	it    chunkenc.Iterator
	run   chunkenc.Batch
	begun bool  // the iterator was moved
	last  int64 // time of the sample that it stands on then
}

// Next implements samplemerge.Source.
func (p *unionPart) Next(from int64, c *samplemerge.Chunk) (bool, error) {
	var typ chunkenc.ValueType
	if from > math.MinInt64 && (!p.begun || p.last < from) {
		if typ = p.it.Seek(from); typ == chunkenc.ValFloat {
			p.stand()
		}
	} else {
		typ = p.it.NextBatch(&p.run)
	}
	switch typ {
	case chunkenc.ValNone:
		return false, p.it.Err()
	case chunkenc.ValFloat:
	default:
		return false, errNoFloat
	}
	n := p.run.Len()
	p.begun, p.last = true, p.run.T[n-1]
	*c = samplemerge.Chunk{Samples: &p.run, MinT: p.run.T[0], MaxT: p.last, Bounds: samplemerge.Everything()}
	return true, nil
}

// stand makes a run of the sample that the iterator stands on.
func (p *unionPart) stand() {
	t, v := p.it.At()
	p.run.T, p.run.V, p.run.ST = append(p.run.T[:0], t), append(p.run.V[:0], v), p.run.ST[:0]
	if st := p.it.AtST(); st != 0 {
		p.run.ST = append(p.run.ST, st)
	}
}

// Place implements samplemerge.Source. Where samples are that do not ascend, their iterator knows.
func (p *unionPart) Place(err error) error { return err }
