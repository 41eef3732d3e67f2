package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The percentiles of queries alone and beside a compaction are those of what was asked then.
func TestAsked_Report_ComparesBothRates(t *testing.T) {
	a := asked{row: "q"}
	for i := range 100 {
		a.quiet = append(a.quiet, time.Duration(100-i)*time.Millisecond)
		a.busy = append(a.busy, time.Duration(i+1)*3*time.Millisecond)
	}
	m := measures{}
	a.report(m)
	require.InDelta(t, 0.050, m["q/p50"], 1e-9)
	require.InDelta(t, 0.099, m["q/p99"], 1e-9)
	require.InDelta(t, 0.297, m["q/p99busy"], 1e-9)
	require.InDelta(t, 3, m["q/slower"], 1e-9)
	require.InDelta(t, 0.300, m["q/max"], 1e-9)
	m = measures{}
	a.busy = a.busy[1:]
	a.report(m)
	require.Contains(t, m, "q/p99")
	for _, row := range []string{"q/p50busy", "q/p99busy", "q/max", "q/slower"} {
		require.NotContains(t, m, row, "a compaction that was over too soon")
	}
}

// stalling answers at once but for the first query, and then all is done.
type stalling struct {
	engine
	asked int
	done  chan struct{}
}

const stalled = 20 // queries are due while the first one is not answered

func (s *stalling) read(query) (result, error) {
	if s.asked++; s.asked == 1 {
		<-time.After(stalled * queriedEvery)
		close(s.done)
	}
	return result{series: 1}, nil
}

// A stall counts for every query that was due while it lasted, also if all is done by then.
func TestAsk_AStall_DelaysAllThatWereDue(t *testing.T) {
	s := &stalling{done: make(chan struct{})}
	var took []time.Duration
	err := ask(s, []*asked{{row: "q", want: result{series: 1}}}, overAt(s.done), func(_ *asked, d time.Duration) { took = append(took, d) })
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(took), stalled)
	for n, d := range took[:stalled] {
		require.GreaterOrEqual(t, d, time.Duration(stalled-n)*queriedEvery)
	}
}

// slow takes longer for an answer than passes between two queries.
type slow struct {
	engine
	asked int
	done  chan struct{}
}

func (s *slow) read(query) (result, error) {
	if s.asked++; s.asked == 5 {
		close(s.done)
	}
	<-time.After(2 * queriedEvery)
	return result{series: 1}, nil
}

// An engine that does not keep up answers what was due when all was done, and no more: of what
// becomes due meanwhile there would be no end.
func TestAsk_AnswersThatTakeTooLong_HaveAnEnd(t *testing.T) {
	s := &slow{done: make(chan struct{})}
	begun, over, n := time.Now(), overAt(s.done), 0
	err := ask(s, []*asked{{row: "q", want: result{series: 1}}}, over, func(*asked, time.Duration) { n++ })
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 5)
	<-over.known
	require.LessOrEqual(t, n, int(over.at.Sub(begun)/queriedEvery)+2, "one may be due while the end is noted")
}

// What is compared must have been done: a block for each compaction, and one that was merged.
func TestQueries_WithoutAMerge_AreAnError(t *testing.T) {
	tk := task{Engine: Ours, Dir: t.TempDir()}
	require.ErrorContains(t, tk.wasMerged(), "no block of 0")
	block := filepath.Join(tk.Dir, "block")
	require.NoError(t, os.Mkdir(block, 0o777))
	meta := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(block, "meta.json"), []byte(text), 0o666))
	}
	meta(`{"compaction":{"level":1,"sources":["a"]}}`)
	require.ErrorContains(t, tk.wasMerged(), "no block of 1")
	meta(`{"compaction":{"level":2,"sources":["a","b"]}}`)
	require.NoError(t, tk.wasMerged())
	require.ErrorContains(t, tk.compareRates(&idle{}, nil), "made no block")
}

// idle does nothing.
type idle struct{ engine }

func (idle) merge() error { return nil }
