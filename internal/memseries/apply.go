package memseries

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// Sample is one on its way to its series. All kinds share the loops: the encoding is that of the
// chunks that it needs, and the tag that tells kinds apart.
type Sample struct {
	Series *Series
	T      int64  // milliseconds
	Sum    uint64 // the bits of a float; of what is more than a float, a sum that tells it from others
	// Wide is the number that a sample that is not of EncXOR has in the WideSamples beside it.
	Wide     uint32
	Encoding chunkenc.Encoding
	Late     Lateness
}

// SetFloat makes st a float without a start timestamp, field by field: to read what was just
// written in smaller words waits until that is in the cache (BenchmarkStage).
func (st *Sample) SetFloat(s *Series, t int64, v float64) {
	st.Series, st.T, st.Sum, st.Wide, st.Encoding, st.Late = s, t, math.Float64bits(v), 0, chunkenc.EncXOR, InOrder
}

// keptStaged is for how many of something Emptied keeps room in any case. More it keeps as long as
// a fourth of it is used: a huge commit now and then shall not pin its memory for ever.
const keptStaged = 1 << 14

// Emptied returns a list of what was staged for its next use: it keeps no page of series alive.
func Emptied[T any](list []T) []T {
	clear(list)
	if cap(list) > max(keptStaged, 4*len(list)) {
		return nil
	}
	return list[:0]
}

// Lateness says what is known of a sample on its way: whether it is for the series at all.
type Lateness uint8

// The kinds of lateness.
const (
	InOrder  Lateness = iota // newer than all others of its series
	IsLate                   // it goes to the late ones
	IsRepeat                 // it is there, and goes nowhere
)

// ApplyLocked adds the samples of commit seq to their series, and returns the oldest and the newest
// of their times; of none math.MaxInt64 and math.MinInt64. Each is newer than all others of its
// series: the reservation made sure. wide has what samples point to. floor is the oldest snapshot
// that anybody can still ask for.
func (ss *Shards) ApplyLocked(samples []Sample, wide *WideSamples, seq, floor uint64, snapshots Snapshots) (mint, maxt int64) {
	mint, maxt = math.MaxInt64, math.MinInt64
	var w WideSample
	for i := range samples {
		if far := i + 2*aheadLen; far < len(samples) {
			samples[far].Series.ahead()
		}
		if near := i + aheadLen; near < len(samples) {
			ss.endAheadLocked(samples[near].Series)
		}
		st := &samples[i]
		s := st.Series
		sh := ss.of(s)
		if s.lastSeq != seq {
			if s.lastSeq > floor {
				sh.markLocked(s, floor, snapshots)
			}
			s.prevMaxt = s.Maxt()
			s.lastSeq = seq
		}
		sh.mu.seq = seq
		if st.Encoding == chunkenc.EncXOR {
			sh.mu.append(s, st.T, math.Float64frombits(st.Sum))
		} else {
			wide.Fill(&w, st)
			sh.mu.appendWide(s, &w)
		}
		mint, maxt = min(mint, st.T), max(maxt, st.T)
	}
	return mint, maxt
}

// NoteAppliedLocked says of a series that a commit without samples of it was applied, which has
// logged it, if no other commit was.
func (ss *Shards) NoteAppliedLocked(s *Series, seq uint64) {
	if s.lastSeq == 0 {
		s.prevMaxt, s.lastSeq = s.Maxt(), seq
	}
}

// UnreserveLocked makes a series fall back to what is applied, after a commit that was not written.
func (ss *Shards) UnreserveLocked(s *Series) {
	s.pendT.Store(s.Maxt())
	s.pendV = s.enc.LastBits()
	s.notes.setKind(s.open)
	if s.enc.Len() == 0 {
		s.pendV = ss.of(s).mu.lastSum[s.ref]
	}
}

// aheadLen is how many samples before it is needed memory is asked for, and the record that leads
// to it as many before that: a load takes as long as five or ten of them (BenchmarkAppendCommit).
const aheadLen = 8

// ahead asks for the record: for what of it Append has not read.
func (s *Series) ahead() { prefetch.Lines(&s.prevMaxt, &s.cutAt) }

// endAheadLocked asks for the end of the open chunk.
func (ss *Shards) endAheadLocked(s *Series) {
	if s.bytes.size > 0 {
		prefetch.Line(ss.chunkBytes.at(s.bytes.last))
	}
}
