package fileutil_test

import (
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

func TestCachedBytes_OfAFileJustWritten_IsAllOfIt(t *testing.T) {
	f := newFile(t, 1<<20)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	cached, err := fileutil.CachedBytes(f)
	if errors.Is(err, fileutil.ErrUnsupported) {
		t.Skip("overlayfs and older tmpfs, where the temporary directory is, do not tell what is cached (RWF_NOWAIT)")
	}
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, cached)
}
