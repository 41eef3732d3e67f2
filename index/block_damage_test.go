package index_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// answers is what an index says, by question; a question that ends with an error has no
// answer.
type answers map[string]string

// ask asks everything about the series and labels of v. The errors are all damage.
func ask(t testing.TB, r *index.Reader, v blockVector) answers {
	got := make(answers)
	answer := func(question string, err error, value ...any) {
		if err != nil {
			requireDamage(t, err)
			return
		}
		got[question] = fmt.Sprint(value...)
	}
	ctx := context.Background()
	var symbols []string
	err := r.Symbols(func(n uint32, s []byte) error { symbols = append(symbols, string(s)); return nil })
	answer("symbols", err, symbols)
	for n := range symbols {
		s, err := r.Symbol(uint32(n))
		answer(fmt.Sprint("symbol ", n), err, s)
	}
	ids, err := r.Select(ctx)
	answer("all", err, ids)
	ids, err = index.Expand(r.AllSeries())
	answer("every", err, ids)
	for _, s := range v.Series {
		ls, cs, err := r.Series(s.ID, nil, nil)
		answer(fmt.Sprint("series ", s.ID), err, ls, cs)
		ls, err = r.SeriesLabels(s.ID, nil)
		answer(fmt.Sprint("labels of series ", s.ID), err, ls)
	}
	for _, l := range v.Postings {
		if l.Name != "" {
			ids, err = r.Select(ctx, labels.Equal(l.Name, l.Value))
			answer(fmt.Sprint("equal ", l.Name, l.Value), err, ids)
			ids, err = r.Select(ctx, labels.NotEqual(l.Name, l.Value))
			answer(fmt.Sprint("not equal ", l.Name, l.Value), err, ids)
			values, err := r.LabelValues(ctx, l.Name)
			answer("values "+l.Name, err, values)
		}
	}
	names, err := r.LabelNames(ctx)
	answer("names", err, names)
	var pairs []string
	err = r.Pairs(func(name, value string, count int) error {
		pairs = append(pairs, fmt.Sprint(name, value, count))
		return nil
	})
	answer("pairs", err, pairs)
	return got
}

func requireDamage(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	var damage *encbuf.CorruptError
	require.True(t, errors.As(err, &damage))
	require.NotEmpty(t, damage.File)
	require.GreaterOrEqual(t, damage.Offset, int64(0))
}

// probe opens damaged bytes and compares what they say with the truth. It tells whether
// Verify, or opening, finds the damage.
func probe(t *testing.T, data []byte, v blockVector, truth answers) (found bool) {
	r, err := index.OpenReader(newSparseFS(data), "index")
	if err != nil {
		requireDamage(t, err)
		return true
	}
	for question, answer := range ask(t, r, v) {
		require.Equal(t, truth[question], answer, question)
	}
	if err = r.Verify(context.Background(), nil); err != nil {
		requireDamage(t, err)
	}
	require.NoError(t, r.Close())
	return err != nil
}

func TestReader_NoFlippedBitChangesAnAnswer(t *testing.T) {
	for _, v := range blockVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			truth := ask(t, openBlock(t, v.raw), v)
			var unnoticed []int
			for i := range v.raw {
				for bit := range 8 {
					if !tried(v, i, bit) {
						continue
					}
					data := append([]byte(nil), v.raw...)
					data[i] ^= 1 << bit
					if !probe(t, data, v, truth) {
						unnoticed = append(unnoticed, 8*i+bit)
					}
				}
			}
			require.Equal(t, uncovered(v), unnoticed)
		})
	}
}

// tried tells which bits are flipped: all of them in small files, one of 64 in others; less if not
// everything is to be tried.
func tried(v blockVector, i, bit int) bool {
	switch {
	case len(v.raw) > 4000:
		return i%8 == 0 && bit == i/8%8 && (!testing.Short() || i%5 == 0)
	case testing.Short():
		return bit == i%8 && i%5 == 4
	default:
		return sweep.Whole() || bit == i%8
	}
}

// uncovered are the bits that nobody misses: one of the version, and sections that no
// reader needs.
func uncovered(v blockVector) (bits []int) {
	if v.Version == 2 && tried(v, 4, 0) {
		return []int{8 * 4} // 2 becomes 3, which is the same
	}
	if v.Version == 1 {
		toc := v.raw[len(v.raw)-52:]
		for _, section := range []int{2, 3} {
			from := binary.BigEndian.Uint64(toc[8*section:])
			to := binary.BigEndian.Uint64(toc[8*(section+2):])
			if section == 3 {
				to = binary.BigEndian.Uint64(toc[8*5:])
			}
			for i := from; i < to; i++ {
				for bit := range 8 {
					if tried(v, int(i), bit) {
						bits = append(bits, 8*int(i)+bit)
					}
				}
			}
		}
	}
	return bits
}

