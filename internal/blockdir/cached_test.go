package blockdir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// largeBlock has more than a MiB of index and several of chunks.
func largeBlock(t *testing.T) (all []testSeries) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		var e xorchunk.Encoder
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
	for _, tc := range []struct{ warm, direct bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		fsys := &faultfs.Advised{FS: newDisk(t), Direct: tc.direct}
		w, err := Create(fsys, dataDir, testID, WriterOptions{SegmentBytes: 5 << 18, Warm: tc.warm})
		require.NoError(t, err)
		require.NoError(t, fill(w, series))
		_, err = w.Commit(context.Background(), testMeta())
		require.NoError(t, err)

		begun, written, read := map[string]int64{}, map[string]int{}, map[string]int{} // how often they were dropped
		for _, f := range fsys.Files {
			name := filepath.Base(f.Name())
			if f.Created {
				begun[name] = f.BegunTo(fileutil.BehindBytes)
				written[name] += f.Dropped
			} else {
				read[name] += f.Dropped
			}
		}
		for _, name := range []string{"000001", "000002", indexName} {
			require.GreaterOrEqual(t, begun[name], int64(1<<20), name)
		}
		for _, name := range []string{"000001", "000002"} {
			require.Equal(t, !tc.warm || !tc.direct, written[name] > 0, name)
			switch {
			case tc.direct:
				require.Zero(t, read[name], name)
			case tc.warm:
				require.Equal(t, 1, read[name], "%s: before it is read, and not afterwards", name)
			default:
				require.Equal(t, 2, read[name], name)
			}
		}
		require.Equal(t, !tc.warm, read[indexName] > 0)
		asked := 0 // for each file
		if tc.direct {
			asked++ // to read it
			if tc.warm {
				asked++ // whether it can be, when it was made
			}
		}
		for _, name := range []string{"000001", "000002"} {
			path := filepath.Join(w.tmp, chunksName, name)
			require.Equal(t, asked, len(slices.DeleteFunc(slices.Clone(fsys.Directly), func(d string) bool { return d != path })), name)
		}
	}
}
