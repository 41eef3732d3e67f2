package compat

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// copyDir copies a data directory, whoever has it open: what a crash at this moment
// would leave if everything that was written reached the disk. Lock files are left out.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		}
		if isLock(rel) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o666)
	})
	require.NoError(t, err)
	return to
}

func isLock(rel string) bool { return rel == "lock" || rel == "lock.owner" }

// listing has every name in a directory with the checksum of its content, lock files
// left out.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil || isLock(rel) {
			return err
		}
		if d.IsDir() {
			all[rel] = "directory"
			return nil
		}
		text, err := os.ReadFile(name)
		sum := sha256.Sum256(text)
		all[rel] = hex.EncodeToString(sum[:])
		return err
	})
	require.NoError(t, err)
	return all
}

// newestFile returns the path of the file with the highest number below a directory,
// empty files left out; "" if there is none.
func newestFile(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		if e.Type().IsRegular() && info.Size() > 0 {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return filepath.Join(dir, slices.Max(names))
}

func sizeOf(t testing.TB, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info.Size()
}
