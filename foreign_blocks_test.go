package tsdb_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Blocks that this library would not make: of other ranges, overlapping, of an old format.

// foreignBlocks makes a database with another block range and returns its blocks' files, and
// what they have.
func foreignBlocks(t *testing.T, blockRange time.Duration, from, to int64, rows func(ts int64) []sample) (map[string][]byte, map[string][]point) {
	t.Helper()
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range = blockRange
	})
	for ts := from; ts < to; ts += 10 * minute {
		f.commit(rows(ts)...)
	}
	require.NoError(t, f.db.Flush(ctx))
	all := f.all()
	require.NoError(t, f.db.Close())
	f.db = nil
	files := map[string][]byte{}
	for name, data := range dataFiles(t, f.fs) {
		if name[:2] == "01" {
			files[name] = data
		}
	}
	return files, all
}

func TestForeignBlocks_OverlappingAndUnalignedAreReadAsOneAndMerged(t *testing.T) {
	base := testNow.UnixMilli()/(18*hour)*(18*hour) - 36*hour
	of := func(series ...string) func(ts int64) []sample {
		return func(ts int64) (rows []sample) {
			for _, s := range series {
				rows = append(rows, sample{s, ts, float64(ts) + 0.5})
			}
			return rows
		}
	}
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.MaxRange = 18 * time.Hour
	})
	want := map[string][]point{}
	for _, part := range []struct {
		blockRange time.Duration
		from, to   int64
		series     []string
	}{
		{2 * time.Hour, 0, 8 * hour, []string{`{a="1"}`, `{a="2"}`}},
		{25 * time.Minute, hour - 7*minute + 1, 5 * hour, []string{`{a="2"}`, `{a="3"}`}}, // other times
		{7 * time.Hour, 3 * hour, 12 * hour, []string{`{a="1"}`, `{a="4"}`}},              // the same samples, too
	} {
		files, all := foreignBlocks(t, part.blockRange, base+part.from, base+part.to, of(part.series...))
		for name, data := range files {
			require.NoError(t, f.fs.WriteFile(path.Join(fixtureDir, name), data))
		}
		for series, ps := range all {
			want[series] = union(want[series], ps)
		}
	}
	f.reopen()
	require.True(t, sameData(want, f.all()))
	report := verify(t, f.fs)
	require.True(t, report.Clean())
	require.NotEmpty(t, report.Findings, "they overlap")
	before := len(f.db.Blocks())
	f.scrapes(1, testNow.UnixMilli()-hour, testNow.UnixMilli())
	for series, ps := range f.all() {
		want[series] = ps
	}
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Compact(ctx))
	require.True(t, sameData(want, f.all()))
	require.Less(t, len(f.db.Blocks()), before)
	f.reopen()
	require.True(t, sameData(want, f.all()))
	for _, found := range verify(t, f.fs).Findings {
		require.NotContains(t, found.What, "overlap")
	}
}

// union merges samples by time.
func union(a, b []point) (out []point) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].T < b[0].T:
			out, a = append(out, a[0]), a[1:]
		case len(a) > 0 && a[0].T == b[0].T:
			b = b[1:]
		default:
			out, b = append(out, b[0]), b[1:]
		}
	}
	return out
}

// v1Block makes a block around the index of the vectors, which has version 1, and returns
// what is in it.
func v1Block(t *testing.T, fs *tsdbtest.MemFS, dir string, id ulid.ULID) map[string][]point {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("index", "testdata", "index_v1.json"))
	require.NoError(t, err)
	var vector struct {
		Index  string
		Series []struct {
			Labels [][2]string
			Chunks []struct {
				Mint, Maxt int64
				Ref        uint64
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &vector))
	index, err := hex.DecodeString(vector.Index)
	require.NoError(t, err)
	want := map[string][]point{}
	segments := map[uint64][]byte{}
	meta := blockdir.Meta{ULID: id, MinTime: math.MaxInt64, Version: 1, Compaction: blockdir.Compaction{Level: 1, Sources: []ulid.ULID{id}}}
	for _, s := range vector.Series {
		name := ""
		for _, l := range s.Labels {
			name += fmt.Sprintf(", %s=%q", l[0], l[1])
		}
		key := series(t, "{"+name[2:]+"}").String()
		meta.Stats.NumSeries++
		for _, c := range s.Chunks {
			var enc xorchunk.Encoder
			times := []int64{c.Mint}
			if c.Maxt > c.Mint {
				times = append(times, c.Maxt)
			}
			for _, ts := range times {
				require.NoError(t, enc.Append(ts, float64(ts)))
				want[key] = append(want[key], point{ts, math.Float64bits(float64(ts))})
			}
			data := enc.AppendTo(nil)
			record := binary.AppendUvarint(nil, uint64(len(data)))
			body := append([]byte{byte(chunkenc.EncXOR)}, data...)
			record = encbuf.AppendBE32(append(record, body...), encbuf.Checksum(body))
			segment, off := c.Ref>>32, int(uint32(c.Ref))
			b := segments[segment]
			require.LessOrEqual(t, len(b), off)
			if b == nil {
				b = []byte{0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0}
			}
			segments[segment] = append(append(b, make([]byte, off-len(b))...), record...)
			meta.MinTime, meta.MaxTime = min(meta.MinTime, c.Mint), max(meta.MaxTime, c.Maxt+1)
			meta.Stats.NumChunks++
			meta.Stats.NumSamples += uint64(len(times))
		}
	}
	block := blockdir.Path(dir, id)
	require.NoError(t, fs.WriteFile(path.Join(block, "index"), index))
	for n, b := range segments {
		require.NoError(t, fs.WriteFile(path.Join(block, fmt.Sprintf("chunks/%06d", n+1)), b))
	}
	require.NoError(t, blockdir.WriteMeta(fs, block, meta))
	return want
}

func TestForeignBlocks_AnIndexOfVersion1IsReadDeletedFromMergedAndSaved(t *testing.T) {
	id := ulid.MustParseStrict("01HF7Q8ZK0000000000000TES1")
	f := newFixture(t, manual)
	want := v1Block(t, f.fs, fixtureDir, id)
	require.NoError(t, f.fs.Remove(path.Join(fixtureDir, id.String(), "meta.json.crc")))
	f.reopen()
	require.Len(t, f.db.Blocks(), 1)
	require.Equal(t, want, f.all())
	report := verify(t, f.fs)
	require.True(t, report.Clean(), "%+v", report.Findings)

	require.NoError(t, f.db.Delete(ctx, 0, 150))
	for key, ps := range want {
		var kept []point
		for _, p := range ps {
			if p.T < 0 || p.T > 150 {
				kept = append(kept, p)
			}
		}
		if want[key] = kept; kept == nil {
			delete(want, key)
		}
	}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
	saved := f.fs.KillClone()
	require.NoError(t, f.db.CleanTombstones(ctx))
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())

	// Damage of one chunk costs that chunk.
	chunk := path.Join(id.String(), "chunks/000002")
	require.NoError(t, flipped(chunk, 12)(saved))
	r := repair(t, saved, nil)
	require.Len(t, r.Blocks, 1)
	require.NotNil(t, r.Blocks[0].Saved)
	require.EqualValues(t, 1, r.Blocks[0].LostChunks)
	require.Empty(t, atLeast(want, openFiles(t, saved)))
}
