package objects

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
	b, err := Open(write(t, text), "test")
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

func TestOpen_TellsWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "type is missing, want S3 or FILESYSTEM",
		"type: GCS":                        `type "GCS": want S3 or FILESYSTEM`,
		"typ: S3":                          "field typ not found",
		"type: FILESYSTEM":                 "config.directory is missing",
		"type: FILESYSTEM\nconfig: {d: 1}": "field d not found",
		"type: S3\nconfig: {bucket: b}":    "no s3 endpoint",
		"type: [":                          "did not find expected node content",
	} {
		_, err := Open(write(t, text), "test")
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "bucket.yml", text)
	}
	_, err := Open(filepath.Join(t.TempDir(), "none.yml"), "test")
	require.ErrorIs(t, err, os.ErrNotExist)
}
