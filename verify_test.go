package tsdb_test

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// verify verifies the directory of a fixture, and requires that nothing changes.
func verify(t *testing.T, fs *tsdbtest.MemFS) *tsdb.VerifyReport {
	t.Helper()
	before := treeOf(t, fs)
	r, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	require.Equal(t, before, treeOf(t, fs), "Verify changes nothing")
	return r
}

func treeOf(t *testing.T, fs *tsdbtest.MemFS) map[string]string {
	t.Helper()
	tree := map[string]string{}
	for _, name := range fs.Files() {
		tree[name] = ""
		if !strings.HasSuffix(name, "/") {
			data, err := fs.ReadFile(name)
			require.NoError(t, err)
			tree[name] = string(data)
		}
	}
	return tree
}

// damages returns the findings of at least a severity.
func findings(r *tsdb.VerifyReport, least tsdb.Severity) (found []tsdb.Finding) {
	for _, f := range r.Findings {
		if f.Severity >= least {
			found = append(found, f)
		}
	}
	return found
}

// blocksFixture is a closed database of three blocks, the first one with deleted samples,
// and a head.
func blocksFixture(t *testing.T) (*fixture, map[string][]point) {
	t.Helper()
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.SamplesPerChunk = 16
	})
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(3, base-6*hour, base)
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Delete(ctx, base-6*hour, base-5*hour, labels.Equal("i", "1")))
	f.scrapes(3, base, base+hour/4)
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	f.reopen() // begins another segment
	f.scrapes(3, base+hour/4, base+hour/2)
	want := f.all()
	require.NoError(t, f.db.Close())
	f.db = nil
	return f, want
}

func TestVerify_OfAGoodDirectoryCountsEverythingAndFindsNothing(t *testing.T) {
	f, want := blocksFixture(t)
	r := verify(t, f.fs)
	require.Empty(t, r.Findings)
	require.True(t, r.Clean())
	require.False(t, r.InUse)
	require.Len(t, r.Blocks, 3)
	require.EqualValues(t, 3*6*60, r.BlockSamples, "deleted ones included")
	require.EqualValues(t, 3*30, r.LogSamples)
	require.GreaterOrEqual(t, r.LogSeries, 3)
	require.GreaterOrEqual(t, r.HeadChunks, 3)
	require.Greater(t, r.HeadSamples, uint64(16))
	f.open()
	require.Equal(t, want, f.all())
	r = verify(t, f.fs)
	require.True(t, r.InUse)
	require.Empty(t, findings(r, tsdb.SeverityWarning), "beside the one who writes")
}

