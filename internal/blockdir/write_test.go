package blockdir

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestCommit_FillsInTheMetaAndLeavesSeriesWithoutChunksOut(t *testing.T) {
	m := newDisk(t)
	got, err := create(m, testID, testBlock(), testMeta(), WriterOptions{})
	require.NoError(t, err)
	want := Meta{
		ULID: testID, MinTime: 0, MaxTime: 100, Version: 1,
		Stats:      Stats{NumSamples: 11, NumFloatSamples: 11, NumSeries: 3, NumChunks: 5},
		Compaction: Compaction{Level: 1, Sources: []ulid.ULID{testID}},
	}
	require.Equal(t, want, got)
	d := openTest(t, m)
	require.Equal(t, want, d.Meta())
	require.False(t, d.NeedsSidecar())
	require.Len(t, seriesIDs(t, d), 3)
	require.EqualValues(t, m.Used(), d.SizeBytes()+sidecarBytes)
	text, err := dump(d)
	require.NoError(t, err)
	require.Equal(t, 11, strings.Count(text, "\n"))
	require.Contains(t, text, "a,1,b,x, 99 4058c00000000000\n")
	require.NoError(t, d.Close())

	other := ulid.MustParseStrict("01HF7Q8ZK0000000000000TES9")
	origin := Compaction{Level: 3, Sources: []ulid.ULID{testID}, Parents: []Parent{{testID, 0, 100}}, Hints: []string{HintFromOutOfOrder}}
	got, err = create(m, other, testBlock(), Meta{MinTime: -5, MaxTime: 100, Compaction: origin}, WriterOptions{})
	require.NoError(t, err)
	require.Equal(t, origin, got.Compaction)
	again, err := ReadMeta(m, Path(dataDir, other))
	require.NoError(t, err)
	require.Equal(t, got, again)
}

func TestCommit_WithoutSeries_IsErrEmptyAndLeavesNothing(t *testing.T) {
	m := newDisk(t)
	_, err := create(m, testID, testBlock()[2:3], testMeta(), WriterOptions{})
	require.ErrorIs(t, err, ErrEmpty)
	requireNothing(t, m)
}

func TestCommit_OnStableStorageOnReturn(t *testing.T) {
	m := newBlock(t)
	want := content(t, m)
	require.Equal(t, want, content(t, m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})))
}

// Bug 41: a sample exactly on the border of a block.
func TestCommit_SamplesOutsideOfTheBounds_AreRefused(t *testing.T) {
	for _, c := range []struct {
		mint, maxt int64
		ok         bool
	}{
		{0, 100, true}, {0, 99, false}, {1, 100, false}, {0, 0, false}, {100, 0, false},
		{math.MinInt64, math.MaxInt64, true},
	} {
		m := newDisk(t)
		_, err := create(m, testID, testBlock(), Meta{MinTime: c.mint, MaxTime: c.maxt}, WriterOptions{})
		if c.ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid)
		requireNothing(t, m)
	}
}

func TestWriter_RefusesWhatIsInvalidAndTheFirstErrorStays(t *testing.T) {
	good := floats(1, 2)
	for name, bad := range map[string]func(w *Writer) error{
		"no samples":        func(w *Writer) error { return w.AddChunk(Chunk{1, 2, 0, chunkenc.EncXOR, good.Data}) },
		"times swapped":     func(w *Writer) error { return w.AddChunk(Chunk{2, 1, 2, chunkenc.EncXOR, good.Data}) },
		"no encoding":       func(w *Writer) error { return w.AddChunk(Chunk{1, 2, 2, chunkenc.EncNone, good.Data}) },
		"symbol descending": func(w *Writer) error { return w.AddSymbol("") },
		"unknown symbol": func(w *Writer) error {
			if err := w.AddChunk(good); err != nil {
				return nil
			}
			return w.AddSeries([]index.SymbolPair{{Name: 7, Value: 8}})
		},
		"chunks overlap": func(w *Writer) error {
			for range 2 {
				if w.AddChunk(good) != nil {
					return nil
				}
			}
			return w.AddSeries([]index.SymbolPair{{Name: 0, Value: 1}})
		},
		"chunk without series": func(w *Writer) error {
			if w.AddChunk(good) != nil {
				return nil
			}
			_, err := w.Commit(context.Background(), testMeta())
			return err
		},
	} {
		m := newDisk(t)
		w, err := Create(m, dataDir, testID, WriterOptions{})
		require.NoError(t, err)
		require.NoError(t, w.AddSymbol("a"))
		require.NoError(t, w.AddSymbol("b"))
		first := bad(w)
		require.Error(t, first, name)
		require.ErrorIs(t, w.AddChunk(good), first, name)
		require.ErrorIs(t, w.AddSymbol("c"), first, name)
		require.ErrorIs(t, w.AddSeries(nil), first, name)
		_, err = w.Commit(context.Background(), testMeta())
		require.ErrorIs(t, err, first, name)
		require.NoError(t, w.Abort())
		requireNothing(t, m)
		require.Empty(t, m.OpenHandles())
	}
}

