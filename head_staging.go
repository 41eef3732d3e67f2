package tsdb

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// staging is what an Appender has staged. It outlives the Appender in a pool.
type staging struct {
	h       *head
	samples []memseries.Sample
	wide    memseries.Payloads // of samples
	body    []byte             // scratch
	shards  memseries.ShardSet
	pinned  []*memseries.Series // series that may have no sample in the head
	fresh   []*memseries.Series // series whose record this commit logs
	commit  wal.Commit
	turns   memseries.Turns
	refused refusals

	metadata  stagedMetadata
	exemplars stagedExemplars
}

// wideOf returns a sample that is more than a time and a float, and puts what it has beyond these
// beside.
func (sg *staging) wideOf(of *memseries.Series, s *Sample) (memseries.Sample, error) {
	w, err := s.wide(sg.body[:0])
	if err != nil {
		return memseries.Sample{}, err
	}
	sg.body = w.Body
	return memseries.Sample{Series: of, T: w.T, Sum: w.Sum, Encoding: w.Encoding, Wide: sg.wide.Add(w.ST, w.Body)}, nil
}

// wide returns a sample as the engine has those of every kind. Its body is in buf.
func (s *Sample) wide(buf []byte) (memseries.WideSample, error) {
	w := memseries.WideSample{T: s.T, ST: s.ST, Body: buf}
	switch {
	case s.H != nil && s.FH != nil:
		return w, errors.New("sample with two histograms: want H or FH")
	case s.H != nil:
		h := *s.H
		h.Normalize()
		if err := h.Validate(); err != nil {
			return w, err
		}
		w.Encoding, w.Sum, w.Body = chunkenc.EncHistogram, h.Digest(), record.AppendHistogram(buf, &h)
	case s.FH != nil:
		h := *s.FH
		h.Normalize()
		if err := h.Validate(); err != nil {
			return w, err
		}
		w.Encoding, w.Sum, w.Body = chunkenc.EncFloatHistogram, h.Digest(), record.AppendFloatHistogram(buf, &h)
	default:
		w.Encoding, w.Sum = memseries.FloatEncoding(s.ST), math.Float64bits(s.V)
	}
	return w, nil
}

// floatOf returns a float without a start timestamp.
func floatOf(s *memseries.Series, t int64, v float64) memseries.Sample {
	return memseries.Sample{Series: s, T: t, Sum: math.Float64bits(v), Encoding: chunkenc.EncXOR}
}

// abandon is Rollback for an Appender that the garbage collector found.
func (sg *staging) abandon() { sg.release() }

// release unpins what was pinned, removes series that nobody has a sample for,
// and gives the staging back.
func (sg *staging) release() {
	for _, s := range sg.pinned {
		if s.Unpin() == 0 && s.PendingT() == memseries.NoTime && sg.h.series.RemoveUnused(s) {
			sg.h.commits.seriesRemoved.Add(1)
		}
	}
	clear(sg.pinned)
	clear(sg.fresh)
	clear(sg.samples) // a pooled one keeps no page of series alive
	sg.pinned, sg.fresh, sg.samples = sg.pinned[:0], sg.fresh[:0], sg.samples[:0]
	sg.wide, sg.shards = sg.wide[:0], 0
	sg.metadata.clear()
	sg.refused.moveTo(&sg.h.commits)
	sg.exemplars.clear()
	sg.commit.Reset()
	sg.h.commits.stagings.Put(sg)
}

// logLocked has this commit log a series, unless one has before.
func (sg *staging) logLocked(s *memseries.Series) {
	if !s.Logged() {
		s.SetLogged(true)
		sg.fresh = append(sg.fresh, s)
	}
}

// encode writes the records of the commit: new series first, metadata, then samples in the order in
// which they were staged, which is time order for each series, and exemplars. Samples are of no use
// to the log any more when the newest of them is in a block; the others a checkpoint has from
// memory.
func (sg *staging) encode() {
	c := &sg.commit
	if len(sg.fresh) > 0 {
		rec := record.BeginSeries(c.Begin())
		for _, s := range sg.fresh {
			rec = sg.appendSeries(rec, s)
		}
		c.End(rec)
	}
	sg.metadata.encode(c)
	if len(sg.samples) > 0 {
		maxt := sg.encodeSamples(c)
		if len(sg.fresh) == 0 {
			c.Expires(maxt)
		}
	}
	sg.exemplars.encode(c)
}

// encodeSamples writes the samples in the order in which they were staged, in records of one kind
// each, and returns the newest of their times.
func (sg *staging) encodeSamples(c *wal.Commit) (maxt int64) {
	maxt = math.MinInt64
	for rest := sg.samples; len(rest) > 0; {
		n := len(rest)
		if len(sg.wide) > 0 {
			n = sameKind(rest)
		}
		run := rest[:n]
		rest = rest[n:]
		for i := range run {
			maxt = max(maxt, run[i].T)
		}
		switch {
		case run[0].Encoding.Kind() != chunkenc.ValFloat:
			sg.encodeHistograms(c, run)
		case len(sg.wide) > 0:
			sg.encodeStarts(c, run)
		default:
			encodeFloats(c, run)
		}
	}
	return maxt
}

// sameKind returns how many samples in front are of one kind.
func sameKind(samples []memseries.Sample) int {
	n, kind := 1, samples[0].Encoding.Kind()
	for n < len(samples) && samples[n].Encoding.Kind() == kind {
		n++
	}
	return n
}

func encodeFloats(c *wal.Commit, run []memseries.Sample) {
	var enc record.SampleEncoder
	rec := enc.Begin(c.Begin())
	for i := range run {
		st := &run[i]
		rec = enc.Append(rec, st.Series.Ref(), st.T, math.Float64frombits(st.Sum))
	}
	c.End(rec)
}

// encodeStarts writes floats some of which may have start timestamps.
func (sg *staging) encodeStarts(c *wal.Commit, run []memseries.Sample) {
	var enc record.StartEncoder
	rec := enc.Begin(c.Begin())
	for i := range run {
		w := sg.wide.Of(&run[i])
		rec = enc.Append(rec, record.Sample{Ref: run[i].Series.Ref(), T: w.T, V: math.Float64frombits(w.Sum)}, w.ST)
	}
	c.End(rec)
}

// encodeHistograms writes histograms of one kind: those with custom buckets apart, as the format
// wants it, unless there are start timestamps.
func (sg *staging) encodeHistograms(c *wal.Commit, run []memseries.Sample) {
	floats := run[0].Encoding == chunkenc.EncFloatHistogram
	starts := false
	for i := range run {
		starts = starts || sg.wide.Start(run[i].Wide) != 0
	}
	var enc record.HistogramEncoder
	var rec []byte
	last := record.TypeNone
	for i := range run {
		w := sg.wide.Of(&run[i])
		typ := record.HistogramType(floats, record.CustomEntry(w.Body), starts)
		if typ != last {
			if last != record.TypeNone {
				c.End(rec)
			}
			rec, last = enc.Begin(c.Begin(), typ), typ
		}
		rec = enc.Append(rec, run[i].Series.Ref(), w.T, w.ST, w.Body)
	}
	c.End(rec)
}

func (sg *staging) appendSeries(rec []byte, s *memseries.Series) []byte {
	series := sg.h.series
	pairs := series.Pairs(s)
	rec = record.AppendSeriesRef(rec, s.Ref(), len(pairs))
	for _, p := range pairs {
		name, value := series.Postings().Label(p)
		rec = record.AppendLabel(rec, name, value)
	}
	return rec
}
