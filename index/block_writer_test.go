package index_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

func newWriter(t testing.TB, fsys fileutil.FS, symbols ...string) *index.Writer {
	t.Helper()
	w, err := index.NewWriter(fsys, "index", index.WriterOptions{})
	require.NoError(t, err)
	for _, s := range symbols {
		require.NoError(t, w.AddSymbol(s))
	}
	return w
}

// finish ends an index that is good.
func finish(t testing.TB, fsys *sparseFS, w *index.Writer) *index.Reader {
	t.Helper()
	require.NoError(t, w.Finish())
	r, err := index.OpenReader(fsys, "index")
	require.NoError(t, err)
	require.NoError(t, r.Verify(context.Background(), nil))
	return r
}

func pairs(numbers ...uint32) (ls []index.SymbolPair) {
	for ; len(numbers) > 0; numbers = numbers[2:] {
		ls = append(ls, index.SymbolPair{Name: numbers[0], Value: numbers[1]})
	}
	return ls
}

func chunkAt(mint, maxt int64, ref uint64) index.ChunkMeta {
	return index.ChunkMeta{MinT: mint, MaxT: maxt, Ref: chunks.BlockRef(ref)}
}

func TestWriter_RefusesWhatBreaksTheOrder(t *testing.T) {
	fsys := newSparseFS(nil)
	w := newWriter(t, fsys, "", "a", "b", "c")
	require.ErrorIs(t, w.AddSymbol("c"), index.ErrInvalid, "a symbol twice")
	require.ErrorIs(t, w.AddSymbol("b"), index.ErrInvalid, "a symbol below the last")
	good := []index.ChunkMeta{chunkAt(10, 20, 100)}
	_, err := w.AddSeries(pairs(1, 2), good)
	require.NoError(t, err)
	size := w.Size()
	require.ErrorIs(t, w.AddSymbol("z"), index.ErrInvalid, "a symbol behind a series")

	later := []index.ChunkMeta{chunkAt(10, 20, 101)}
	for name, c := range map[string]struct {
		ls []index.SymbolPair
		cs []index.ChunkMeta
	}{
		"label set twice":               {pairs(1, 2), later},
		"label set below":               {pairs(1, 1), later},
		"no labels":                     {nil, later},
		"names descend":                 {pairs(2, 1, 1, 1), later},
		"name twice":                    {pairs(1, 3, 1, 3), later},
		"no symbol for a name":          {pairs(4, 1), later},
		"no symbol for a value":         {pairs(1, 4), later},
		"empty value":                   {pairs(2, 0), later},
		"no chunks":                     {pairs(1, 3), nil},
		"ref of the series before":      {pairs(1, 3), good},
		"chunk ends before it begins":   {pairs(1, 3), []index.ChunkMeta{chunkAt(20, 19, 101)}},
		"chunks overlap":                {pairs(1, 3), []index.ChunkMeta{chunkAt(10, 20, 101), chunkAt(20, 30, 102)}},
		"refs of one series descend":    {pairs(1, 3), []index.ChunkMeta{chunkAt(10, 20, 102), chunkAt(21, 30, 101)}},
		"refs of one series are a pair": {pairs(1, 3), []index.ChunkMeta{chunkAt(10, 20, 102), chunkAt(21, 30, 102)}},
	} {
		_, err := w.AddSeries(c.ls, c.cs)
		require.ErrorIs(t, err, index.ErrInvalid, name)
		require.Equal(t, size, w.Size(), name)
	}
	_, err = w.AddSeries(pairs(1, 2, 2, 1), later)
	require.NoError(t, err, "a longer set with the same beginning")
	r := finish(t, fsys, w)
	all, err := index.Expand(r.AllSeries())
	require.NoError(t, err)
	require.Len(t, all, 2)
}

func TestWriter_AnEmptyNameIsALabelLikeOthers(t *testing.T) {
	ctx := context.Background()
	fsys := newSparseFS(nil)
	w := newWriter(t, fsys, "", "a", "b")
	one, err := w.AddSeries(pairs(0, 1), []index.ChunkMeta{chunkAt(1, 2, 8)})
	require.NoError(t, err)
	two, err := w.AddSeries(pairs(1, 2), []index.ChunkMeta{chunkAt(1, 2, 9)})
	require.NoError(t, err)
	r := finish(t, fsys, w)
	names, err := r.LabelNames(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"", "a"}, names)
	values, err := r.LabelValues(ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, values)
	for _, c := range []struct {
		m    *labels.Matcher
		want []uint64
	}{
		{labels.Equal("", "a"), []uint64{uint64(one)}},
		{labels.Equal("", ""), []uint64{uint64(two)}},
		{labels.NotEqual("", "a"), []uint64{uint64(two)}},
		{labels.NotEqual("", ""), []uint64{uint64(one)}},
	} {
		ids, err := r.Select(ctx, c.m)
		require.NoError(t, err)
		require.Equal(t, c.want, ids, c.m.String())
	}
}

