package zstd

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is a frame of the zstd program; testdata/README.md says how they were made.
type vector struct {
	name, sum string
	frame     []byte
}

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "SHA256SUMS"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		sum, name, ok := strings.Cut(sc.Text(), "  ")
		require.True(t, ok)
		frame, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		all = append(all, vector{name: name, sum: sum, frame: frame})
	}
	return all
}

// records returns 128 KiB of log records: series and their samples.
func records(t testing.TB) []byte {
	t.Helper()
	frame, err := os.ReadFile(filepath.Join("testdata", "records-19.zst"))
	require.NoError(t, err)
	content, err := NewDecoder().Decode(nil, frame, noLimit)
	require.NoError(t, err)
	return content
}

func TestDecode_ReadsFramesOfTheZstdProgram(t *testing.T) {
	all := vectors(t)
	require.Greater(t, len(all), 10)
	d := NewDecoder()
	for _, v := range all {
		got, err := d.Decode(nil, v.frame, noLimit)
		require.NoError(t, err, v.name)
		sum := sha256.Sum256(got)
		require.Equal(t, v.sum, hex.EncodeToString(sum[:]), v.name)
		again, err := d.Decode(nil, bytes.Repeat(v.frame, 2), noLimit)
		require.NoError(t, err, v.name)
		require.True(t, bytes.Equal(again, append(got, got...)), v.name)
	}
}
