package ship_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom/ship"
)

// Retention takes a block that is not uploaded as Thanos does not know its chunks, and says so,
// once.
func TestKeep_SaysWhatRetentionTakesThatIsNotUploaded(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	s := w.shipper(func(o *ship.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	o := w.options()
	o.Blocks.Retention = time.Hour
	w.open(s.Prepare(o))
	w.scrape(10, func(s *tsdb.Sample) { s.ST = s.T - 1000 })
	require.NoError(t, w.db.Flush(ctx))
	unsuited := w.db.Blocks()[0].ULID.String()
	w.blocks(1)
	w.sync(s, 1)
	w.sync(s, 0)
	require.NoError(t, w.db.Compact(ctx))
	require.Equal(t, []uint64{1, 0}, []uint64{s.Stats().Skips, s.Stats().Lost})
	require.Equal(t, 1, strings.Count(log.String(), `"block is not uploaded" block=`+unsuited))
	require.NotContains(t, log.String(), "retention takes")

	w.blocks(8)
	w.sync(s, 8)
	for range 2 {
		require.NoError(t, w.db.Compact(ctx))
		require.NotEqual(t, unsuited, w.db.Blocks()[0].ULID.String())
	}
	require.Equal(t, []uint64{1, 1}, []uint64{s.Stats().Skips, s.Stats().Lost}, "the other block that went is uploaded")
	require.Equal(t, 1, strings.Count(log.String(), "retention takes a block that is not uploaded"))
	require.Contains(t, log.String(), `"retention takes a block that is not uploaded" block=`+unsuited)
	require.Contains(t, log.String(), "encoding 4 (XOR2)")
	w.sync(s, 0)
	require.Empty(t, s.Stats().Skipped)
}
