package tsdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkStage stages scrapes of 1,000 series and takes them back: what Append does of a commit.
func BenchmarkStage(b *testing.B) {
	db := openBench(b, b.TempDir(), benchOptions())
	h := newHot(b, db, 1_000)
	vs := make([]float64, len(h.refs))
	t := int64(1 << 30)
	for b.Loop() {
		t++
		app := db.Appender()
		if rejected, err := app.AppendBatch(t, h.refs, vs, nil); err != nil || len(rejected) > 0 {
			b.Fatal(rejected, err)
		}
		require.NoError(b, app.Rollback())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(h.refs)), "ns/sample")
}
