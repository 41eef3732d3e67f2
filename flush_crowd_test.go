package tsdb_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
)

// crowded makes everything small, so that much happens while a crowd writes a little.
func crowded(o *tsdb.Options) {
	manual(o)
	o.Blocks.Range = time.Hour
	o.Blocks.MaxRange = 9 * time.Hour
	o.Head.SamplesPerChunk = 16
	o.WAL.SegmentSize = 32 << 10
}

// Series come and go, and commits run, while the head is flushed and truncated, series are
// removed and blocks are merged: nothing that was committed is lost or comes twice, and the
// index of every block is in order.
func TestFlush_Bug40And42_CommitsAndChurnBesideFlushesLoseNothing(t *testing.T) {
	f := newFixture(t, crowded)
	const writers = 4
	steps := int64(600)
	if !sweep.Whole() {
		steps = 150
	}
	base := (testNow.UnixMilli() - 20*hour) / (9 * hour) * (9 * hour)
	var committed [writers]map[string][]point
	flushed := make(chan struct{}) // closed when there is a block
	var writing atomic.Int64
	writing.Store(writers)
	var wg sync.WaitGroup
	for w := range writers {
		committed[w] = map[string][]point{}
		wg.Go(func() {
			defer writing.Add(-1)
			for step := range steps {
				if step == steps*2/3 {
					<-flushed // fast writers could end before the first flush begins
				}
				writeStep(t, f.db, committed[w], w, base, step)
			}
		})
	}
	wg.Go(func() {
		first := sync.OnceFunc(func() { close(flushed) })
		defer first()
		for writing.Load() > 0 {
			if err := f.db.Compact(ctx); err != nil {
				t.Error(err)
				return
			}
			if len(f.db.Blocks()) > 0 {
				first()
			}
		}
	})
	wg.Wait()
	want := map[string][]point{}
	for _, part := range committed {
		for key, ps := range part {
			want[key] = append(want[key], ps...)
		}
	}
	require.Equal(t, want, f.all())
	require.NotEmpty(t, f.db.Blocks())
	f.reopen()
	require.Equal(t, want, f.all())
	report, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	for _, finding := range report.Findings {
		require.NotEqual(t, tsdb.SeverityDamage, finding.Severity, "%+v", finding)
	}
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.all())
}

// writeStep commits one scrape of a writer: series that live for ever, and series that
// live for ten scrapes. What a flush made late is rejected, and does not count.
func writeStep(t *testing.T, db *tsdb.DB, committed map[string][]point, w int, base, step int64) {
	app := db.Appender()
	at := base + step*minute + int64(w)
	var keys []string
	for i := range 4 {
		name := fmt.Sprintf(`{i="%d", w="%d"}`, i, w)
		if i%2 == 1 {
			name = fmt.Sprintf(`{i="%d", life="%d", w="%d"}`, i, step/10, w)
		}
		if _, err := app.Append(0, series(t, name), at, float64(step)); err == nil {
			keys = append(keys, series(t, name).String())
		}
	}
	res, err := app.Commit(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	late := map[int]bool{}
	for _, r := range res.Rejected {
		late[r.Index] = true
	}
	for i, key := range keys {
		if !late[i] {
			committed[key] = append(committed[key], point{at, math.Float64bits(float64(step))})
		}
	}
}