func TestVerify_TellsOfEveryKindOfDamageWithItsPlace(t *testing.T) {
	f, _ := blocksFixture(t)
	block, segment := blockNames(f.fs)[1], largestOf(f.fs, "wal/")
	for _, c := range []struct {
		name     string
		change   func(fs *tsdbtest.MemFS) error
		severity tsdb.Severity
		file     string
		what     string
	}{
		{"chunk", flipped(block+"/chunks/000001", 100), tsdb.SeverityDamage, block + "/chunks/000001", "checksum"},
		{"index", flipped(block+"/index", 200), tsdb.SeverityDamage, block + "/index", ""},
		{"meta", flipped(block+"/meta.json", 60), tsdb.SeverityDamage, block + "/meta.json", ""},
		{"no index", taken(block + "/index"), tsdb.SeverityDamage, block + "/index", "missing"},
		{"empty tombstones", written(blockNames(f.fs)[0]+"/tombstones", ""), tsdb.SeverityDamage, blockNames(f.fs)[0] + "/tombstones", ""},
		{"count", edited(block+"/meta.json", `"numSamples": 360`, `"numSamples": 361`), tsdb.SeverityDamage, block + "/meta.json", "never changes"},
		{"foreign count", func(fs *tsdbtest.MemFS) error {
			if err := taken(block + "/meta.json.crc")(fs); err != nil {
				return err
			}
			return edited(block+"/meta.json", `"numSamples": 360`, `"numSamples": 361`)(fs)
		}, tsdb.SeverityDamage, block + "/meta.json", "counts"},
		{"no sidecar", taken(block + "/meta.json.crc"), tsdb.SeverityNote, block, "checksum"},
		{"stranger in a block", written(block+"/note.txt", "x"), tsdb.SeverityNote, block + "/note.txt", "none of the files"},
		{"stranger among chunks", written(block+"/chunks/note", "x"), tsdb.SeverityWarning, block + "/chunks/note", "no chunk segment"},
		{"stranger", written("readme", "x"), tsdb.SeverityNote, "readme", "no part"},
		{"stranger in the log", written("wal/readme", "x"), tsdb.SeverityWarning, "wal/readme", "belong"},
		{"leftover", written("tmp-block-01HF7Q8ZK0000000000000TES9/index", "x"), tsdb.SeverityNote, "tmp-block-01HF7Q8ZK0000000000000TES9", "leftover"},
		{"stranger called like a leftover", written("tmp-block-x/index", "x"), tsdb.SeverityNote, "tmp-block-x", "no part"},
		{"damaged list of blocks", flipped("blocks.tsdb", 30), tsdb.SeverityNote, "blocks.tsdb", "list of the blocks"},
		{"a directory for the list of blocks", func(fs *tsdbtest.MemFS) error {
			if err := taken("blocks.tsdb")(fs); err != nil {
				return err
			}
			return fs.MkdirAll(fixtureDir + "/blocks.tsdb")
		}, tsdb.SeverityNote, "blocks.tsdb", "list of the blocks"},
		{"no block", moved(block, "elsewhere/"+block), tsdb.SeverityDamage, block, "not there any more: it had samples from 2023-11-14T18:00:00Z to 2023-11-14T19:59:59Z"},
		{"a database called like a block", written("01HF7Q8ZK0000000000000TES9/wal/00000000", "x"), tsdb.SeverityWarning, "01HF7Q8ZK0000000000000TES9", "directory of a database"},
		{"snapshot", written("chunk_snapshot.000001.0000000000/000000", "x"), tsdb.SeverityNote, "chunk_snapshot.000001.0000000000", "snapshot"},
		{"lower case", moved(block, strings.ToLower(block)), tsdb.SeverityDamage, strings.ToLower(block), "spelt"},
		{"file with a block's name", written("01HF7Q8ZK0000000000000TES9", "x"), tsdb.SeverityWarning, "01HF7Q8ZK0000000000000TES9", "no directory"},
		{"empty block", func(fs *tsdbtest.MemFS) error { return fs.MkdirAll(fixtureDir + "/01HF7Q8ZK0000000000000TES9") }, tsdb.SeverityDamage,
			"01HF7Q8ZK0000000000000TES9/meta.json", "missing"},
		{"set aside", moved(block, "quarantine/"+block), tsdb.SeverityDamage, "quarantine/" + block, "set aside"},
		{"kept", written("quarantine/00000003", "x"), tsdb.SeverityNote, "quarantine", "originals"},
		{"other directory's name", moved(block, "01HF7Q8ZK0000000000000TES9"), tsdb.SeverityDamage, "01HF7Q8ZK0000000000000TES9/meta.json", "belongs to block"},
		{"log", flipped(segment, 1000), tsdb.SeverityDamage, segment, ""},
		{"no segment", taken(namesUnder(f.fs, "wal/0")[0]), tsdb.SeverityDamage, "wal", "missing"},
		{"head chunk", flipped("chunks_head/000001", 100), tsdb.SeverityWarning, "chunks_head/000001", "checksum"},
		{"directory for a file", func(fs *tsdbtest.MemFS) error { return fs.MkdirAll(fixtureDir + "/chunks_head/000009") }, tsdb.SeverityDamage, "chunks_head/000009", "directory"},
		{"torn out-of-order log", written("wbl/00000000", "x"), tsdb.SeverityNote, "wbl/00000000", "ends inside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := f.fs.KillClone()
			require.NoError(t, c.change(fs))
			r := verify(t, fs)
			i := slices.IndexFunc(r.Findings, func(f tsdb.Finding) bool {
				return f.Severity == c.severity && f.File == c.file && strings.Contains(f.What, c.what)
			})
			require.GreaterOrEqual(t, i, 0, "%+v", r.Findings)
			found := r.Findings[i]
			require.NotEmpty(t, found.Meaning)
			require.Equal(t, c.severity < tsdb.SeverityDamage, r.Clean(), "%+v", r.Findings)
			for _, other := range findings(r, tsdb.SeverityWarning) {
				if c.name == "other directory's name" && other.File == block {
					continue // nor is it where it was
				}
				require.Equal(t, c.file, other.File, "nothing else is wrong: %+v", r.Findings)
			}
		})
	}
}

