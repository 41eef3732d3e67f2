package tsdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// BenchmarkAppendLate appends late samples, 60 to each series, between 150 scrapes, and commits
// 1,000 of them at once. An operation is one sample.
func BenchmarkAppendLate(b *testing.B) {
	const (
		series, scrapes, each  = 2_000, 150, 60
		step, apart, perCommit = 60_000, 97_000, 1_000 // milliseconds; samples
	)
	vs := make([]float64, series)
	values := func(k int) {
		for i := range vs {
			vs[i] = benchValue(i, k)
		}
	}
	o := benchOptions()
	o.Blocks.Manual = true
	o.Head.OutOfOrderWindow = 2 * time.Hour
	for left := b.N; left > 0; left -= series * each {
		b.StopTimer()
		db, err := tsdb.Open(b.TempDir(), o)
		require.NoError(b, err)
		h := newHot(b, db, series)
		app := db.Appender()
		commit := func() {
			_, err := app.Commit(context.Background())
			require.NoError(b, err)
			app = db.Appender()
		}
		scrape := func(t int64) {
			for i, ref := range h.refs {
				if _, err := app.Append(ref, labels.Labels{}, t, vs[i]); err != nil {
					b.Fatal(err)
				}
				if (i+1)%perCommit == 0 {
					commit()
				}
			}
		}
		for k := 1; k <= scrapes; k++ {
			values(k)
			scrape(int64(k) * step)
		}
		first := int64(scrapes-1)*step - each*apart + 1
		b.StartTimer()
		for k := range min(each, (left+series-1)/series) {
			values(k)
			scrape(first + int64(k)*apart)
		}
		b.StopTimer()
		require.NoError(b, app.Rollback())
		require.NoError(b, db.Close())
	}
}
