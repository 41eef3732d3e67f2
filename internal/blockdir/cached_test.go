package blockdir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/faultfs"
)

// largeBlock has more than a MiB of index and several of chunks.
func largeBlock(t *testing.T) (all []testSeries) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		var e chunkenc.XOREncoder
		for k := range int64(20) {
			require.NoError(t, e.Append(k, rng.Float64()))
		}
		all = append(all, testSeries{
			[]string{"a", fmt.Sprintf("value of series %08d", i)},
			[]Chunk{{MinT: 0, MaxT: 19, Num: 20, Encoding: chunkenc.EncXOR, Data: e.AppendTo(nil)}},
		})
	}
	return all
}

func TestWriter_FilesAreWrittenBehind_AndDroppedUnlessWarm(t *testing.T) {
	series := largeBlock(t)
	for _, warm := range []bool{false, true} {
		fsys := &faultfs.Advised{FS: newDisk(t)}
		w, err := Create(fsys, dataDir, testID, WriterOptions{SegmentBytes: 5 << 18, Warm: warm})
		require.NoError(t, err)
		require.NoError(t, fill(w, series))
		_, err = w.Commit(context.Background(), testMeta())
		require.NoError(t, err)

		begun, dropped := map[string]int64{}, map[string]bool{}
		for _, f := range fsys.Files {
			name := filepath.Base(f.Name())
			for _, r := range f.Begun {
				require.Equal(t, begun[name], r[0], name)
				begun[name] += r[1]
			}
			if !f.Created && f.Dropped > 0 {
				dropped[name] = true
			}
		}
		for _, name := range []string{"000001", "000002", indexName} {
			require.GreaterOrEqual(t, begun[name], int64(1<<20), name)
			require.Equal(t, !warm, dropped[name], name)
		}
	}
}
