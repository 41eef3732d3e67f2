package thanos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom/ship"
)

// What the server has is read through the sidecar, and what was uploaded through the store gateway,
// each for itself and both at once; then Thanos merges and downsamples what was uploaded.
func TestChain(t *testing.T) {
	asked(t)
	path := buildThanos(t)
	bucket, description := newBucket(t)
	d := shipped(t, bucket)
	objstoreConfig := "--objstore.config=" + description

	ours, server := serve(t, d.dir)
	sidecar, _, _ := thanos(t, path, "sidecar", "--tsdb.path="+d.dir, "--prometheus.url="+ours)
	store, _, storeProgram := thanos(t, path, "store", "--data-dir="+t.TempDir(), objstoreConfig)

	t.Run("sidecar", func(t *testing.T) { same(t, ours, query(t, path, sidecar), d.first, d.last) })
	t.Run("store", func(t *testing.T) { same(t, ours, query(t, path, store), d.first, d.flushed-1) })
	t.Run("both", func(t *testing.T) { same(t, ours, query(t, path, sidecar, store), d.first, d.last) })

	verify(t, path, objstoreConfig)
	said := run(t, path, "compact", "--data-dir="+t.TempDir(), objstoreConfig, "--consistency-delay=0s", "--delete-delay=0s", "--http-address="+address(t))
	require.NotContains(t, said, "level=error")
	verify(t, path, objstoreConfig)
	levels, resolutions := inBucket(t, bucket)
	t.Logf("after compaction: blocks by level %v, by resolution %v", levels, resolutions)
	require.Positive(t, levels[3], "blocks of two days, of such of eight hours")
	require.Positive(t, resolutions[(5*time.Minute).Milliseconds()], "blocks of 5 minutes")

	t.Run("compacted", func(t *testing.T) {
		storeProgram.stop()
		store, _, _ := thanos(t, path, "store", "--data-dir="+t.TempDir(), objstoreConfig)
		same(t, ours, query(t, path, store), d.first, d.flushed-1)
		downsampled(t, query(t, path, store), d)
	})
	// What is merged in the bucket, and here as well, is not uploaded again, even by one who knows
	// nothing of it.
	server.stop()
	db, err := tsdb.Open(d.dir, nil)
	require.NoError(t, err)
	require.NoError(t, db.Compact(context.Background()))
	require.Less(t, len(db.Blocks()), d.blocks/2)
	require.NoError(t, db.Close())
	require.NoError(t, os.Remove(filepath.Join(d.dir, "thanos.shipper.json")))
	s, err := ship.NewDir(d.dir, bucket, ship.Options{Labels: external, Compacted: true})
	require.NoError(t, err)
	n, err := s.Sync(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
}

// The server uploads its blocks by itself, and the store gateway gives what it gives.
func TestServer_UploadsByItself(t *testing.T) {
	asked(t)
	path := buildThanos(t)
	bucket, description := newBucket(t)
	name := filepath.Join(t.TempDir(), "bucket.yml")
	require.NoError(t, os.WriteFile(name, []byte(description), 0o600))
	d := write(t, func(_ string, o *tsdb.Options) *tsdb.Options { return o })
	ours, _ := serve(t, d.dir, "--objstore.config-file="+name)
	require.Eventually(t, func() bool { return len(metas(t, bucket)) >= d.blocks }, runTime, 100*time.Millisecond)
	verify(t, path, "--objstore.config="+description)
	store, _, _ := thanos(t, path, "store", "--data-dir="+t.TempDir(), "--objstore.config="+description)
	same(t, ours, query(t, path, store), d.first, d.flushed-1)
}

// newBucket makes a bucket in a directory, and describes it as programs want it.
func newBucket(t testing.TB) (_ objstore.Bucket, description string) {
	t.Helper()
	dir := t.TempDir()
	bucket, err := filesystem.NewBucket(dir)
	require.NoError(t, err)
	return bucket, fmt.Sprintf("{type: FILESYSTEM, config: {directory: '%s'}}", dir)
}

// shipped writes a directory, and uploads its blocks.
func shipped(t testing.TB, bucket objstore.Bucket) data {
	t.Helper()
	var s *ship.Shipper
	d := write(t, func(dir string, o *tsdb.Options) *tsdb.Options {
		var err error
		s, err = ship.NewDir(dir, bucket, ship.Options{Labels: external})
		require.NoError(t, err)
		return s.Prepare(o)
	})
	n, err := s.Sync(context.Background())
	require.NoError(t, err)
	require.Equal(t, d.blocks, n)
	require.Empty(t, s.Stats().Skipped)
	t.Logf("%d blocks, %d bytes are uploaded", n, s.Stats().UploadedBytes)
	return d
}

// serve serves a directory with the server of prom. The sidecar has the external labels from it.
func serve(t testing.TB, dir string, more ...string) (url string, _ *program) {
	t.Helper()
	path, at := build(t, filepath.Join("..", "..", "prom"), "./cmd/tsdbserve"), address(t)
	config, err := json.Marshal(map[string]any{"global": map[string]any{"external_labels": external.Map()}}) // YAML, too
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(name, config, 0o600))
	p := start(t, "tsdbserve", path, append(more, "--storage.tsdb.path="+dir, "--config.file="+name, "--web.listen-address="+at,
		"--storage.tsdb.max-block-duration=2h")...) // or the sidecar uploads nothing
	p.ready("http://" + at + "/-/ready")
	return "http://" + at, p
}

