package index_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
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

// tried tells which bits are flipped: all of them in small files, one of 64 in others.
func tried(v blockVector, i, bit int) bool {
	if len(v.raw) > 4000 {
		return i%8 == 0 && bit == i/8%8
	}
	return !testing.Short() || bit == i%8
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

func TestReader_AFileThatVanishesIsAMemoryFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut here")
	}
	v := blockVectors(t)[1]
	name := writeFile(t, v.raw)
	r, err := index.OpenReader(fileutil.OS, name)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, os.Truncate(name, 0))
	ctx := context.Background()
	calls := map[string]func() error{
		"Symbol":      func() error { _, err := r.Symbol(1); return err },
		"Symbols":     func() error { return r.Symbols(func(uint32, []byte) error { return nil }) },
		"Series":      func() error { _, _, err := r.Series(v.Series[0].ID, nil, nil); return err },
		"AllSeries":   func() error { _, err := index.Expand(r.AllSeries()); return err },
		"Select":      func() error { _, err := r.Select(ctx); return err },
		"LabelValues": func() error { _, err := r.LabelValues(ctx, v.Postings[1].Name); return err },
		"Pairs":       func() error { return r.Pairs(func(string, string, int) error { return nil }) },
		"NumSeries":   func() error { _, err := r.NumSeries(); return err },
		"Verify":      func() error { return r.Verify(ctx, nil) },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), fileutil.ErrMemoryFault, name)
	}
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
