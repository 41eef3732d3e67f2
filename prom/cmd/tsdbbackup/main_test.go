package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// ran runs the program with a bucket, and returns what it shows.
func ran(t *testing.T, code int, bucket string, args ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bucket.yml")
	require.NoError(t, os.WriteFile(name, fmt.Appendf(nil, "type: FILESYSTEM\nconfig: {directory: %q}", bucket), 0o600))
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
func TestBackups_InABucket(t *testing.T) {
	dir := t.TempDir()
	data, bucket := filepath.Join(dir, "data"), filepath.Join(dir, "bucket")
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	defer db.Close()
	for v := range 3 {
		commit(t, db, float64(v))
		require.Regexp(t, `^backup \d{8}T\S+Z: \S+ \S+ in \d+ files, \S+ \S+ of them new\n`, ran(t, 0, bucket, "take", data))
	}
	listed := ran(t, 0, bucket, "list")
	names := regexp.MustCompile(`(?m)^\S+`).FindAllString(listed, -1)
	require.Len(t, names, 3, listed)
	require.Equal(t, "nothing is wrong\n", ran(t, 0, bucket, "verify"))

	ran(t, 0, bucket, "restore", filepath.Join(dir, "newest"))
	require.EqualValues(t, 3, samples(t, filepath.Join(dir, "newest")))
	require.Contains(t, ran(t, 0, bucket, "restore", filepath.Join(dir, "first"), "--name", names[0]), "restored backup "+names[0])
	require.EqualValues(t, 1, samples(t, filepath.Join(dir, "first")))
	require.Contains(t, ran(t, 1, bucket, "restore", filepath.Join(dir, "early"), "--at=2001-01-01T00:00:00Z"), "no backup")
	require.Contains(t, ran(t, 1, bucket, "restore", data), data, "it is not empty")

	require.Equal(t, 2, strings.Count(ran(t, 0, bucket, "take", data, "--keep=2"), "removed backup"))
	require.Equal(t, 2, strings.Count(ran(t, 0, bucket, "list"), "\n"))
}

func TestVerify_TellsWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	data, bucket := filepath.Join(dir, "data"), filepath.Join(dir, "bucket")
	db, err := tsdb.Open(data, nil)
	require.NoError(t, err)
	commit(t, db, 1)
	require.NoError(t, db.Close())
	ran(t, 0, bucket, "take", data)
	objects, err := filepath.Glob(filepath.Join(bucket, "objects", "*", "*"))
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
	require.Contains(t, ran(t, 1, bucket, "verify", "--remove-damaged"), "damage: backup")
	ran(t, 0, bucket, "take", data) // stores them again
	require.Equal(t, "nothing is wrong\n", ran(t, 0, bucket, "verify"))
}

func TestRun_WrongArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"expected command":        {"nothing"},
		"--keep -1":               {"take", "x", "--keep=-1"},
		`--at "now": want a time`: {"restore", "x", "--at=now"},
		"want --name or --at":     {"restore", "x", "--at=2001-01-01T00:00:00Z", "--name=n"},
		"required argument 'dir'": {"take"},
	} {
		require.Contains(t, ran(t, 2, t.TempDir(), args...), want)
	}
	var out, errOut bytes.Buffer
	require.Zero(t, run(context.Background(), []string{"--help"}, &out, &errOut))
	require.Contains(t, out.String()+errOut.String(), "restore")
	require.Equal(t, 2, run(context.Background(), []string{"list"}, &out, &errOut), "no bucket")
	require.Equal(t, 1, run(context.Background(), []string{"list", "--objstore.config-file=none.yml"}, &out, &errOut))
}
