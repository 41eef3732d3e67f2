package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/bucket"
)

// inDirectory describes a bucket that is a directory.
func inDirectory(dir string) string {
	return fmt.Sprintf("type: FILESYSTEM\nconfig: {directory: %q}", dir)
}

// runWithBucket runs the program with a bucket, and returns what it shows.
func runWithBucket(t *testing.T, code int, bucket string, args ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bucket.yml")
	require.NoError(t, os.WriteFile(name, []byte(bucket), 0o600))
	var out, errOut bytes.Buffer
	got := run(context.Background(), append([]string{"--objstore.config-file", name}, args...), &out, &errOut)
	require.Equal(t, code, got, "%v: %s%s", args, &out, &errOut)
	return out.String() + errOut.String()
}

func commit(t *testing.T, db *tsdb.DB, v float64) {
	t.Helper()
	app := db.Appender()
	_, err := app.Append(0, labels.FromStrings("__name__", "m"), time.Now().UnixMilli()+int64(v), v)
	require.NoError(t, err)
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
}

// samples counts what a directory has.
func samples(t *testing.T, dir string) (n uint64) {
	t.Helper()
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	n = db.OpenReport().Samples
	require.NoError(t, db.Close())
	return n
}

// Backups of a database in use are taken, listed, verified and restored, and old ones go.
func TestBackups_InADirectory(t *testing.T) {
	requireKeepsBackups(t, inDirectory(filepath.Join(t.TempDir(), "bucket")))
}

func TestBackups_InS3(t *testing.T) {
	for _, more := range []string{"", ", disable_multipart: true"} {
		store := s3mem.New()
		require.NoError(t, store.CreateBucket("metrics"))
		server := httptest.NewServer(gofakes3.New(store).Server())
		defer server.Close()
		const text = "type: S3\nprefix: backups\nconfig: {bucket: metrics, endpoint: %q, insecure: true, access_key: me, secret_key: secret%s}"
		requireKeepsBackups(t, fmt.Sprintf(text, server.Listener.Addr(), more))
	}
}

func requireKeepsBackups(t *testing.T, bucket string) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	defer db.Close()
	require.Contains(t, runWithBucket(t, 0, bucket, "list"), "there are no backups in ")
	require.Contains(t, runWithBucket(t, 1, bucket, "verify"), "there are no backups in ")
	require.Contains(t, runWithBucket(t, 1, bucket, "restore", filepath.Join(dir, "none")), "there are no backups")
	for v := range 3 {
		commit(t, db, float64(v))
		require.Regexp(t, `^backup \d{8}T\S+Z: \S+ \S+ in \d+ files?, \S+ \S+ of them new\n`, runWithBucket(t, 0, bucket, "take", data))
	}
	listed := runWithBucket(t, 0, bucket, "list")
	names := regexp.MustCompile(`(?m)^\S+`).FindAllString(listed, -1)
	require.Len(t, names, 3, listed)
	require.Equal(t, "3 backups: nothing is wrong\n", runWithBucket(t, 0, bucket, "verify"))

	runWithBucket(t, 0, bucket, "restore", filepath.Join(dir, "newest"))
	require.EqualValues(t, 3, samples(t, filepath.Join(dir, "newest")))
	require.Contains(t, runWithBucket(t, 0, bucket, "restore", filepath.Join(dir, "first"), "--name", names[0]), "restored backup "+names[0])
	require.EqualValues(t, 1, samples(t, filepath.Join(dir, "first")))
	require.Contains(t, runWithBucket(t, 1, bucket, "restore", filepath.Join(dir, "early"), "--at=2001-01-01T00:00:00Z"), "no backup")
	require.Contains(t, runWithBucket(t, 1, bucket, "restore", data), "name a directory that does not exist")

	require.Contains(t, runWithBucket(t, 0, bucket, "take", data, "--keep=2"), "removed 2 backups")
	require.Equal(t, 2, strings.Count(runWithBucket(t, 0, bucket, "list"), "\n"))
}

func TestVerify_TellsWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	data, bucket := filepath.Join(dir, "data"), inDirectory(dir)
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	commit(t, db, 1)
	require.NoError(t, db.Close())
	runWithBucket(t, 0, bucket, "take", data)
	objects, err := filepath.Glob(filepath.Join(dir, "objects", "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	for _, name := range objects {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if len(text) > 0 {
			text[0] ^= 1
			require.NoError(t, os.WriteFile(name, text, 0o600))
		}
	}
	require.Contains(t, runWithBucket(t, 1, bucket, "verify", "--remove-damaged"), "1 file of backups damaged, 0 files not read")
	runWithBucket(t, 0, bucket, "take", data) // stores them again
	require.Equal(t, "2 backups: nothing is wrong\n", runWithBucket(t, 0, bucket, "verify"))
}

