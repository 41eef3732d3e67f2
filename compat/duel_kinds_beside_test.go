package compat

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	theirmeta "github.com/prometheus/prometheus/model/metadata"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// exemplarNotes are what both engines should have of exemplars.
type exemplarNotes struct {
	most int             // that the ring of each has
	all  []notedExemplar // that are in one of the rings, or may be, as they were inserted
	last []int64         // of each series, the newest time
	used map[string]bool // series and times, see TestDifference_ExemplarsOfOneTime
	end  int64           // of blocks; exemplars before it the reference leaves out when it starts
}

// notedExemplar is one exemplar that was committed.
type notedExemplar struct {
	pending
	line string
	sure [2]bool // ours has it, and the reference; else they may have it
}

func newExemplarNotes(most, series int) exemplarNotes {
	return exemplarNotes{most: most, last: make([]int64, series), used: map[string]bool{}, end: math.MinInt64}
}

// draw makes an exemplar of a series: mostly a new one, or the newest of the series once more, or
// one that both refuse. Without a window the reference refuses late ones.
func (n *exemplarNotes) draw(d *kindDuel, i int) *exemplar.Exemplar {
	e := exemplar.Exemplar{T: max(n.last[i]+1, d.g.now-d.rng.Int64N(minute)), HasT: true, Value: float64(d.rng.IntN(9))}
	switch k := d.rng.IntN(20); {
	case k == 0:
		e.Labels = labels.FromStrings("trace_id", strings.Repeat("é", exemplar.MaxLabelRunes))
		return &e
	case k < 3:
		if old := n.newestOf(i); old >= 0 && n.all[old].sure == [2]bool{true, true} {
			e = n.all[old].e
			return &e
		}
	case k < 10 && d.window > 0:
		e.T = d.g.now - d.rng.Int64N(hour)
	}
	key := fmt.Sprint(i, " ", e.T)
	if n.used[key] {
		return nil
	}
	n.used[key], n.last[i] = true, max(n.last[i], e.T)
	e.Labels = labels.FromStrings("trace_id", fmt.Sprint(len(n.used)))
	return &e
}

// newestOf is where the newest exemplar of a series stands, or -1.
func (n *exemplarNotes) newestOf(i int) int {
	newest := -1
	for k, one := range n.all {
		if one.of == i && (newest < 0 || one.e.T > n.all[newest].e.T) {
			newest = k
		}
	}
	return newest
}

// find is where an exemplar stands that both have, or -1.
func (n *exemplarNotes) find(p pending) int {
	return slices.IndexFunc(n.all, func(one notedExemplar) bool {
		return one.of == p.of && one.e.T == p.e.T && one.sure == [2]bool{true, true}
	})
}

// add notes an exemplar that was committed. It is in both rings. In full ones it takes the place of
// the one that was inserted first.
func (n *exemplarNotes) add(p pending, of series) {
	text := line(of.key, keyOfOurs(p.e.Labels), p.e.T, p.e.Value)
	n.all = append(n.all, notedExemplar{p, text, [2]bool{true, true}})
	if len(n.all) > n.most {
		n.all = n.all[1:]
	}
}

// behindBlocks notes where a block ends.
func (n *exemplarNotes) behindBlocks(end int64) { n.end = max(n.end, end) }

// restarted notes that both were opened again, maybe each in the directory of the other. The
// reference leaves out what is older than its blocks, and so does the log that it shortened.
func (n *exemplarNotes) restarted(swapped bool) {
	for i := range n.all {
		one := &n.all[i]
		newer := one.e.T >= n.end
		if swapped {
			one.sure[0], one.sure[1] = one.sure[1], one.sure[0]
			one.sure[0] = one.sure[0] && newer
		}
		one.sure[1] = one.sure[1] && newer
	}
}

// require compares what one of both has, 0 is ours. All that it must have is there, and nothing else
// but what it may have.
func (n *exemplarNotes) require(t testing.TB, engine int, lines []string, msg string) {
	t.Helper()
	may := map[string]bool{}
	for _, one := range n.all {
		may[one.line] = true
		if one.sure[engine] {
			require.True(t, slices.Contains(lines, one.line), "%s: no exemplar %s", msg, one.line)
		}
	}
	for _, line := range lines {
		require.True(t, may[line], "%s: exemplar %s", msg, line)
	}
}

// metadataNotes are what both engines should know of the metadata of series.
type metadataNotes struct {
	now  metas           // the newest of each series
	sure map[string]bool // by key of the series: both have it, as it did not leave the head since
	ever map[string][]tsdb.Metadata
	made int
}

// next draws metadata of a series: something new, or what both have already. If one of them may
// have forgotten it, it is new. A checkpoint of the reference may have several of one series, under
// different refs, in any order.
func (m *metadataNotes) next(d *kindDuel, key string) theirmeta.Metadata {
	if m.sure[key] && d.rng.IntN(2) == 0 {
		return m.now[key]
	}
	m.made++
	return theirmeta.Metadata{Type: metricTypes[d.rng.IntN(len(metricTypes))], Unit: fmt.Sprint("unit ", m.made%3), Help: fmt.Sprint("Größe ", m.made)}
}

// add notes what was committed.
func (m *metadataNotes) add(committed metas) {
	maps.Copy(m.now, committed)
	for key := range committed {
		m.sure[key] = true
		m.ever[key] = append(m.ever[key], m.of(key))
	}
}

func (m *metadataNotes) of(key string) tsdb.Metadata { return m.now.of(series{key: key}) }

// truncated notes that series may have left the head of either, and metadata with them.
func (m *metadataNotes) truncated() { clear(m.sure) }

// require compares what ours has: what it must have, and else nothing, or what it had once.
func (m *metadataNotes) require(t testing.TB, got map[string]tsdb.Metadata, msg string) {
	t.Helper()
	for key := range m.sure {
		require.Equal(t, m.of(key), got[key], "%s: metadata of %s", msg, key)
	}
	for key, one := range got {
		require.Contains(t, m.ever[key], one, "%s: metadata of %s", msg, key)
	}
}
