package dircopy_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/dircopy"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const block = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

func diskWith(t *testing.T, files ...string) *tsdbtest.MemFS {
	t.Helper()
	disk := tsdbtest.NewMemFS()
	for _, name := range files {
		require.NoError(t, disk.WriteFile(name, []byte(name)))
	}
	return disk
}

// A copy has the parts that it was asked for, whole, and the last head-chunk file up to its end.
func TestCopier_CopiesPartByPart(t *testing.T) {
	disk := diskWith(t, "data/wal/checkpoint.00000001/00000000", "data/wal/00000002", "data/wal/00000003", "data/wbl/00000004", "data/wbl/00000005",
		"data/chunks_head/000001", "data/chunks_head/000002", "data/chunks_head/000003", "data/chunks_head/letter",
		"data/"+block+"/meta.json", "data/"+block+"/chunks/000001")
	require.NoError(t, dircopy.Make(context.Background(), disk, "data", "copy", func(c *dircopy.Copier) error {
		require.NoError(t, c.BlockFiles(ulid.MustParseStrict(block)))
		require.NoError(t, c.Log("wal", 2))
		require.NoError(t, c.Log("wbl", 4))
		require.NoError(t, c.HeadChunks(chunks.NewRef(2, 7)))
		require.NoError(t, c.BlockChunks(ulid.MustParseStrict(block)))
		return nil
	}))
	var got []string
	for _, name := range disk.Files() {
		if name, ok := strings.CutPrefix(name, "copy/"); ok {
			text, err := disk.ReadFile("copy/" + name)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix("data/"+name, string(text)))
			require.Equal(t, name == "chunks_head/000002", len(text) == 7, name)
			got = append(got, name)
		}
	}
	require.ElementsMatch(t, []string{"wal/checkpoint.00000001/00000000", "wal/00000002", "wbl/00000004", "chunks_head/000001", "chunks_head/000002",
		block + "/meta.json", block + "/chunks/000001"}, got)
}

func TestCopier_EndsWithItsContext(t *testing.T) {
	disk := diskWith(t, "data/wal/00000000")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := dircopy.Make(ctx, disk, "data", "copy", func(c *dircopy.Copier) error { return c.Log("wal", 2) })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"data/wal/00000000"}, disk.Files(), "no part of the copy is left")
}

func TestMake_RemovesOnlyWhatACopyLeft(t *testing.T) {
	disk := diskWith(t, "a.tmp-snapshot/wal/00000002", "b.tmp-snapshot/letter", "c/letter")
	empty := func(*dircopy.Copier) error { return nil }
	require.NoError(t, dircopy.Make(context.Background(), disk, "data", "a", empty))
	require.ErrorIs(t, dircopy.Make(context.Background(), disk, "data", "b", empty), fs.ErrExist)
	require.ErrorIs(t, dircopy.Make(context.Background(), disk, "data", "c", empty), fs.ErrExist)
	require.ElementsMatch(t, []string{"a/", "b.tmp-snapshot/letter", "c/letter"}, disk.Files())
}