func TestRun_WrongArguments(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"command not specified":            {},
		"expected command":                 {"nothing"},
		"--keep: want one backup or more":  {"take", "x", "--keep=0"},
		`--at "now": want a time`:          {"restore", "x", "--at=now"},
		"want --name or --at":              {"restore", "x", "--at=2001-01-01T00:00:00Z", "--name=n"},
		"required argument 'dir'":          {"take"},
		"is the data directory: name anot": {"take", dir},
	} {
		require.Contains(t, runWithBucket(t, 2, inDirectory(dir), args...), want)
	}
	require.Contains(t, runWithBucket(t, 2, "type: GCS", "list"), `type "GCS": want S3 or FILESYSTEM`)
	require.Contains(t, runWithBucket(t, 0, "", "--version"), "tsdbbackup")
	var out, errOut bytes.Buffer
	for _, args := range [][]string{{"--help"}, {"help"}, {"help", "take"}, {"take", "--help"}, {"-h"}} {
		require.Zero(t, run(context.Background(), args, &out, &errOut), args)
	}
	require.Contains(t, out.String()+errOut.String(), "restore")
	require.Equal(t, 2, run(context.Background(), []string{"list"}, &out, &errOut), "no bucket")
	require.Equal(t, 2, run(context.Background(), []string{"list", "--objstore.config-file=none.yml"}, &out, &errOut))
}

// tear leaves the first part of the newest manifest in a directory, and returns its name.
func tear(t *testing.T, dir string) string {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(dir, "backups", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, manifests)
	newest := manifests[len(manifests)-1]
	text, err := os.ReadFile(newest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(newest, text[:len(text)/2], 0o600))
	return strings.TrimSuffix(filepath.Base(newest), ".json")
}

// A backup of which nobody knows what it has, as other programs may leave it, is in nobody's way.
func TestBackups_OfADamagedManifest(t *testing.T) {
	dir := t.TempDir()
	data, kept := filepath.Join(dir, "data"), filepath.Join(dir, "bucket")
	bucket := inDirectory(kept)
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	defer db.Close()
	for v := range 3 {
		commit(t, db, float64(v))
		runWithBucket(t, 0, bucket, "take", data)
	}
	torn := tear(t, kept)
	listed := runWithBucket(t, 1, bucket, "list")
	require.Regexp(t, `(?m)^`+torn+`  damaged: manifest of backup`, listed)
	require.Contains(t, listed, `1 backup damaged: "verify --remove-damaged" removes what is`)
	require.Equal(t, 4, strings.Count(listed, "\n"), listed)

	out := runWithBucket(t, 0, bucket, "restore", filepath.Join(dir, "newest"))
	require.Contains(t, out, "backup "+torn+" is passed over: manifest of backup")
	require.EqualValues(t, 2, samples(t, filepath.Join(dir, "newest")))
	out = runWithBucket(t, 0, bucket, "restore", filepath.Join(dir, "at"), "--at", time.Now().Add(time.Hour).Format(time.RFC3339))
	require.Contains(t, out, "backup "+torn+" is passed over")
	require.EqualValues(t, 2, samples(t, filepath.Join(dir, "at")))
	require.Contains(t, runWithBucket(t, 1, bucket, "restore", filepath.Join(dir, "named"), "--name", torn), "manifest of backup "+torn)

	out = runWithBucket(t, 0, bucket, "take", data, "--keep=2")
	require.Contains(t, out, "backup "+torn+" does not count")
	require.Contains(t, out, "removed 1 backup and 0 B")
	require.Contains(t, runWithBucket(t, 1, bucket, "verify", "--remove-damaged"), "1 file of backups damaged")
	require.Equal(t, "2 backups: nothing is wrong\n", runWithBucket(t, 0, bucket, "verify"))
	require.Regexp(t, `removed 1 backup and [1-9]`, runWithBucket(t, 0, bucket, "take", data, "--keep=2"))
}

// A directory has the same names, whoever writes to it: as a bucket, or as what it is.
func TestBackups_InADirectoryThatABucketWrote(t *testing.T) {
	dir := t.TempDir()
	data, kept := filepath.Join(dir, "data"), filepath.Join(dir, "bucket")
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	defer db.Close()
	commit(t, db, 1)
	written, err := filesystem.NewBucket(filepath.Join(kept, "a", "b"))
	require.NoError(t, err)
	r, err := backup.Take(context.Background(), data, bucket.NewStore(written), nil)
	require.NoError(t, err)
	described := inDirectory(kept) + "\nprefix: a/b"
	require.Contains(t, runWithBucket(t, 0, described, "list"), r.Name)
	commit(t, db, 2)
	runWithBucket(t, 0, described, "take", data)
	require.Equal(t, "2 backups: nothing is wrong\n", runWithBucket(t, 0, described, "verify"))
	problems, err := backup.Verify(context.Background(), bucket.NewStore(written), nil)
	require.NoError(t, err)
	require.Empty(t, problems)
	runWithBucket(t, 0, described, "restore", filepath.Join(dir, "first"), "--name", r.Name)
	require.EqualValues(t, 1, samples(t, filepath.Join(dir, "first")))
}

// A directory is written to as one: by one program at a time.
func TestBackups_InADirectoryThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	data, kept := filepath.Join(dir, "data"), filepath.Join(dir, "bucket")
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	commit(t, db, 1)
	require.NoError(t, db.Close())
	runWithBucket(t, 0, inDirectory(kept), "take", data)
	held, err := fileutil.OS.LockDir(kept, "a test")
	require.NoError(t, err)
	require.Contains(t, runWithBucket(t, 1, inDirectory(kept), "take", data), "a test")
	require.Contains(t, runWithBucket(t, 0, inDirectory(kept), "verify"), "nothing is wrong")
	require.NoError(t, held.Release())
	runWithBucket(t, 0, inDirectory(kept), "take", data)
}
