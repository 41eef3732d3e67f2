package thanos

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Late samples are in blocks of their own, which overlap others. They are uploaded as well. Thanos
// reads one of two such blocks where they overlap, and its compactor stops at them, unless it is
// told to merge such blocks, too: from then on all is there.
func TestLateSamples(t *testing.T) {
	asked(t)
	path := buildThanos(t)
	bucketDir, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	bucket, err := filesystem.NewBucket(bucketDir)
	require.NoError(t, err)
	s, err := ship.NewDir(dir, bucket, ship.Options{Labels: external})
	require.NoError(t, err)
	first, last, blocks := writeLate(t, dir, s)
	n, err := s.Sync(context.Background())
	require.NoError(t, err)
	require.Equal(t, blocks, n)
	require.Empty(t, s.Stats().Skipped)

	ours, _ := serve(t, dir)
	objstoreConfig := "--objstore.config={type: FILESYSTEM, config: {directory: '" + bucketDir + "'}}"
	differing := func() (n, all int) {
		t.Helper()
		store, _, p := thanos(t, path, "store", "--data-dir="+t.TempDir(), objstoreConfig)
		theirs := query(t, path, store)
		for _, q := range []string{"m", "sum(m)", "count_over_time(m[1h])"} {
			want, got := queryRange(t, ours, q, first, last, time.Minute), queryRange(t, theirs, q, first, last, time.Minute)
			require.Len(t, got, len(want))
			for i := range want {
				require.Len(t, got[i].Values, len(want[i].Values))
				for k, v := range want[i].Values {
					if all++; v != got[i].Values[k] {
						n++
					}
				}
			}
		}
		p.stop()
		return n, all
	}
	n, all := differing()
	t.Logf("before compaction %d of %d values lack late samples", n, all)
	compact := []string{"compact", "--data-dir=" + t.TempDir(), objstoreConfig, "--consistency-delay=0s", "--delete-delay=0s", "--http-address=" + address(t)}
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, compact...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "overlap")
	run(t, path, append(compact, "--compact.enable-vertical-compaction")...)
	verify(t, path, objstoreConfig)
	levels, _ := inBucket(t, bucket)
	t.Logf("after compaction: blocks by level %v", levels)
	n, all = differing()
	require.Zero(t, n)
	require.Greater(t, all, 10_000)
	n, err = s.Sync(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
}

// writeLate writes a day of samples every two minutes, and of those between them the last hour
// late, every two hours.
func writeLate(t testing.TB, dir string, s *ship.Shipper) (first, last int64, blocks int) {
	t.Helper()
	ctx := context.Background()
	begin := time.Now().Add(-26 * time.Hour).Truncate(blockRange)
	clock := tsdbtest.NewClock(begin)
	o := s.Prepare(&tsdb.Options{Clock: clock, Head: tsdb.HeadOptions{OutOfOrderWindow: 3 * time.Hour}, Blocks: tsdb.BlockOptions{Manual: true, Range: blockRange}})
	db, err := tsdb.Open(dir, o)
	require.NoError(t, err)
	add := func(app *tsdb.Appender, at time.Time) {
		for i := range 5 {
			_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), at.UnixMilli(), float64(at.Unix()%1000+int64(i)))
			require.NoError(t, err)
		}
	}
	for at := begin; at.Before(begin.Add(24 * time.Hour)); at = at.Add(2 * time.Minute) {
		if at.After(begin) && at.Equal(at.Truncate(blockRange)) {
			app := db.Appender()
			for late := at.Add(-time.Hour + time.Minute); late.Before(at); late = late.Add(2 * time.Minute) {
				add(app, late)
			}
			_, err := app.Commit(ctx)
			require.NoError(t, err)
			require.NoError(t, db.Flush(ctx))
		}
		clock.Set(at)
		app := db.Appender()
		add(app, at)
		_, err := app.Commit(ctx)
		require.NoError(t, err)
		last = at.UnixMilli()
	}
	require.NoError(t, db.Flush(ctx))
	blocks = len(db.Blocks())
	require.Greater(t, blocks, 20, "half of them are of late samples")
	require.NoError(t, db.Close())
	return begin.UnixMilli(), last, blocks
}