func TestReader_EveryCutIsDamage(t *testing.T) {
	for _, v := range blockVectors(t) {
		for n := range len(v.raw) {
			_, err := index.OpenReader(newSparseFS(v.raw[:n]), "index")
			requireDamage(t, err)
		}
		longer := append(append([]byte(nil), v.raw...), 0)
		_, err := index.OpenReader(newSparseFS(longer), "index")
		requireDamage(t, err)
	}
}

// Each length is made as large as it can be, with all checksums right.
func TestReader_BelievesNoLength(t *testing.T) {
	for _, v := range blockVectors(t) {
		if len(v.raw) > 4000 {
			continue
		}
		for i := range len(v.raw) - 4 {
			for _, value := range []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, uint32(len(v.raw))} {
				data := append([]byte(nil), v.raw...)
				binary.BigEndian.PutUint32(data[i:], value)
				useAll(t, fixChecksums(data))
			}
			for _, n := range []int{1, 5, 9} {
				data := append([]byte(nil), v.raw...)
				for j := i; j < min(i+n, len(data)); j++ {
					data[j] |= 0x80
				}
				useAll(t, fixChecksums(data))
			}
		}
	}
}

// Indexes that somebody made: all checksums are right, what they cover is not.
func TestReader_ChecksumsAloneAreNotBelieved(t *testing.T) {
	fsys := newSparseFS(nil)
	w := newWriter(t, fsys, "a", "b", "c")
	for n := uint32(1); n <= 2; n++ {
		_, err := w.AddSeries(pairs(0, n), []index.ChunkMeta{chunkAt(1, 2, uint64(8*n))})
		require.NoError(t, err)
	}
	require.NoError(t, w.Finish())
	good := fsys.file.bytes()
	toc := good[len(good)-52:]
	series, lists, table := (be64(toc[8:])+15)/16*16, (be64(toc[32:])+3)/4*4, be64(toc[40:])

	opening := func(*index.Reader) error { return nil }
	selecting := func(r *index.Reader) error {
		_, err := r.Select(context.Background())
		return err
	}
	reading := func(r *index.Reader) error {
		_, _, err := r.Series(series/16, nil, nil)
		return err
	}
	for name, c := range map[string]struct {
		at    uint64
		patch string
		use   func(*index.Reader) error
	}{
		"fewer symbols than bytes":       {9, "\x00\x00\x00\x02", opening},
		"more symbols than bytes":        {9, "\x00\x00\x00\x04", opening},
		"far more symbols than bytes":    {9, "\xff\xff\xff\xff", opening},
		"symbol longer than the table":   {17, "\x7f", opening},
		"symbols that do not ascend":     {18, "a", func(r *index.Reader) error { return r.Symbols(func(uint32, []byte) error { return nil }) }},
		"symbols that descend, a few":    {18, "a", func(r *index.Reader) error { _, _, err := r.AppendSymbols(nil, nil, 0, 100); return err }},
		"symbols that descend, the last": {18, "a", func(r *index.Reader) error { _, _, err := r.AppendSymbols(nil, nil, 2, 100); return err }},
		"fewer labels than bytes":        {series + 1, "\x00", reading},
		"more labels than bytes":         {series + 1, "\x7f", reading},
		"label that is no symbol":        {series + 3, "\x03", reading},
		"fewer chunks than bytes":        {series + 4, "\x00", reading},
		"more chunks than bytes":         {series + 4, "\x02", reading},
		"chunk that is cut off":          {series + 7, "\x88", reading},
		"labels that do not end":         {series + 1, "\x03\x80\x80\x80\x80\x80\x80", reading},
		"list of a series behind all":    {lists + 12, "\xff\xff\xff\xff", selecting},
		"list of a series before all":    {lists + 8, "\x00\x00\x00\x01", selecting},
		"list that descends":             {lists + 8, string(good[lists+12:lists+16]) + string(good[lists+8:lists+12]), selecting},
		"list of fewer series":           {lists + 4, "\x00\x00\x00\x01", selecting},
		"list of more series":            {lists + 4, "\x00\x00\x00\x03", selecting},
		"list of far more series":        {lists + 4, "\x40\x00\x00\x02", selecting},
		"fewer entries than bytes":       {table + 4, "\x00\x00\x00\x02", opening},
		"no entries":                     {table + 4, "\x00\x00\x00\x00", opening},
		"far more entries than bytes":    {table + 4, "\xff\xff\xff\xff", opening},
		"entry of three strings":         {table + 8, "\x03", opening},
		"list behind its section":        {table + 11, "\x7f", selecting},
		"list before its section":        {table + 11, "\x04", selecting},
		"value that does not ascend":     {table + 16, "c", opening},
		"name that does not ascend":      {table + 14, "b", opening},
		"name longer than the table":     {table + 13, "\x7f", opening},
		"first entry that is not of all": {table + 9, "\x01a\x00", opening},
	} {
		data := append([]byte(nil), good...)
		require.NotEqual(t, c.patch, string(data[c.at:int(c.at)+len(c.patch)]), name)
		copy(data[c.at:], c.patch)
		r, err := index.OpenReader(newSparseFS(fixChecksums(data)), "index")
		if err == nil {
			err = c.use(r)
		}
		require.Error(t, err, name)
		requireDamage(t, err)
	}
}

