package httpapi

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func TestWorkOf_CountsWhatWindowsHave(t *testing.T) {
	for _, c := range []struct {
		text           string
		steps          float64
		span           time.Duration
		visits, points float64
		longest        time.Duration
	}{
		{"m", 11, 10 * time.Second, 0, 0, 0},
		{"rate(m[5m])", 11, 10 * time.Second, 0, 0, 5 * time.Minute},
		{"max_over_time(m[100s:1s])", 1, 0, 100, 101, 100 * time.Second},
		{"max_over_time(m[1h:])", 1, 0, 60, 61, time.Hour},
		{"max_over_time(m[100s:1s])", 11, 10 * time.Second, 1100, 111, 100 * time.Second},
		{"max_over_time(m[100s:1s] @ end())", 11, 10 * time.Second, 100, 101, 100 * time.Second},
		{"quantile_over_time(0.5, m[100s:1s])", 1, 0, 1500, 101, 100 * time.Second},
		{"max_over_time(max_over_time(m[100s:1s])[50s:10s])", 1, 0, 5 + 6*100, 151, 100 * time.Second},
		{"m + max_over_time(m[100s:1s]) + -max_over_time(m[10s:1s])", 1, 0, 110, 101, 100 * time.Second},
		{"quantile_over_time(0.5, (m[100s:1s]))", 1, 0, 1500, 101, 100 * time.Second},
	} {
		p := parser.NewParser(parser.Options{})
		expr, err := p.ParseExpr(c.text)
		require.NoError(t, err)
		w := workOf(expr, c.steps, float64(c.span.Milliseconds()), time.Minute)
		require.Equal(t, work{c.visits, c.points, c.longest}, w, c.text)
		require.NoError(t, w.tooMuch(1000))
	}
	require.ErrorContains(t, (&work{points: 2e7}).tooMuch(10_000_000), "have 2e+07 points for each series, at most 10000000")
	require.ErrorContains(t, (&work{visits: 2e8}).tooMuch(10_000_000), "2e+08 points for each series, at most 150000000")
	require.True(t, (&work{longest: time.Hour}).light("m[1h]"))
	require.False(t, (&work{longest: 2 * time.Hour}).light("m[2h]"))
	require.True(t, (&work{points: 1e6}).heavy())
	require.True(t, (&work{visits: 1e7}).heavy())
}
