package index

import (
	"encoding/binary"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// minBlockBytes is the smallest index there can be: all sections are empty.
const minBlockBytes = headerBytes + sectionHeadBytes + countBytes + crcBytes + tocBytes

// Reader reads the index file of a block through a memory mapping. On the heap it has
// half a byte for each symbol and an eighth of a byte for each list.
//
// All methods are safe for concurrent use, save Close, which must come after all others. Damage is
// an *encbuf.CorruptError with file and offset; it is fileutil.ErrMemoryFault as well where the
// mapped file cannot be read. Checksums of a series and of a list are verified when they are read.
type Reader struct {
	file    blockFile
	version int
	toc     toc
	symbols symbolTable
	series  seriesSection
	table   offsetTable
	lists   blockLists
}

// OpenReader opens an index of version 1, 2 or 3. It verifies the table of contents,
// the symbol table and the postings offset table.
func OpenReader(fsys fileutil.FS, name string) (*Reader, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: blockFile{name: name}}
	if err := fileutil.JoinErrors(r.open(f), f.Close()); err != nil {
		return nil, fileutil.JoinErrors(err, r.Close())
	}
	return r, nil
}

func (r *Reader) open(f fileutil.File) error {
	if err := r.file.mapAll(f); err != nil {
		return err
	}
	return r.file.guard(r.openSections)
}

func (r *Reader) openSections() (err error) {
	f := &r.file
	if binary.BigEndian.Uint32(f.b) != blockMagic {
		return f.corrupt(0, "no magic number of an index")
	}
	if r.version = int(f.b[4]); r.version < 1 || r.version > 3 {
		return f.corrupt(4, "unknown version of the index")
	}
	tocAt := len(f.b) - tocBytes
	if r.toc, err = readTOC(f.b[tocAt:], len(f.b)); err != nil {
		return f.at(err, tocAt)
	}
	symbols, err := f.section(int(r.toc.symbols), int(r.toc.series), "symbol table")
	if err != nil {
		return err
	}
	table, err := f.section(int(r.toc.postingsTable), tocAt, "postings offset table")
	if err != nil {
		return err
	}
	base := int(r.toc.symbols) + sectionHeadBytes
	if r.symbols, err = openSymbols(symbols, base, r.version); err != nil {
		return f.at(err, base)
	}
	base = int(r.toc.postingsTable) + sectionHeadBytes
	if r.table, err = openTable(table, base, r.version); err != nil {
		return f.at(err, base)
	}
	r.symbols.file, r.table.file = f, f
	r.series = seriesSection{file: f, symbols: &r.symbols, version: r.version, first: r.toc.series, end: r.toc.seriesEnd()}
	r.lists = blockLists{file: f, table: &r.table, series: &r.series,
		first: r.toc.postings, end: r.toc.postingsTable, checked: newCheckedLists(r.table.count)}
	return nil
}

// Version returns the version of the format, from 1 to 3.
func (r *Reader) Version() int { return r.version }

// Size returns the size of the file in bytes.
func (r *Reader) Size() int64 { return int64(len(r.file.b)) }

// NumSymbols returns how many symbols there are; their numbers are below.
func (r *Reader) NumSymbols() int { return r.symbols.count }

// Symbol returns the string of a symbol, a copy.
func (r *Reader) Symbol(n uint32) (s string, err error) {
	err = r.file.guard(func() error {
		b, ok := r.symbols.at(n)
		if !ok {
			return r.symbols.noSymbol()
		}
		s = string(b)
		return nil
	})
	return s, err
}

// AppendSymbol appends the string of a symbol to dst.
func (r *Reader) AppendSymbol(dst []byte, n uint32) ([]byte, error) {
	all := dst
	err := r.file.guard(func() error {
		b, ok := r.symbols.at(n)
		if !ok {
			return r.symbols.noSymbol()
		}
		all = append(dst, b...)
		return nil
	})
	if err != nil {
		return dst, err
	}
	return all, nil
}

// Symbols calls fn for each symbol in order, which is that of the strings by bytes. s
// aliases the file and is valid during the call.
func (r *Reader) Symbols(fn func(n uint32, s []byte) error) error {
	return r.file.guard(func() error {
		var prev []byte
		off := 0
		for n := range r.symbols.count {
			s, next := cutString(r.symbols.text, off)
			if next < 0 || n > 0 && string(prev) >= string(s) {
				return r.file.corrupt(r.symbols.base+off, "symbols do not ascend")
			}
			if err := fn(uint32(n), s); err != nil {
				return err
			}
			prev, off = s, next
		}
		return nil
	})
}

// AppendSymbols appends the strings of the symbols from number first on to dst, and where each of
// them ends there to ends: as many as there is room for in dst's first most bytes, and one in any
// case. Nothing is appended behind the last symbol.
func (r *Reader) AppendSymbols(dst []byte, ends []int, first uint32, most int) ([]byte, []int, error) {
	err := r.file.guard(func() error {
		t := &r.symbols
		var prev []byte
		off := 0
		if first > 0 && int(first) < t.count {
			prev, off = cutString(t.text, t.place(first-1))
		}
		for n := int(first); n < t.count; n++ {
			s, next := cutString(t.text, off)
			if next < 0 || n > 0 && string(prev) >= string(s) {
				return r.file.corrupt(t.base+off, "symbols do not ascend")
			}
			if n > int(first) && len(dst)+len(s) > most {
				return nil
			}
			dst = append(dst, s...)
			ends = append(ends, len(dst))
			prev, off = s, next
		}
		return nil
	})
	return dst, ends, err
}

// Series appends the labels and chunks of a series to the given slices. id is from a
// list of this reader. The order is that of the file; only Verify makes sure that it is
// as it should be.
func (r *Reader) Series(id uint64, ls []SymbolPair, cs []ChunkMeta) ([]SymbolPair, []ChunkMeta, error) {
	moreLabels, moreChunks := ls, cs
	err := r.file.guard(func() error {
		off, body, err := r.series.entry(id)
		if err != nil {
			return err
		}
		moreLabels, moreChunks, err = r.series.decode(off, body, ls, cs)
		return err
	})
	if err != nil {
		return ls, cs, err
	}
	return moreLabels, moreChunks, nil
}

// SeriesLabels is Series for the labels alone.
func (r *Reader) SeriesLabels(id uint64, ls []SymbolPair) ([]SymbolPair, error) {
	more := ls
	err := r.file.guard(func() error {
		off, body, err := r.series.entry(id)
		if err == nil {
			more, _, err = r.series.decodeLabels(off, body, ls)
		}
		return err
	})
	if err != nil {
		return ls, err
	}
	return more, nil
}

// AppendLabels appends the names and values of ls to dst, encoded as package labels does it:
// labels.FromEncoded makes a set of them.
func (r *Reader) AppendLabels(dst []byte, ls []SymbolPair) ([]byte, error) {
	all := dst
	err := r.file.guard(func() error {
		for _, l := range ls {
			name, ok := r.symbols.encoded(l.Name)
			value, ok2 := r.symbols.encoded(l.Value)
			if !ok || !ok2 {
				return r.symbols.noSymbol()
			}
			all = append(append(all, name...), value...)
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	return all, nil
}

// Close gives the mapping up. No other method may run, or be called later.
func (r *Reader) Close() error { return r.file.close() }