func TestWriter_KeepsExtremeNumbers(t *testing.T) {
	fsys := newSparseFS(nil)
	w := newWriter(t, fsys, "a", "b")
	cs := []index.ChunkMeta{
		chunkAt(math.MinInt64, math.MinInt64, 0),
		chunkAt(math.MinInt64+1, -1, 1<<40),
		chunkAt(0, math.MaxInt64, math.MaxUint64),
	}
	id, err := w.AddSeries(pairs(0, 1), cs)
	require.NoError(t, err)
	r := finish(t, fsys, w)
	ls, got, err := r.Series(uint64(id), pairs(7, 7), cs[:1:1])
	require.NoError(t, err)
	require.Equal(t, pairs(7, 7, 0, 1), ls)
	require.Equal(t, append(cs[:1:1], cs...), got)
}

func TestWriter_AnIndexOfNothingCanBeRead(t *testing.T) {
	ctx := context.Background()
	for _, symbols := range [][]string{nil, {"a", "b"}} {
		fsys := newSparseFS(nil)
		r := finish(t, fsys, newWriter(t, fsys, symbols...))
		require.Equal(t, len(symbols), r.NumSymbols())
		ids, err := r.Select(ctx, labels.NotEqual("a", "b"))
		require.NoError(t, err)
		require.Empty(t, ids)
		require.False(t, r.AllSeries().Next())
		names, err := r.LabelNames(ctx)
		require.NoError(t, err)
		require.Empty(t, names)
	}
}

// Lists gathered in any number of groups are the same bytes, whatever memory they get.
func TestWriter_MemoryForListsDoesNotChangeTheFile(t *testing.T) {
	sets := make([]labels.Labels, 600)
	for i := range sets {
		sets[i] = labels.FromStrings(fleet(i)...)
	}
	c := newContent(sets)
	var want []byte
	for _, memory := range []int{0, 1, 1 << 10, 20 << 10} {
		fsys := newSparseFS(nil)
		c.write(t, fsys, "index", index.WriterOptions{PostingsBytes: memory})
		if want == nil {
			want = fsys.file.bytes()
		}
		require.True(t, bytes.Equal(want, fsys.file.bytes()), "%d bytes", memory)
	}
	r, err := index.OpenReader(newSparseFS(want), "index")
	require.NoError(t, err)
	n := 0
	require.NoError(t, r.Verify(context.Background(), func(_ uint64, ls []index.SymbolPair, cs []index.ChunkMeta) error {
		require.Equal(t, c.series[n], ls)
		require.Equal(t, contentChunks(n), cs)
		n++
		return nil
	}))
	require.Equal(t, len(sets), n)
}

func TestWriter_WritesInLargePiecesAndSyncsThemSoon(t *testing.T) {
	fsys := newSparseFS(nil)
	var told, most int
	fleetContent().write(t, fsys, "index", index.WriterOptions{Written: func(n int) error {
		told, most = told+n, max(most, n)
		return nil
	}})
	require.EqualValues(t, fsys.file.size, told)
	require.Less(t, most, 512<<10)
	require.Less(t, fsys.file.writes, told/(200<<10)+5)
	require.Equal(t, told/(8<<20)+1, fsys.file.syncs)
	require.Equal(t, 1, fsys.file.closes)
}

