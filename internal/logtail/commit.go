// Package logtail turns the records of a commit into what was committed: samples, exemplars,
// metadata.
//
// It knows what records mean, and that commits are read one after the other while the log is
// written; it does not know which series there are. A Commit belongs to one goroutine.
package logtail

import (
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

// Sample is a sample of a commit. Of H and FH at most one is set, and then V means nothing.
type Sample struct {
	Ref   chunks.SeriesRef
	T, ST int64 // milliseconds since 1970; ST is the start timestamp, 0 is none
	V     float64
	H     *histogram.Histogram
	FH    *histogram.FloatHistogram
	Late  bool // it was older than the newest of its series
}

// Exemplar is an exemplar of a commit.
type Exemplar struct {
	Ref chunks.SeriesRef
	exemplar.Exemplar
}

// Metadata is what a commit says of a series.
type Metadata struct {
	Ref chunks.SeriesRef
	record.Metadata
}

// Commit is what was committed together, in the order of the log. Histograms are good until the
// next call of Read.
type Commit struct {
	Samples   []Sample
	Exemplars []Exemplar
	Metadata  []Metadata
	// Unread counts records, and histograms in them, that make no sense to this version.
	Unread int

	floats []record.Sample
	starts []int64
	ints   lent[histogram.Histogram]
	counts lent[histogram.FloatHistogram]
}

// lent are values that are used again.
type lent[T any] struct {
	list []*T
	n    int
}

func (l *lent[T]) next() *T {
	if l.n == len(l.list) {
		l.list = append(l.list, new(T))
	}
	l.n++
	return l.list[l.n-1]
}

// Read makes c what the records of a commit say. Unread is what it passes over.
func (c *Commit) Read(records [][]byte) {
	clear(c.Exemplars)
	clear(c.Metadata)
	c.Samples, c.Exemplars, c.Metadata, c.Unread = c.Samples[:0], c.Exemplars[:0], c.Metadata[:0], 0
	c.ints.n, c.counts.n = 0, 0
	for _, rec := range records {
		c.read(rec, false)
	}
}

func (c *Commit) read(rec []byte, late bool) {
	switch typ := record.TypeOf(rec); {
	case typ == record.TypeSamples || typ == record.TypeSamplesV2:
		c.readFloats(rec, late)
	case typ.HoldsHistograms():
		c.readHistograms(rec, late)
	case typ == record.TypeLate && !late:
		_, samples, err := record.ReadLate(rec)
		if err != nil {
			c.Unread++
			return
		}
		c.read(samples, true)
	case typ == record.TypeExemplars:
		c.readExemplars(rec)
	case typ == record.TypeMetadata:
		c.readMetadata(rec)
	case typ.HoldsSamples():
		c.Unread++
	}
}

// fewFloats is how many floats are decoded at a time.
const fewFloats = 256

func (c *Commit) readFloats(rec []byte, late bool) {
	if c.floats == nil {
		c.floats, c.starts = make([]record.Sample, fewFloats), make([]int64, fewFloats)
	}
	var d record.SampleDecoder
	d.Reset(rec)
	for {
		n, err := d.DecodeStarts(c.floats, c.starts)
		for i, s := range c.floats[:n] {
			c.Samples = append(c.Samples, Sample{Ref: chunks.SeriesRef(s.Ref), T: s.T, ST: c.starts[i], V: s.V, Late: late})
		}
		if err != nil {
			c.Unread++
		}
		if err != nil || n < len(c.floats) {
			return
		}
	}
}

func (c *Commit) readHistograms(rec []byte, late bool) {
	var d record.HistogramDecoder
	d.Reset(rec)
	for d.Next() {
		s := Sample{Ref: chunks.SeriesRef(d.Ref()), T: d.T(), ST: d.ST(), Late: late}
		err := d.Check()
		switch {
		case err != nil:
		case d.Floats():
			s.FH = c.counts.next()
			err = d.DecodeFloat(s.FH)
		default:
			s.H = c.ints.next()
			err = d.DecodeInt(s.H)
		}
		if err != nil {
			c.Unread++
			continue
		}
		c.Samples = append(c.Samples, s)
	}
	if d.Err() != nil {
		c.Unread++
	}
}

func (c *Commit) readExemplars(rec []byte) {
	var d record.ExemplarDecoder
	d.Reset(rec)
	for d.Next() {
		lying, err := d.Labels()
		if err != nil {
			c.Unread++
			continue
		}
		ls := labels.New(lying.AppendTo(nil)...) // a copy
		c.Exemplars = append(c.Exemplars, Exemplar{chunks.SeriesRef(d.Ref()), exemplar.Exemplar{Labels: ls, T: d.T(), HasT: true, Value: d.Value()}})
	}
	if d.Err() != nil {
		c.Unread++
	}
}

func (c *Commit) readMetadata(rec []byte) {
	var d record.MetadataDecoder
	d.Reset(rec)
	for d.Next() {
		c.Metadata = append(c.Metadata, Metadata{chunks.SeriesRef(d.Ref()), d.Metadata()})
	}
	if d.Err() != nil {
		c.Unread++
	}
}
