//go:build linux

package fileutil_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/waytest"
)

func TestMapping_CloseLetsOthersRun(t *testing.T) {
	const size = 128 << 20
	f := newFile(t, 0)
	require.NoError(t, f.Truncate(size))
	m, err := f.Mmap(size)
	require.NoError(t, err)
	b, err := m.At(0, size)
	require.NoError(t, err)
	for off := 0; off < size; off += 4 << 10 {
		require.Zero(t, b[off])
	}
	require.Positive(t, waytest.Count(func() { require.NoError(t, m.Close()) }, runtime.Gosched))
	require.NoError(t, f.Close())
}
