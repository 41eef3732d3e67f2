package invariants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/invariants"
)

func TestCheck_TrueConditionIsSilent(t *testing.T) {
	require.NotPanics(t, func() { invariants.Check(true, "never") })
}

func TestCheck_FalseConditionPanicsExactlyWhenEnabled(t *testing.T) {
	fail := func() { invariants.Check(false, "series %d has %s", 7, "no labels") }
	if !invariants.Enabled {
		require.NotPanics(t, fail)
		return
	}
	require.PanicsWithValue(t, "BUG: series 7 has no labels", fail)
}

func TestCheck_DisabledAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions are compiled in")
	}
	n := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n++
		invariants.Check(n > 0, "n is %d", n)
	}))
}
