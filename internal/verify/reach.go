package verify

import (
	"fmt"
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// adviceCut is what to do about a log that has lost its end.
const adviceCut = "Open serves what is in full chunks and goes on behind what is lost; a backup may have the rest"

// holdAgainstChunks compares what the log says with the full chunks, as Open does.
func (c *logCheck) holdAgainstChunks(log *wal.ReplayReport, reach *logreach.Reach) {
	s := logreach.StateOf(log, reach)
	newest := map[uint64]int64{} // by labels: two refs may stand for the same
	for _, l := range c.series {
		if old, ok := newest[l.hash]; !ok || l.maxt > old {
			newest[l.hash] = l.maxt
		}
	}
	behind, unreached, unknown := 0, 0, 0
	for _, chunk := range c.v.headTimes {
		series, known := c.series[chunk.series]
		t := newest[series.hash]
		switch {
		case !known:
			unknown++
		case t == memseries.NoTime:
			unreached++
		case chunk.maxt > t:
			behind++
		}
	}
	cut := s.IsCut(behind)
	s.Lost = s.Lost || cut
	find := func(severity Severity, n int, what, meaning string) {
		if n > 0 {
			c.v.find(Finding{Severity: severity, File: filepath.Join(c.v.dir, datadir.HeadChunksDir),
				What: fmt.Sprintf(what, n), Meaning: meaning, Advice: adviceCut})
		}
	}
	if cut {
		find(Damage, behind, "%d full chunks have samples that the log has not", "the log has lost its end")
	}
	if s.Lost {
		find(Warning, behind+unreached, "%d full chunks are the only ones that have their samples",
			"what commits deleted that the log has lost is there again")
	}
	if s.MayLackSeries(log) {
		find(Damage, unknown, "%d full chunks are of series that the log does not have", "their labels are lost, so nobody can read them")
	}
}
