package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGate_NamesWhatIsBelowItsFloorAndWhatIsMissing(t *testing.T) {
	var r Report
	for name, floor := range floors {
		r.Rows = append(r.Rows, Row{Name: name, Ratio: Ratio{Times: floor}})
	}
	require.NoError(t, r.Gate())

	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == "append/cpu" })
	r.Rows[i].Ratio.Times -= 0.01
	require.ErrorContains(t, r.Gate(), "append/cpu is 1.29 times the reference, the floor is 1.30")
	r.Rows = slices.Delete(r.Rows, i, i+1)
	require.ErrorContains(t, r.Gate(), "append/cpu was not measured")
}

// A floor of a row that does not exist would never be looked at.
func TestGate_MeasuresEveryRowWithAFloor(t *testing.T) {
	c := GateConfig()
	cmp := &comparison{Config: c}
	var names []string
	for _, f := range cmp.figures() {
		names = append(names, f.name)
	}
	for name := range floors {
		require.Contains(t, names, name)
		require.Contains(t, c.Only, groupName(name))
	}
	require.True(t, c.Pair)
}
