package tsdb

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// staging is what an Appender has staged. It outlives the Appender in a pool.
type staging struct {
	h       *head
	samples []memseries.Sample
	wide    memseries.WideSamples // what some of samples have beside
	shards  memseries.ShardSet
	pinned  []*memseries.Series // series that may have no sample in the head
	fresh   []*memseries.Series // series whose record this commit logs
	commit  wal.Commit
	turns   memseries.Turns
	refused refusals

	metadata  stagedMetadata
	exemplars stagedExemplars
	late      stagedLate
}

// add stages one more sample. Its fields are copied one by one: to read what was just written in
// smaller words waits until that is in the cache (BenchmarkAppendLate).
func (sg *staging) add(st *memseries.Sample) {
	n := len(sg.samples)
	sg.samples = append(sg.samples, memseries.Sample{})
	to := &sg.samples[n]
	to.Series, to.T, to.Sum, to.Wide, to.Encoding, to.Late = st.Series, st.T, st.Sum, st.Wide, st.Encoding, st.Late
	sg.shards |= memseries.Bit(st.Series)
}

// addTo puts what a sample has beyond a time and 64 bits beside. It returns the rest of it but for
// its time and its series. Of a histogram what its schema does not have is left out.
func (s *Sample) addTo(wide *memseries.WideSamples) (enc chunkenc.Encoding, sum uint64, number uint32, err error) {
	switch {
	case s.H != nil && s.FH != nil:
		return 0, 0, 0, errBothKinds
	case s.H != nil:
		h := s.H
		if h.Custom() || len(h.CustomValues) > 0 {
			normal := *h
			normal.Normalize()
			h = &normal
		}
		if err := h.Validate(); err != nil {
			return 0, 0, 0, err
		}
		return chunkenc.EncHistogram, h.Digest(), wide.AddHistogram(s.ST, h), nil
	case s.FH != nil:
		h := s.FH
		if h.Custom() || len(h.CustomValues) > 0 {
			normal := *h
			normal.Normalize()
			h = &normal
		}
		if err := h.Validate(); err != nil {
			return 0, 0, 0, err
		}
		return chunkenc.EncFloatHistogram, h.Digest(), wide.AddFloatHistogram(s.ST, h), nil
	default:
		return memseries.FloatEncoding(s.ST), math.Float64bits(s.V), wide.AddStart(s.ST), nil
	}
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
	if cap(sg.pinned)+cap(sg.fresh) > 0 {
		sg.pinned, sg.fresh = memseries.Emptied(sg.pinned), memseries.Emptied(sg.fresh)
	}
	sg.samples = memseries.Emptied(sg.samples)
	sg.wide.Reset()
	sg.shards = 0
	if sg.hasNotes() {
		sg.metadata.clear()
		sg.exemplars.clear()
	}
	sg.refused.moveTo(&sg.h.commits)
	sg.late.clear()
	sg.commit.Reset()
	sg.h.commits.stagings.Put(sg)
}

// hasNotes says that there are metadata or exemplars.
func (sg *staging) hasNotes() bool { return len(sg.metadata.entries)+len(sg.exemplars.of) > 0 }

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
	memseries.AppendSeriesRecord(c, sg.h.series, sg.fresh)
	sg.metadata.encode(c)
	if len(sg.samples) > 0 {
		maxt := sg.wide.AppendRecords(c, sg.samples)
		if len(sg.fresh) == 0 && len(sg.late.Kept) == 0 {
			c.Expires(maxt)
		}
	}
	sg.late.encode(sg)
	sg.exemplars.encode(c)
}