// query starts a querier of some endpoints, and returns where it is.
func query(t testing.TB, path string, endpoints ...string) string {
	t.Helper()
	args := []string{"--query.replica-label=replica"}
	for _, e := range endpoints {
		args = append(args, "--endpoint="+e)
	}
	_, web, _ := thanos(t, path, "query", args...)
	require.Eventually(t, func() bool { // it finds them on its way
		var stores map[string][]struct{ LastError any }
		ask(t, web, "/api/v1/stores", nil, &stores)
		n := 0
		for _, list := range stores {
			n += len(list)
		}
		return n == len(endpoints)
	}, runTime, 100*time.Millisecond)
	return web
}

// verify has the tool of Thanos look at all blocks.
func verify(t testing.TB, path, objstoreConfig string) {
	t.Helper()
	said := run(t, path, "tools", "bucket", "verify", objstoreConfig)
	for _, line := range strings.Split(said, "\n") {
		require.NotContains(t, line, "level=warn")
		require.NotContains(t, line, "level=error")
	}
	require.Contains(t, said, "verify task completed")
}

// inBucket counts the blocks of a bucket that are not marked for deletion.
func inBucket(t testing.TB, bucket objstore.Bucket) (levels map[int]int, resolutions map[int64]int) {
	t.Helper()
	ctx := context.Background()
	levels, resolutions = map[int]int{}, map[int64]int{}
	require.NoError(t, bucket.Iter(ctx, "", func(dir string) error {
		if marked, err := bucket.Exists(ctx, dir+"deletion-mark.json"); err != nil || marked {
			return err
		}
		r, err := bucket.Get(ctx, dir+"meta.json")
		if err != nil {
			return nil // it is no block, or one that is on its way out
		}
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		var m struct {
			Compaction struct{ Level int }
			Thanos     struct{ Downsample struct{ Resolution int64 } }
		}
		require.NoError(t, json.Unmarshal(text, &m), "%s: %s", dir, text)
		levels[m.Compaction.Level]++
		resolutions[m.Thanos.Downsample.Resolution]++
		return nil
	}))
	return levels, resolutions
}

// downsampled asks for what the blocks of 5 minutes have.
func downsampled(t testing.TB, web string, d data) {
	t.Helper()
	for _, query := range []string{`max_over_time(temperature[1h])`, `sum(increase(requests_total[1h]))`, `count_over_time(temperature[1h])`} {
		var data struct{ Result []result }
		ask(t, web, "/api/v1/query_range", url.Values{"query": {query}, "start": {seconds(d.first)}, "end": {seconds(d.flushed)}, "step": {"3600"},
			"max_source_resolution": {"5m"}, "dedup": {"true"}, "partial_response": {"false"}}, &data)
		require.Len(t, data.Result, 1, query)
		require.Greater(t, len(data.Result[0].Values), 24*(days-1), fmt.Sprint(query, " has holes"))
	}
}
