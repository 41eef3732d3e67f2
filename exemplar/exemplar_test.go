package exemplar_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

func TestValidate_CountsCharacters(t *testing.T) {
	for value, taken := range map[string]bool{
		"x":                          true,
		strings.Repeat("x", 120):     true,
		strings.Repeat("x", 121):     false,
		strings.Repeat("é", 120):     true,
		strings.Repeat("é", 121):     false,
		strings.Repeat("x", 100_000): false,
	} {
		e := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", value)}
		if taken {
			require.NoError(t, e.Validate())
		} else {
			require.ErrorIs(t, e.Validate(), exemplar.ErrLabelLength)
			require.Contains(t, e.Validate().Error(), "at most 128")
		}
	}
	two := exemplar.Exemplar{Labels: labels.FromStrings("a", strings.Repeat("x", 64), "b", strings.Repeat("x", 63))}
	require.ErrorIs(t, two.Validate(), exemplar.ErrLabelLength, "of all labels together")
}

func TestValidate_RefusesLabelsThatAreNotWellFormed(t *testing.T) {
	for _, ls := range []labels.Labels{
		labels.FromStrings("a", "1", "a", "2"), labels.FromStrings("", "1"), labels.FromStrings("a", "\xff"), labels.FromStrings("\xff", "a"),
	} {
		require.ErrorIs(t, exemplar.Exemplar{Labels: ls}.Validate(), labels.ErrInvalid, "%q", ls)
	}
	require.ErrorIs(t, exemplar.Exemplar{Labels: labels.FromStrings("a", "")}.Validate(), exemplar.ErrNoLabels)
	require.ErrorIs(t, exemplar.Exemplar{Value: 1, T: 1, HasT: true}.Validate(), exemplar.ErrNoLabels)
}

func TestEqual_ComparesEverything(t *testing.T) {
	e := exemplar.Exemplar{Labels: labels.FromStrings("a", "b"), Value: math.NaN(), T: 5, HasT: true}
	require.True(t, e.Equal(e), "NaN is itself")
	for _, change := range []func(*exemplar.Exemplar){
		func(e *exemplar.Exemplar) { e.Labels = labels.FromStrings("a", "c") },
		func(e *exemplar.Exemplar) { e.Value = 0 },
		func(e *exemplar.Exemplar) { e.T++ },
		func(e *exemplar.Exemplar) { e.HasT = false },
	} {
		other := e
		change(&other)
		require.False(t, e.Equal(other))
	}
	negative := exemplar.Exemplar{Value: math.Copysign(0, -1)}
	require.False(t, negative.Equal(exemplar.Exemplar{}))
}
