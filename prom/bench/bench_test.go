package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// small sizes: the rows are right, whatever they measure.
var small = Sizes{Series: 100, Samples: 130, Many: 5000}

func TestRows_RunOnEveryEngine(t *testing.T) {
	for _, row := range Rows() {
		for _, e := range Engines() {
			v, err := Measure(row, e, t.TempDir(), small)
			require.NoError(t, err)
			require.GreaterOrEqual(t, v, 0.0, "%s: %s", e.Name, row.Name)
		}
	}
}

func TestEngines_AnswerAlike(t *testing.T) {
	for _, sel := range []Selection{SelectOne, SelectRegexp, SelectAll} {
		var answers [2][2]int
		for i, e := range Engines() {
			w := NewWorkload(5000, 3, 1000)
			store, _, _, err := written(e, t.TempDir(), w)
			require.NoError(t, err)
			answers[i][0], answers[i][1], err = store.Read(sel)
			require.NoError(t, err)
			require.NoError(t, store.Close())
		}
		require.Equal(t, answers[1], answers[0])
		require.NotZero(t, answers[0][1])
	}
}

func TestResult_RatioIsThatOfNeighbours(t *testing.T) {
	r := Result{Ours: []float64{1, 10, 2}, Theirs: []float64{3, 30, 8}}
	require.InDelta(t, 3, r.Ratio(), 1e-9)
	require.InDelta(t, 4, r.Spread(), 1e-9)
}

// BenchmarkRows runs each row once an iteration and reports its figure.
func BenchmarkRows(b *testing.B) {
	sizes := Sizes{Series: 10_000, Samples: 250, Many: 20_000}
	for _, row := range Rows() {
		for _, e := range Engines() {
			b.Run(row.Name+"/"+e.Name, func(b *testing.B) {
				sum := 0.0
				for range b.N {
					v, err := Measure(row, e, b.TempDir(), sizes)
					require.NoError(b, err)
					sum += v
				}
				b.ReportMetric(sum/float64(b.N), "figure")
			})
		}
	}
}