// Whatever operation fails, its error comes back, nothing is written behind it, and
// Abort leaves no file.
func TestWriter_StopsAtTheFirstError(t *testing.T) {
	sets := make([]labels.Labels, 6000)
	for i := range sets {
		sets[i] = labels.FromStrings(fleet(i)...)
	}
	c := newContent(sets)
	boom := errors.New("boom")
	write := func(fsys *sparseFS) error {
		w, err := index.NewWriter(fsys, "index", index.WriterOptions{PostingsBytes: 30 << 10})
		require.NoError(t, err)
		defer func() {
			written := fsys.file.writes
			err := w.Abort()
			require.NoError(t, err)
			require.NoError(t, w.Abort(), "again")
			require.True(t, fsys.removed)
			require.Equal(t, written, fsys.file.writes)
			require.Equal(t, 1, fsys.file.closes)
			_, err = w.AddSeries(pairs(0, 1), contentChunks(9999))
			require.Error(t, err)
			require.Error(t, w.Finish())
		}()
		for _, s := range c.symbols {
			if err := w.AddSymbol(s); err != nil {
				return err
			}
		}
		for n, ls := range c.series {
			if _, err := w.AddSeries(ls, contentChunks(n)); err != nil {
				require.ErrorIs(t, w.Finish(), err, "the error stays")
				return err
			}
		}
		err = w.Finish()
		if err != nil {
			require.ErrorIs(t, w.Finish(), boom, "the error stays")
		}
		return err
	}
	for _, op := range []string{"write", "read", "sync"} {
		for nth := 1; ; nth++ {
			fsys := newSparseFS(nil)
			calls := 0
			fsys.file.fail = func(o string) error {
				if o != op {
					return nil
				}
				if calls++; calls == nth {
					return boom
				}
				return nil
			}
			err := write(fsys)
			if calls < nth {
				require.NoError(t, err)
				require.Greater(t, nth, 1, op)
				break
			}
			require.ErrorIs(t, err, boom, "%s %d", op, nth)
			require.Equal(t, nth, calls, "%s goes on after an error", op)
		}
	}
}

func TestWriter_PassesTheErrorOfWrittenOn(t *testing.T) {
	boom := errors.New("boom")
	w, err := index.NewWriter(newSparseFS(nil), "index", index.WriterOptions{Written: func(int) error { return boom }})
	require.NoError(t, err)
	require.ErrorIs(t, w.Finish(), boom)
	require.NoError(t, w.Abort())
}

func TestWriter_NeverReplacesAFile(t *testing.T) {
	name := writeFile(t, []byte("precious"))
	_, err := index.NewWriter(fileutil.OS, name, index.WriterOptions{})
	require.ErrorIs(t, err, os.ErrExist)
}

// The series are read back for the lists. Should they not be what was written, the
// lists would be wrong: it is an error.
func TestWriter_ReadsBackWhatItWrote(t *testing.T) {
	sets := make([]labels.Labels, 200)
	for i := range sets {
		sets[i] = labels.FromStrings(fleet(i)...)
	}
	c := newContent(sets)
	good := newSparseFS(nil)
	c.write(t, good, "index", index.WriterOptions{})
	toc := good.file.bytes()[good.file.size-52:]
	begin, end := binary.BigEndian.Uint64(toc[8:]), binary.BigEndian.Uint64(toc[16:])
	wrong := 0
	for at := begin; at < end; at += 7 {
		fsys := newSparseFS(nil)
		w, err := index.NewWriter(fsys, "index", index.WriterOptions{})
		require.NoError(t, err)
		c.fill(t, w)
		fsys.file.fail = func(op string) error {
			if op == "read" {
				fsys.file.pages[int64(at)/sparsePage][at%sparsePage] ^= 0x10
			}
			return nil
		}
		if err := w.Finish(); err != nil {
			requireDamage(t, err)
			wrong++
		}
	}
	require.Greater(t, wrong, 500)
}

// Limits of the format, made so small that they can be reached. At the limit all is
// well; one below, nothing that is wrong is written.
func TestWriter_Bug38_RefusesWhatDoesNotFitItsField(t *testing.T) {
	sets := make([]labels.Labels, 300)
	for i := range sets {
		sets[i] = labels.FromStrings(fleet(i)...)
	}
	c := newContent(sets)
	write := func(section, list, file uint64) (*sparseFS, error) {
		fsys := newSparseFS(nil)
		w, err := index.NewWriter(fsys, "index", index.WriterOptions{})
		require.NoError(t, err)
		w.SetLimits(section, list, file)
		for _, s := range c.symbols {
			if err := w.AddSymbol(s); err != nil {
				return fsys, err
			}
		}
		for n, ls := range c.series {
			if _, err := w.AddSeries(ls, contentChunks(n)); err != nil {
				return fsys, err
			}
		}
		return fsys, w.Finish()
	}
	const none = math.MaxUint32
	fsys, err := write(none, none, none)
	require.NoError(t, err)
	data := fsys.file.bytes()
	size := uint64(len(data))
	at := func(i int) uint64 { return binary.BigEndian.Uint64(data[size-52+uint64(8*i):]) }
	symbols := at(1) - 5 - 8
	table := size - 52 - at(5) - 8
	for _, l := range []struct {
		what                string
		section, list, file uint64
	}{
		{"postings offset table", max(table, symbols), none, none},
		{"list of all series", none, uint64(len(sets)), none},
		{"index file", none, none, size},
	} {
		fsys, err := write(l.section, l.list, l.file)
		require.NoError(t, err, l.what)
		require.Equal(t, data, fsys.file.bytes())
		fsys, err = write(l.section-1, l.list-1, l.file-1)
		require.ErrorIs(t, err, index.ErrTooLarge)
		require.ErrorContains(t, err, l.what)
		require.True(t, bytes.HasPrefix(data, fsys.file.bytes()))
	}
	require.Greater(t, table, symbols)
	_, err = write(symbols-1, none, none)
	require.ErrorIs(t, err, index.ErrTooLarge)
	require.ErrorContains(t, err, "symbol table")
	_, err = write(none, none, at(2)-1)
	require.ErrorIs(t, err, index.ErrTooLarge)
	require.ErrorContains(t, err, "series section")
}

