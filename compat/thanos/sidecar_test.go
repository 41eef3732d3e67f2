package thanos

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb/prom/ship"
)

// The sidecar uploads the same from the same directory: each file, and each field that both write.
// Either goes on where the other one ended.
func TestSidecar_UploadsTheSame(t *testing.T) {
	asked(t)
	path := buildThanos(t)
	ourDir, theirDir := t.TempDir(), t.TempDir()
	ours, err := filesystem.NewBucket(ourDir)
	require.NoError(t, err)
	theirs, err := filesystem.NewBucket(theirDir)
	require.NoError(t, err)
	d := shipped(t, ours)
	state := filepath.Join(d.dir, "thanos.shipper.json")
	said, err := os.ReadFile(state)
	require.NoError(t, err)
	server, _ := serve(t, d.dir)
	config := func(dir string) string {
		return "--objstore.config={type: FILESYSTEM, config: {directory: '" + dir + "'}}"
	}

	// With our state file there is nothing left for it to do.
	_, web, p := thanos(t, path, "sidecar", "--tsdb.path="+d.dir, "--prometheus.url="+server, config(theirDir))
	require.Eventually(t, func() bool {
		syncs := metric(t, web, "thanos_shipper_dir_syncs_total")
		return syncs != "" && syncs != "0"
	}, runTime, 100*time.Millisecond)
	p.stop()
	require.Empty(t, metas(t, theirs))

	require.NoError(t, os.Remove(state))
	_, _, p = thanos(t, path, "sidecar", "--tsdb.path="+d.dir, "--prometheus.url="+server, config(theirDir))
	require.Eventually(t, func() bool { return len(metas(t, theirs)) == d.blocks }, runTime, 100*time.Millisecond)
	p.stop()
	again, err := os.ReadFile(state)
	require.NoError(t, err)
	require.JSONEq(t, string(said), string(again))
	want, got := metas(t, theirs), metas(t, ours)
	for name, m := range want {
		require.Equal(t, m, got[name], name)
	}
	s, err := ship.NewDir(d.dir, theirs, ship.Options{Labels: external})
	require.NoError(t, err)
	n, err := s.Sync(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
	sameFiles(t, ourDir, theirDir)
}

// metas are the meta files of a bucket, without what differs.
func metas(t testing.TB, bucket objstore.Bucket) map[string]map[string]any {
	t.Helper()
	all, ctx := map[string]map[string]any{}, context.Background()
	require.NoError(t, bucket.Iter(ctx, "", func(dir string) error {
		r, err := bucket.Get(ctx, dir+"meta.json")
		if err != nil {
			return nil // it is being uploaded
		}
		defer func() { require.NoError(t, r.Close()) }()
		var m map[string]any
		if err := json.NewDecoder(r).Decode(&m); err != nil {
			return nil // as above
		}
		of := m["thanos"].(map[string]any)
		require.Contains(t, of, "upload_time")
		for _, name := range []string{"upload_time", "index_stats", "version"} { // the sidecar leaves the last two open
			delete(of, name)
		}
		all[dir] = m
		return nil
	}))
	return all
}

// metric returns a value of the metrics of a server.
func metric(t testing.TB, web, name string) string {
	t.Helper()
	for _, line := range strings.Split(fetch(t, web+"/metrics"), "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return value
		}
	}
	return ""
}

// sameFiles requires that two directories have the same files, but for the meta files of blocks.
func sameFiles(t testing.TB, a, b string) {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(a, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "meta.json" {
			return err
		}
		rel, err := filepath.Rel(a, name)
		require.NoError(t, err)
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(b, rel))
		require.NoError(t, err)
		require.Equal(t, want, got, rel)
		n++
		return nil
	}))
	require.Positive(t, n)
}
