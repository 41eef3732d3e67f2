package tsdb_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// BenchmarkCommitExemplars appends and commits 32,000 exemplars, which is what the largest request
// of remote write has: all of one series, whatever their times are, or each of another one.
func BenchmarkCommitExemplars(b *testing.B) {
	const many = 32_000
	of := make([]labels.Labels, many)
	for i := range of {
		of[i] = labels.FromStrings(labels.MetricName, "requests_total", "path", fmt.Sprint("/", i))
	}
	for _, kind := range []struct {
		name   string
		series int
		t      func(i int64) int64
	}{
		{"series=1/times=rising", 1, func(i int64) int64 { return i }},
		{"series=1/times=same", 1, func(int64) int64 { return 1 }},
		{"series=1/times=falling", 1, func(i int64) int64 { return -i }},
		{"series=1/times=alternating", 1, func(i int64) int64 { return i * (1 - 2*(i&1)) }},
		{"series=32000/times=rising", many, func(i int64) int64 { return i }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			list := make([]exemplar.Exemplar, many)
			for i := range list {
				list[i] = exemplarOf(fmt.Sprintf("%032x", i), kind.t(int64(i)), 1)
			}
			for b.Loop() {
				b.StopTimer()
				o := benchOptions()
				o.Blocks.Manual = true
				db, err := tsdb.Open(b.TempDir(), o)
				require.NoError(b, err)
				b.StartTimer()
				app := db.Appender()
				for i := range list {
					if _, err := app.AppendExemplar(0, of[i%kind.series], list[i]); err != nil {
						b.Fatal(err)
					}
				}
				_, err = app.Commit(ctx)
				b.StopTimer()
				require.NoError(b, err)
				require.Equal(b, many, db.Stats().Exemplars)
				require.NoError(b, db.Close())
				b.StartTimer()
			}
		})
	}
}