// The limits of the format itself: ids are offsets / 16 in 32 bits.
func TestWriter_SeriesMayLieUpTo64GiB(t *testing.T) {
	const limit = 16 * math.MaxUint32
	fsys := newSparseFS(nil)
	w := newWriter(t, fsys, "a", "b", "c", "d")
	require.NoError(t, w.SkipTo(limit-4096))
	id, err := w.AddSeries(pairs(0, 1), []index.ChunkMeta{chunkAt(1, 2, 8)})
	require.NoError(t, err)
	require.Equal(t, uint32(math.MaxUint32-256), id)
	id, err = w.AddSeries(pairs(0, 2), []index.ChunkMeta{chunkAt(1, 2, 9)})
	require.NoError(t, err)
	require.Equal(t, uint32(math.MaxUint32-255), id)
	require.NoError(t, w.Finish())
	require.Less(t, fsys.file.size, int64(limit))
	require.Less(t, len(fsys.file.pages), 10, "the hole takes nothing")

	w = newWriter(t, newSparseFS(nil), "a", "b", "c")
	require.NoError(t, w.SkipTo(limit-64))
	_, err = w.AddSeries(pairs(0, 1), []index.ChunkMeta{chunkAt(1, 2, 8)})
	require.NoError(t, err)
	size := w.Size()
	require.ErrorIs(t, w.Finish(), index.ErrTooLarge)
	require.Equal(t, size, w.Size())

	w = newWriter(t, newSparseFS(nil), "a", "b", "c")
	require.NoError(t, w.SkipTo(limit))
	_, err = w.AddSeries(pairs(0, 1), []index.ChunkMeta{chunkAt(1, 2, 8)})
	require.ErrorIs(t, err, index.ErrTooLarge)
}

func TestReader_FindsSeriesBeyond4GiB(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("a mapping of 63 GiB does not fit into 32 bits of addresses; OpenReader refuses such a file")
	}
	name := filepath.Join(t.TempDir(), "index")
	w, err := index.NewWriter(fileutil.OS, name, index.WriterOptions{})
	require.NoError(t, err)
	for _, s := range []string{"a", "b", "c"} {
		require.NoError(t, w.AddSymbol(s))
	}
	if err := w.SkipTo(63 << 30); err != nil {
		require.NoError(t, w.Abort())
		t.Skip("the file has 63 GiB, most of it a hole, and this file system cannot have one: ", err)
	}
	for n := uint32(1); n <= 2; n++ {
		_, err = w.AddSeries(pairs(0, n), []index.ChunkMeta{chunkAt(1, 2, uint64(8*n))})
		require.NoError(t, err)
	}
	require.NoError(t, w.Finish())
	r, err := index.OpenReader(fileutil.OS, name)
	require.NoError(t, err)
	defer r.Close()
	ids, err := r.Select(context.Background(), labels.Equal("a", "c"))
	require.NoError(t, err)
	require.Equal(t, []uint64{63<<30/16 + 1}, ids)
	ls, cs, err := r.Series(ids[0], nil, nil)
	require.NoError(t, err)
	require.Equal(t, pairs(0, 2), ls)
	require.Equal(t, []index.ChunkMeta{chunkAt(1, 2, 16)}, cs)
}

func TestWriter_AbortLeavesNothing(t *testing.T) {
	for _, finished := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "index")
		w, err := index.NewWriter(fileutil.OS, name, index.WriterOptions{})
		require.NoError(t, err)
		if finished {
			require.NoError(t, w.Finish())
			require.ErrorIs(t, w.Finish(), index.ErrClosed)
		}
		require.NoError(t, w.Abort())
		require.NoFileExists(t, name)
		require.NoError(t, w.Abort())
		_, err = w.AddSeries(pairs(0, 0), nil)
		require.Error(t, err, fmt.Sprint(finished))
	}
}
