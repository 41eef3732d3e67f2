package ship_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// While a database goes on, merges what overlaps and removes what is old, every block that was
// there is uploaded once.
func TestRun_BesideMergesAndRetention(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	var mu sync.Mutex
	made := map[string]bool{}
	o := lateOptions(w)
	o.Blocks.Retention = 30 * time.Minute
	o.Blocks.OnBlock = func(m tsdb.BlockMeta) {
		mu.Lock()
		defer mu.Unlock()
		if m.Compaction.Level == 1 {
			made[m.ULID.String()] = true
		}
	}
	w.open(s.Prepare(o))
	running, end := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { s.Run(running, time.Millisecond) })
	for i := range 30 {
		w.scrape(10)
		if i%3 == 2 {
			app := w.db.Appender()
			_, err := app.AppendSample(0, w.series(i), tsdb.Sample{T: w.clock.Now().Add(-15 * time.Minute).UnixMilli(), V: 1})
			require.NoError(t, err)
			_, err = app.Commit(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, w.db.Flush(ctx))
		require.NoError(t, w.db.Compact(ctx))
	}
	end()
	ended.Wait()
	_, err := s.Sync(ctx)
	require.NoError(t, err)
	require.NoError(t, w.db.Compact(ctx))
	require.Less(t, len(w.db.Blocks()), 10)
	require.Empty(t, reasons(s))
	require.Greater(t, len(made), 30)
	whole := map[string]bool{}
	for name := range objects(t, w.bucket) {
		if block, ok := strings.CutSuffix(name, "/meta.json"); ok {
			whole[block] = true
		}
	}
	mu.Lock()
	require.Equal(t, sortedNames(made), sortedNames(whole))
	mu.Unlock()
	w.bucket.once(t)
}
