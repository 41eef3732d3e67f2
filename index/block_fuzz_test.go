package index_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

// fixChecksums makes the checksums right of whatever can be found in an index, so that
// damage gets past them. It changes data.
func fixChecksums(data []byte) []byte {
	n := len(data)
	if n < 57 {
		return data
	}
	toc := data[n-52:]
	binary.BigEndian.PutUint32(toc[48:], encbuf.Checksum(toc[:48]))
	at := func(i int) uint64 { return binary.BigEndian.Uint64(toc[8*i:]) }
	fixSection(data, at(0))
	fixTable(data, at(5))
	end := min(at(4), uint64(n-52))
	for off := at(1); off < end; {
		if data[off] == 0 {
			off++
			continue
		}
		length, m := binary.Uvarint(data[off:end])
		begin := off + uint64(max(m, 0))
		if m <= 0 || length > end-begin || end-begin-length < 4 {
			return data
		}
		binary.BigEndian.PutUint32(data[begin+length:], encbuf.Checksum(data[begin:begin+length]))
		off = begin + length + 4
	}
	return data
}

// fixSection makes the checksum of the section at off right and returns its content.
func fixSection(data []byte, off uint64) []byte {
	n := uint64(len(data))
	if off > n || n-off < 8 {
		return nil
	}
	length := uint64(binary.BigEndian.Uint32(data[off:]))
	if length > n-off-8 {
		return nil
	}
	content := data[off+4 : off+4+length]
	binary.BigEndian.PutUint32(data[off+4+length:], encbuf.Checksum(content))
	return content
}

// fixTable fixes the postings offset table and the lists that it points to.
func fixTable(data []byte, off uint64) {
	content := fixSection(data, off)
	d := encbuf.NewDec(content)
	for range min(d.BE32(), 10_000) {
		d.Byte()
		d.Str()
		d.Str()
		list := d.Uvarint()
		if d.Err() != nil {
			return
		}
		fixSection(data, list)
	}
	fixSection(data, off) // a list may have been in it
}

// useAll asks an index, which may hold anything, all that can be asked, and a good one
// whether it says the same once it is written again.
func useAll(t testing.TB, data []byte) {
	r, err := index.OpenReader(newSparseFS(data), "index")
	if err != nil {
		requireDamage(t, err)
		return
	}
	defer r.Close()
	ctx := context.Background()
	var v blockVector
	check := func(err error) {
		if err != nil {
			requireDamage(t, err)
		}
	}
	check(r.Pairs(func(name, value string, _ int) error {
		if len(v.Postings) < 100 {
			v.Postings = append(v.Postings, vectorList{Name: name, Value: value})
		}
		return nil
	}))
	for p := r.AllSeries(); p.Next() && len(v.Series) < 100; {
		v.Series = append(v.Series, vectorSeries{ID: p.At()})
	}
	for _, ids := range []uint64{0, 1, 1 << 32, 1 << 60, 1<<64 - 1} {
		_, _, err := r.Series(ids, nil, nil)
		check(err)
	}
	before := ask(t, r, v)
	re, err := labels.Regexp("__name__", ".*[a-m]")
	require.NoError(t, err)
	_, err = r.Select(ctx, re)
	check(err)
	var lists answers
	if check(r.Verify(ctx, nil)); r.Verify(ctx, nil) == nil && r.Version() != 1 {
		lists = before
	}
	if lists == nil {
		return
	}
	again := rewrite(t, r)
	if again == nil {
		return
	}
	second, err := index.OpenReader(newSparseFS(again), "index")
	require.NoError(t, err)
	require.NoError(t, second.Verify(ctx, nil))
	after := ask(t, second, v)
	for _, question := range []string{"symbols", "names"} {
		require.Equal(t, lists[question], after[question])
	}
	require.Equal(t, len(lists), len(after))
}

// rewrite writes what a good index holds once more. Nothing comes back if it has series
// without chunks, which nobody writes.
func rewrite(t testing.TB, r *index.Reader) []byte {
	fsys := newSparseFS(nil)
	w, err := index.NewWriter(fsys, "index", index.WriterOptions{PostingsBytes: 64})
	require.NoError(t, err)
	require.NoError(t, r.Symbols(func(_ uint32, s []byte) error { return w.AddSymbol(string(s)) }))
	empty := false
	require.NoError(t, r.Verify(context.Background(), func(_ uint64, ls []index.SymbolPair, cs []index.ChunkMeta) error {
		if len(cs) == 0 {
			empty = true
			return nil
		}
		_, err := w.AddSeries(ls, cs)
		return err
	}))
	if empty {
		return nil
	}
	require.NoError(t, w.Finish())
	return fsys.file.bytes()
}

func FuzzReader(f *testing.F) {
	for _, v := range blockVectors(f) {
		if len(v.raw) < 1000 {
			f.Add(v.raw)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		useAll(t, append([]byte(nil), data...))
		useAll(t, fixChecksums(data))
	})
}

var _ fileutil.File = (*sparseFile)(nil)