// A page may be read anew from a disk that goes bad after it was checked. The answers
// may be wrong then, as far as no checksum is looked at again, but nothing else happens.
func TestReader_SurvivesBytesThatChangeAfterTheyWereChecked(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, v := range blockVectors(t) {
		for range 300 {
			fsys := newSparseFS(v.raw)
			r, err := index.OpenReader(fsys, "index")
			require.NoError(t, err)
			require.NoError(t, r.Verify(context.Background(), nil)) // checks all lists
			b := fsys.file.mapped
			for range 1 + rnd.IntN(len(b)>>rnd.IntN(10)+1) {
				b[rnd.IntN(len(b))] = byte(rnd.Uint32())
			}
			ask(t, r, v)
			for range 20 {
				one, other := v.Postings[1+rnd.IntN(len(v.Postings)-1)], v.Postings[1+rnd.IntN(len(v.Postings)-1)]
				some, err := labels.NewMatcher(labels.MatchType(2+rnd.IntN(2)), other.Name, "[^z]+")
				require.NoError(t, err)
				if _, err = r.Select(context.Background(), labels.Equal(one.Name, one.Value), some); err != nil {
					requireDamage(t, err)
				}
			}
			if err := r.Verify(context.Background(), nil); err != nil {
				requireDamage(t, err)
			}
			require.NoError(t, r.Close())
		}
	}
}

func TestReader_AFileThatVanishesIsAMemoryFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to cut a file that is mapped, so that the fault cannot happen")
	}
	v := blockVectors(t)[1]
	name := writeFile(t, v.raw)
	r, err := index.OpenReader(fileutil.OS, name)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, os.Truncate(name, 0))
	ctx := context.Background()
	calls := map[string]func() error{
		"Symbol":        func() error { _, err := r.Symbol(1); return err },
		"SelectIDs":     func() error { _, err := r.SelectIDs(context.Background()); return err },
		"AppendSymbol":  func() error { _, err := r.AppendSymbol(nil, 1); return err },
		"AppendSymbols": func() error { _, _, err := r.AppendSymbols(nil, nil, 1, 1); return err },
		"Symbols":       func() error { return r.Symbols(func(uint32, []byte) error { return nil }) },
		"Series":        func() error { _, _, err := r.Series(v.Series[0].ID, nil, nil); return err },
		"SeriesLabels":  func() error { _, err := r.SeriesLabels(v.Series[0].ID, nil); return err },
		"AllSeries":     func() error { _, err := index.Expand(r.AllSeries()); return err },
		"Select":        func() error { _, err := r.Select(ctx); return err },
		"LabelValues":   func() error { _, err := r.LabelValues(ctx, v.Postings[1].Name); return err },
		"Pairs":         func() error { return r.Pairs(func(string, string, int) error { return nil }) },
		"NumSeries":     func() error { _, err := r.NumSeries(); return err },
		"Verify":        func() error { return r.Verify(ctx, nil) },
		"Sorted": func() error {
			left := 1
			ids := func() (uint64, bool) { left--; return v.Series[0].ID, left >= 0 }
			_, err := r.Sorted(ctx, ids, func(_ uint64, err error) error { return err })
			return err
		},
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), fileutil.ErrMemoryFault, name)
	}
	shape, err := r.Shape(ctx)
	require.NoError(t, err)
	require.True(t, shape.Damaged)
	require.NoError(t, r.Close())
	delete(calls, "AllSeries")
	for name, call := range calls {
		require.ErrorIs(t, call(), index.ErrClosed, name)
	}
	require.ErrorIs(t, r.AllSeries().Err(), index.ErrClosed)
	require.NoError(t, r.Close(), "a second time")
}

func TestOpenReader_ClosesTheFileWhenItFails(t *testing.T) {
	v := blockVectors(t)[0]
	boom := errors.New("boom")
	for _, op := range []string{"size", "mmap"} {
		fsys := newSparseFS(v.raw)
		fsys.file.fail = func(o string) error {
			if o == op {
				return boom
			}
			return nil
		}
		_, err := index.OpenReader(fsys, "index")
		require.ErrorIs(t, err, boom)
		require.Equal(t, 1, fsys.file.closes)
	}
	fsys := newSparseFS(v.raw[:20])
	_, err := index.OpenReader(fsys, "index")
	requireDamage(t, err)
	require.Equal(t, 1, fsys.file.closes)
	_, err = index.OpenReader(fileutil.OS, t.TempDir()+"/none")
	require.ErrorIs(t, err, os.ErrNotExist)
}
