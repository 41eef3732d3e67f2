package index_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

// Labels that are copied as they stand in the symbol table are those that were written,
// whatever the length of their strings.
func TestReader_AppendsLabelsAsTheyWereWritten(t *testing.T) {
	sets := []labels.Labels{labels.FromStrings()}
	for i := range 500 {
		sets = append(sets, labels.FromStrings("__name__", fmt.Sprintf("metric_%d", i%7), "long", strings.Repeat("x", i), "n", fmt.Sprint(i)))
	}
	c := newContent(sets)
	name := filepath.Join(t.TempDir(), "index")
	c.write(t, fileutil.OS, name, index.WriterOptions{})
	r, err := index.OpenReader(fileutil.OS, name)
	require.NoError(t, err)
	ids, err := r.Select(context.Background())
	require.NoError(t, err)
	require.Len(t, ids, len(sets))
	for i, id := range ids { // newContent has sorted sets
		ls, _, err := r.Series(id, nil, nil)
		require.NoError(t, err)
		encoded, err := r.AppendLabels([]byte("before"), ls)
		require.NoError(t, err)
		require.Equal(t, "before", string(encoded[:6]))
		got, err := labels.FromEncoded(encoded[6:])
		require.NoError(t, err)
		require.Equal(t, sets[i], got)
	}
	dst, err := r.AppendLabels([]byte("before"), []index.SymbolPair{{Name: 0, Value: uint32(r.NumSymbols())}})
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.Equal(t, "before", string(dst))
	require.NoError(t, r.Close())
	_, err = r.AppendLabels(nil, nil)
	require.ErrorIs(t, err, index.ErrClosed)
}
