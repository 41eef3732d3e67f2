package bucketfile

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bucket.yml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// requireKeeps has an object go through a bucket that a file describes.
func requireKeeps(t *testing.T, text string) {
	t.Helper()
	ctx := context.Background()
	f, err := Read(write(t, text))
	require.NoError(t, err)
	b, err := f.Open("test")
	require.NoError(t, err)
	require.NoError(t, b.Upload(ctx, "a/b", strings.NewReader("hello")))
	r, err := b.Get(ctx, "a/b")
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, "hello", string(got))
	_, err = b.Get(ctx, "a/c")
	require.True(t, b.IsObjNotFoundErr(err), "%v", err)
	require.NoError(t, b.Close())
}

func TestOpen_ADirectory(t *testing.T) {
	dir := t.TempDir()
	requireKeeps(t, fmt.Sprintf("type: FILESYSTEM\nconfig: {directory: %q}\nprefix: p/q", dir))
	require.FileExists(t, filepath.Join(dir, "p", "q", "a", "b"))
}

func TestOpen_S3(t *testing.T) {
	store := s3mem.New()
	require.NoError(t, store.CreateBucket("metrics"))
	server := httptest.NewServer(gofakes3.New(store).Server())
	defer server.Close()
	requireKeeps(t, fmt.Sprintf("type: S3\nconfig: {bucket: metrics, endpoint: %q, insecure: true, access_key: me, secret_key: secret}", server.Listener.Addr()))
}

func TestRead_TellsWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "type is missing, want S3 or FILESYSTEM",
		"type: GCS":        `type "GCS": want S3 or FILESYSTEM`,
		"typ: S3":          "line 1: typ is not known here",
		"type: FILESYSTEM": "config.directory is missing",
		"# a file\ntype: filesystem\nconfig:\n  dir: /a": "line 4: dir is not known here",
		"type: s3\nconfig:\n  bucket: b\n  end: e":       "line 4: end is not known here",
		"type: S3\nconfig: {bucket: b}":                  "config.endpoint is missing",
		"type: S3\nconfig: {endpoint: e}":                "config.bucket is missing",
		"type: S3\nconfig: [a]":                          "line 2: cannot unmarshal",
		"type: [":                                        "did not find expected node content",
	} {
		_, err := Read(write(t, text))
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "bucket.yml", text)
	}
	_, err := Read(filepath.Join(t.TempDir(), "none.yml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	f, err := Read(write(t, "type: S3\nconfig: {bucket: b, endpoint: e, access_key: k, bucket_lookup_type: path, part_size: 7, http_config: {idle_conn_timeout: 7m}}"))
	require.NoError(t, err)
	_, err = f.Open("test")
	require.ErrorContains(t, err, "open bucket b/ at e: no s3 secret_key")
}

func TestFile_CheckApart(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o777))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	for config, apart := range map[string]bool{
		"{directory: %q}":                      true,
		"{directory: %q}\nprefix: data":        false,
		"{directory: %q}\nprefix: /data/":      false,
		"{directory: %q}\nprefix: link/data":   false,
		"{directory: %q}\nprefix: data/bucket": true,
		"{directory: %q}\nprefix: new":         true,
	} {
		f, err := Read(write(t, "type: FILESYSTEM\nconfig: "+fmt.Sprintf(config, dir)))
		require.NoError(t, err)
		if err := f.CheckApart(filepath.Join(dir, "data")); apart {
			require.NoError(t, err, config)
		} else {
			require.ErrorContains(t, err, "is the data directory", config)
		}
	}
	f, err := Read(write(t, "type: FILESYSTEM\nconfig: "+fmt.Sprintf("{directory: %q}\nprefix: link/new", dir)))
	require.NoError(t, err)
	require.Error(t, f.CheckApart(filepath.Join(dir, "new")), "neither is there yet")
	f, err = Read(write(t, "type: S3\nconfig: {bucket: b, endpoint: e}"))
	require.NoError(t, err)
	require.NoError(t, f.CheckApart(dir))
}
