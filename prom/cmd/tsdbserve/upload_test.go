package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// A block that is there is uploaded, with the external labels, and once.
func TestServe_UploadsBlocks(t *testing.T) {
	dir := t.TempDir()
	data, bucket := filepath.Join(dir, "data"), filepath.Join(dir, "bucket")
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	app := db.Appender()
	_, err = app.Append(0, labels.FromStrings("__name__", "m"), time.Now().UnixMilli(), 1)
	require.NoError(t, err)
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Flush(context.Background()))
	block := db.Blocks()[0].ULID.String()
	require.NoError(t, db.Close())

	file, bucketFile := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "bucket.yml")
	require.NoError(t, os.WriteFile(file, []byte("global: {external_labels: {region: eu}}"), 0o600))
	require.NoError(t, os.WriteFile(bucketFile, fmt.Appendf(nil, "type: FILESYSTEM\nconfig: {directory: %q}", bucket), 0o600))
	s := start(t, "--storage.tsdb.path", data, "--config.file", file, "--objstore.config-file", bucketFile)
	require.Eventually(t, func() bool { return s.metric("thanos_shipper_uploads_total") == "1" }, 20*time.Second, 20*time.Millisecond)
	meta, err := os.ReadFile(filepath.Join(bucket, block, "meta.json"))
	require.NoError(t, err)
	require.Contains(t, string(meta), `"region": "eu"`)
	require.Zero(t, s.stop(), "%s", s.log)

	// Nothing twice.
	s = start(t, "--storage.tsdb.path", data, "--config.file", file, "--objstore.config-file", bucketFile)
	require.Eventually(t, func() bool { return s.metric("thanos_shipper_dir_syncs_total") == "1" }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, "0", s.metric("thanos_shipper_uploads_total"))
	require.Zero(t, s.stop(), "%s", s.log)
}
