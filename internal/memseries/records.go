package memseries

import (
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/record"
)

// Records takes records of the log, one after the other.
type Records interface {
	Begin() []byte
	End(rec []byte)
}

// AppendSeriesRecord writes the record of new series, if there are some.
func AppendSeriesRecord(c Records, d *Directory, fresh []*Series) {
	if len(fresh) == 0 {
		return
	}
	rec := record.BeginSeries(c.Begin())
	for _, s := range fresh {
		pairs := d.Pairs(s)
		rec = record.AppendSeriesRef(rec, s.Ref(), len(pairs))
		for _, p := range pairs {
			name, value := d.Postings().Label(p)
			rec = record.AppendLabel(rec, name, value)
		}
	}
	c.End(rec)
}

// AppendRecords writes samples in their order, in records of one kind each, and returns the newest
// of their times. What some of them have beside is in w.
func (w *WideSamples) AppendRecords(c Records, samples []Sample) (maxt int64) {
	maxt = math.MinInt64
	for rest := samples; len(rest) > 0; {
		n := len(rest)
		if w.Len() > 0 {
			n = sameKind(rest)
		}
		run := rest[:n]
		rest = rest[n:]
		for i := range run {
			maxt = max(maxt, run[i].T)
		}
		switch {
		case run[0].Encoding.Kind() != chunkenc.ValFloat:
			w.encodeHistograms(c, run)
		case w.Len() > 0:
			w.encodeStarts(c, run)
		default:
			encodeFloats(c, run)
		}
	}
	return maxt
}

// sameKind returns how many samples in front are of one kind.
func sameKind(samples []Sample) int {
	n, kind := 1, samples[0].Encoding.Kind()
	for n < len(samples) && samples[n].Encoding.Kind() == kind {
		n++
	}
	return n
}

// floatBytes is about what a float takes in a record: its bits, one byte for the step to its series
// and three for that to its time. Many of one series are mostly so; a buffer that would grow by and
// by is copied a few times.
const floatBytes = 12

func encodeFloats(c Records, run []Sample) {
	var enc record.SampleEncoder
	rec := enc.Begin(slices.Grow(c.Begin(), floatBytes*len(run)))
	for i := range run {
		st := &run[i]
		rec = enc.Append(rec, st.Series.Ref(), st.T, math.Float64frombits(st.Sum))
	}
	c.End(rec)
}

// encodeStarts writes floats some of which may have start timestamps.
func (w *WideSamples) encodeStarts(c Records, run []Sample) {
	var enc record.StartEncoder
	rec := enc.Begin(c.Begin())
	for i := range run {
		s := &run[i]
		rec = enc.Append(rec, record.Sample{Ref: s.Series.Ref(), T: s.T, V: math.Float64frombits(s.Sum)}, w.Start(s))
	}
	c.End(rec)
}

// encodeHistograms writes histograms of one kind: those with custom buckets apart, as the format
// wants it, unless there are start timestamps.
func (w *WideSamples) encodeHistograms(c Records, run []Sample) {
	floats := run[0].Encoding == chunkenc.EncFloatHistogram
	starts := false
	for i := range run {
		starts = starts || w.Start(&run[i]) != 0
	}
	var enc record.HistogramEncoder
	var rec []byte
	last := record.TypeNone
	for i := range run {
		s := &run[i]
		if typ := record.HistogramType(floats, w.Custom(s), starts); typ != last {
			if last != record.TypeNone {
				c.End(rec)
			}
			rec, last = enc.Begin(c.Begin(), typ), typ
		}
		rec = w.AppendBody(enc.Append(rec, s.Series.Ref(), s.T, w.Start(s), nil), s)
	}
	c.End(rec)
}
