package tsdb_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

// chunksCached returns which part of a block's chunks the page cache has. Where nobody tells there
// is nothing to test.
func chunksCached(t *testing.T, blockDir string) float64 {
	t.Helper()
	f, err := fileutil.OS.Open(filepath.Join(blockDir, "chunks", "000001"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	cached, err := fileutil.CachedBytes(f)
	if errors.Is(err, fileutil.ErrUnsupported) {
		t.Skip("this file system does not tell what is cached")
	}
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	return float64(cached) / float64(size)
}

// noisyBlock is a block with 2 MB of chunks.
func noisyBlock(t *testing.T, dir string, n int) *blockdir.Dir {
	t.Helper()
	meta := bounded(n, int64(n)*2*hour, int64(n+1)*2*hour)
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	var all []blockSeries
	for i := range 2000 {
		var enc chunkenc.XOREncoder
		for k := range int64(120) {
			require.NoError(t, enc.Append(meta.MinTime+k*minute, rng.Float64()))
		}
		all = append(all, blockSeries{benchLabels(i), []blockdir.Chunk{{
			MinT: meta.MinTime, MaxT: meta.MinTime + 119*minute, Num: 120, Encoding: chunkenc.EncXOR, Data: enc.AppendTo(nil),
		}}})
	}
	return makeBlock(t, fileutil.OS, dir, meta, all...)
}

func TestMerge_ResultIsInThePageCacheAsItsInputsWere(t *testing.T) {
	for _, warm := range []bool{true, false} {
		dir := t.TempDir()
		inputs := []*blockdir.Dir{noisyBlock(t, dir, 1), noisyBlock(t, dir, 2)}
		was := 0.0
		for _, d := range inputs {
			if warm {
				_, err := os.ReadFile(filepath.Join(d.Path(), "chunks", "000001"))
				require.NoError(t, err)
			}
			was += chunksCached(t, d.Path()) / 2
		}
		if warm {
			require.Greater(t, was, 0.9)
		} else if was > 0.5 {
			t.Skip("this file system drops nothing from the page cache")
		}
		r, err := tsdb.NewCompactor(fileutil.OS, dir, clock.System, 0, 120).Merge(context.Background(), inputs)
		require.NoError(t, err)
		is := chunksCached(t, blockdir.Path(dir, r.Meta.ULID))
		if warm {
			require.Greater(t, is, 0.9)
		} else {
			require.Less(t, is, 0.5)
		}
	}
}

// What a flush writes is what dashboards ask for next.
func TestFlush_BlockIsInThePageCache(t *testing.T) {
	dir := t.TempDir()
	opts := tsdb.DefaultOptions()
	manual(opts)
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	rng := rand.New(rand.NewPCG(1, 1))
	app := db.Appender()
	for i := range 2000 {
		ls := labels.FromStrings("__name__", "noise", "i", string(rune('a'+i%26))+string(rune('a'+i/26)))
		for k := range int64(60) {
			_, err := app.Append(0, ls, k*minute, rng.Float64())
			require.NoError(t, err)
		}
	}
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, db.Flush(ctx))
	blocks := db.Blocks()
	require.NoError(t, db.Close())
	require.Len(t, blocks, 1)
	require.Greater(t, chunksCached(t, blockdir.Path(dir, blocks[0].ULID)), 0.9)
}
