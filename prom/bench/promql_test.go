package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Both storages answer every expression alike, or PromQL fails; each case is measured, and none
// takes nothing.
func TestPromQL_EveryCase_IsMeasuredInBothPlaces(t *testing.T) {
	c := PromQLConfig{Series: 3, Samples: 300, Steps: []int{1, 20}, Time: time.Microsecond, Pairs: 1, Dir: t.TempDir()}
	rep, err := PromQL(t.Context(), c)
	require.NoError(t, err)
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, rep.Cases, 2*2*len(promQLExpressions()))
	for _, one := range rep.Cases {
		for _, cost := range []PromQLCost{one.Ours, one.Reference} {
			require.Positive(t, cost.Seconds, one.Expression)
			require.Positive(t, cost.Bytes, one.Expression)
		}
		require.Positive(t, one.TimeRatio)
	}

	page := filepath.Join(c.Dir, "bench.md")
	require.NoError(t, os.WriteFile(page, []byte("# Words\n"+promQLBegin+"\nold\n"+promQLEnd+"\nmore\n"), 0o666))
	require.NoError(t, rep.WriteDocs(c.Dir))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| `a_one` |")
	require.NotContains(t, string(text), "old")
	require.FileExists(t, filepath.Join(c.Dir, "bench", "promql.json"))
}

func TestPromQLReport_Summary_CountsWhatIsOver(t *testing.T) {
	rep := PromQLReport{Cases: []PromQLCase{
		{Place: "head", Expression: "a", Steps: 1, TimeRatio: 0.5, HeapRatio: 1},
		{Place: "block", Expression: "b", Steps: 9, TimeRatio: 2, HeapRatio: 0.25},
	}}
	var text bytes.Buffer
	require.NoError(t, rep.Write(&text, "markdown"))
	require.Contains(t, text.String(), "geometric mean 1.00 of the reference's, 1 over 1.05, above all `b` (block, 9 steps: 2.00). "+
		"Allocated bytes: geometric mean 0.50 of the reference's, 0 over 1.00.")
	require.Equal(t, "Nothing was measured.", PromQLReport{}.summary())
}
