//go:build unix

package fileutil_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/turntest"
)

func TestMapping_CloseLetsOthersRun(t *testing.T) {
	const size = 64 << 20
	f := newFile(t, 0)
	require.NoError(t, f.Truncate(size))
	m, err := f.Mmap(size)
	require.NoError(t, err)
	require.GreaterOrEqual(t, turntest.Count(func() { require.NoError(t, m.Close()) }, runtime.Gosched), 32)
	require.NoError(t, f.Close())
}