func TestVerify_EndsWithItsContextAndNamesWhatIsNotThere(t *testing.T) {
	f, _ := blocksFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
	require.ErrorIs(t, err, context.Canceled)
	_, err = tsdb.Verify(context.Background(), "elsewhere", &tsdb.VerifyOptions{FS: f.fs})
	require.ErrorContains(t, err, "elsewhere")
	last := int64(-1)
	var total int64
	r, err := tsdb.Verify(context.Background(), fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Progress: func(done, all int64) {
		require.GreaterOrEqual(t, done, last)
		require.LessOrEqual(t, done, all)
		last, total = done, all
	}})
	require.NoError(t, err)
	require.Equal(t, total, last)
	require.Equal(t, total, r.Bytes)
}

// Changes of a data directory.

func written(name, text string) func(*tsdbtest.MemFS) error {
	return func(fs *tsdbtest.MemFS) error { return fs.WriteFile(path.Join(fixtureDir, name), []byte(text)) }
}

func taken(name string) func(*tsdbtest.MemFS) error {
	return func(fs *tsdbtest.MemFS) error { return fs.Remove(path.Join(fixtureDir, name)) }
}

func moved(from, to string) func(*tsdbtest.MemFS) error {
	return func(fs *tsdbtest.MemFS) error {
		if err := fs.MkdirAll(path.Dir(path.Join(fixtureDir, to))); err != nil {
			return err
		}
		return fs.Rename(path.Join(fixtureDir, from), path.Join(fixtureDir, to))
	}
}

func flipped(name string, at int) func(*tsdbtest.MemFS) error {
	return func(fs *tsdbtest.MemFS) error {
		data, err := fs.ReadFile(path.Join(fixtureDir, name))
		if err != nil {
			return err
		}
		data = slices.Clone(data)
		data[at] ^= 1
		return fs.WriteFile(path.Join(fixtureDir, name), data)
	}
}

func edited(name, from, to string) func(*tsdbtest.MemFS) error {
	return func(fs *tsdbtest.MemFS) error {
		data, err := fs.ReadFile(path.Join(fixtureDir, name))
		if err != nil {
			return err
		}
		return fs.WriteFile(path.Join(fixtureDir, name), []byte(strings.ReplaceAll(string(data), from, to)))
	}
}

// namesUnder returns the files and directories below a part of the data directory.
func namesUnder(fs *tsdbtest.MemFS, part string) (names []string) {
	for _, name := range fs.Files() {
		if short, ok := strings.CutPrefix(name, fixtureDir+"/"); ok && strings.HasPrefix(short, part) && !strings.HasSuffix(short, "/") {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	return names
}

func largestOf(fs *tsdbtest.MemFS, part string) (largest string) {
	most := -1
	for _, name := range namesUnder(fs, part) {
		if data, err := fs.ReadFile(path.Join(fixtureDir, name)); err == nil && len(data) > most {
			largest, most = name, len(data)
		}
	}
	return largest
}

// blockNames returns the directories of blocks in the order of their times.
func blockNames(fs *tsdbtest.MemFS) (names []string) {
	mint := map[string]int64{}
	for _, name := range namesUnder(fs, "01") {
		if block, file, _ := strings.Cut(name, "/"); file == "meta.json" {
			meta, err := blockdir.ReadMeta(fs, path.Join(fixtureDir, block))
			if err == nil {
				names = append(names, block)
				mint[block] = meta.MinTime
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(mint[a], mint[b]) })
	return names
}

// Chunks before 1970 are in order, too.
func TestVerify_HeadChunksOfNegativeTimes_AreInOrder(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { manual(o); o.Blocks.Range = 10 * time.Minute })
	for _, n := range []int64{-10, -1, 0, 10} {
		f.commit(sample{`{a="b"}`, n * minute, 1})
	}
	require.NoError(t, f.db.Close())
	report, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	f.open()
}