func TestAbort_AtAnyTime_LeavesNothing(t *testing.T) {
	m := newDisk(t)
	w, err := Create(m, dataDir, testID, WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, fill(w, testBlock()))
	require.Positive(t, w.Size())
	require.NoError(t, w.Abort())
	requireNothing(t, m)
	require.NoError(t, w.Abort())
	require.ErrorIs(t, w.AddSymbol("z"), ErrClosed)

	w, err = Create(m, dataDir, testID, WriterOptions{})
	require.NoError(t, err)
	require.Equal(t, testID, w.ULID())
	require.NoError(t, fill(w, testBlock()))
	_, err = w.Commit(context.Background(), testMeta())
	require.NoError(t, err)
	require.Positive(t, w.Size())
	require.NoError(t, w.Abort(), "behind Commit it does nothing")
	_, err = w.Commit(context.Background(), testMeta())
	require.ErrorIs(t, err, ErrClosed)
	require.NotEmpty(t, content(t, m))
}

func TestCreate_BlockOfThatNameIsRefusedAndALeftoverReplaced(t *testing.T) {
	m := newBlock(t)
	want := content(t, m)
	_, err := Create(m, dataDir, testID, WriterOptions{})
	require.ErrorIs(t, err, ErrExists)
	require.Equal(t, want, content(t, m))

	m = newDisk(t)
	require.NoError(t, m.WriteFile(filepath.Join(dataDir, creationPrefix+testID.String(), "chunks/000007"), []byte("old")))
	w, err := Create(m, dataDir, testID, WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, fill(w, testBlock()))
	require.NoError(t, m.MkdirAll(Path(dataDir, testID)))
	_, err = w.Commit(context.Background(), testMeta())
	require.ErrorIs(t, err, ErrExists, "it came meanwhile")
	require.NoError(t, m.Remove(Path(dataDir, testID)))
	requireNothing(t, m)
}

func TestCommit_ContextOrWrittenEndsIt(t *testing.T) {
	stop := errors.New("stop")
	m := newDisk(t)
	w, err := Create(m, dataDir, testID, WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, fill(w, testBlock()))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	_, err = w.Commit(ctx, testMeta())
	require.ErrorIs(t, err, stop)
	requireNothing(t, m)

	bytes := 0
	_, err = create(m, testID, testBlock(), testMeta(), WriterOptions{Written: func(n int) error { bytes += n; return nil }})
	require.NoError(t, err)
	d := openTest(t, m)
	require.EqualValues(t, d.Index().Size()+d.Chunks().Size(), bytes)
	require.NoError(t, d.Close())
	require.NoError(t, Remove(m, dataDir, testID))
	_, err = create(m, testID, testBlock(), testMeta(), WriterOptions{Written: func(int) error { return stop }})
	require.ErrorIs(t, err, stop)
	requireNothing(t, m)
}

// liar changes bytes of files whose path ends like suffix when they are written.
type liar struct {
	fileutil.FS
	suffix string
}

func (l liar) Create(name string) (fileutil.File, error) {
	f, err := l.FS.Create(name)
	if err == nil && strings.HasSuffix(name, l.suffix) {
		f = liarFile{f}
	}
	return f, err
}

type liarFile struct{ fileutil.File }

func (f liarFile) Write(p []byte) (int, error) {
	p = append([]byte{}, p...)
	p[len(p)-3] ^= 0x10
	return f.File.Write(p)
}

func TestCommit_DiskThatWritesSomethingElse_IsFoundOutBeforeTheBlockHasItsName(t *testing.T) {
	for _, suffix := range []string{"000001", indexName, metaName + tmpSuffix, "tombstones" + tmpSuffix} {
		m := newDisk(t)
		_, err := create(liar{m, suffix}, testID, testBlock(), testMeta(), WriterOptions{})
		if suffix == metaName+tmpSuffix {
			require.Error(t, err) // the version, which is at the end
		} else {
			require.ErrorIs(t, err, encbuf.ErrCorrupt, suffix)
		}
		requireNothing(t, m)
	}
}

func TestCommit_OnTheRealDisk(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(fileutil.OS, dir, testID, WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, fill(w, testBlock()))
	_, err = w.Commit(context.Background(), testMeta())
	require.NoError(t, err)
	d, err := Open(fileutil.OS, Path(dir, testID))
	require.NoError(t, err)
	got, err := dump(d)
	require.NoError(t, err)
	require.Equal(t, content(t, newBlock(t)), got)
	require.NoError(t, d.Close())
	require.NoError(t, Remove(fileutil.OS, dir, testID))
	entries, err := fileutil.OS.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestList_TakesTheOneSpellingOnly(t *testing.T) {
	m := newBlock(t)
	id := testID.String()
	for _, name := range []string{strings.ToLower(id), id + ".tmp", id + ".tmp-for-creation", id[:25], id + "0", creationPrefix + id, "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "wal", strings.Replace(id, "1", "I", 1)} {
		require.NoError(t, m.MkdirAll(filepath.Join(dataDir, name)))
	}
	require.NoError(t, m.WriteFile(filepath.Join(dataDir, "01HF7Q8ZK0000000000000FHEE"), nil), "a file")
	require.NoError(t, m.MkdirAll(filepath.Join(dataDir, "00000000000000000000000000")))
	ids, err := List(m, dataDir)
	require.NoError(t, err)
	require.Equal(t, []ulid.ULID{{}, testID}, ids)
	_, err = List(m, "nowhere")
	require.Error(t, err)
}

func TestRemove_TakesWhatAnEarlierOneLeft(t *testing.T) {
	m := newBlock(t)
	left := filepath.Join(dataDir, deletionPrefix+testID.String())
	require.NoError(t, m.WriteFile(filepath.Join(left, "index"), []byte("x")))
	require.NoError(t, Remove(m, dataDir, testID))
	requireNothing(t, m)
}
