package memseries

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// Sample is one on its way to its series. Its kind is a tag: all kinds share the loops.
type Sample struct {
	Series *Series
	T      int64
	V      float64
	Kind   Kind
}

// ApplyLocked adds the samples of commit seq, one or more, to their series, and returns the oldest and the newest of their
// times. Each is newer than all others of its series: the reservation made sure. floor is the oldest
// snapshot that anybody can still ask for.
func (d *Directory) ApplyLocked(samples []Sample, seq, floor uint64, snapshots Snapshots) (mint, maxt int64) {
	mint, maxt = math.MaxInt64, math.MinInt64
	for i := range samples {
		if far := i + 2*aheadLen; far < len(samples) {
			d.aheadLocked(samples[far].Series, samples[far-aheadLen].Series)
		}
		st := &samples[i]
		s := st.Series
		sh := d.ShardOf(s)
		if s.lastSeq != seq {
			if s.lastSeq > floor {
				sh.markLocked(s, floor, snapshots)
			}
			s.prevMaxt = s.Maxt()
			s.lastSeq = seq
		}
		sh.mu.seq = seq
		sh.mu.append(s, st.T, st.V)
		mint, maxt = min(mint, st.T), max(maxt, st.T)
	}
	return mint, maxt
}

// aheadLen is how many samples before it is needed memory is asked for: a load takes as long as five or ten of them
// (BenchmarkAppendCommit).
const aheadLen = 8

// aheadLocked asks for what applying a sample needs: of far all of the record that Append has not read, of near,
// whose record was asked for before, the end of the open chunk.
func (d *Directory) aheadLocked(far, near *Series) {
	prefetch.Lines(&far.prevMaxt, &far.cutAt)
	if near.bytes.size > 0 {
		prefetch.Line(d.chunkBytes.at(near.bytes.last))
	}
}
