package index

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// minBlockBytes is the smallest index there can be: all sections are empty.
const minBlockBytes = headerBytes + sectionHeadBytes + countBytes + crcBytes + tocBytes

// Reader reads the index file of a block through a memory mapping. On the heap it has
// half a byte for each symbol and an eighth of a byte for each list.
//
// All methods are safe for concurrent use, save Close, which must come after all
// others. Damage is an *encbuf.CorruptError with file and offset; it is
// fileutil.ErrMemoryFault as well where the mapped file cannot be read. Checksums of a series and of a list are
// verified when they are read.
type Reader struct {
	name    string
	mapping fileutil.Mapping // outlives the file
	b       []byte           // all of the file
	version int
	toc     toc
	symbols symbolTable
	table   offsetTable
	checked checkedLists
	closed  atomic.Bool
}

// OpenReader opens an index of version 1, 2 or 3. It verifies the table of contents,
// the symbol table and the postings offset table.
func OpenReader(fsys fileutil.FS, name string) (*Reader, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	r := &Reader{name: name}
	if err := fileutil.JoinErrors(r.open(f), f.Close()); err != nil {
		return nil, fileutil.JoinErrors(err, r.Close())
	}
	return r, nil
}

func (r *Reader) open(f fileutil.File) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size < minBlockBytes {
		return r.corrupt(0, "file is too short for an index")
	}
	if size > math.MaxInt {
		return errors.WithMessagef(ErrTooLarge, "map %s", r.name)
	}
	if r.mapping, err = f.Mmap(size); err != nil {
		return err
	}
	return r.placed(fileutil.GuardFaults(func() error {
		if r.b, err = r.mapping.At(0, int(size)); err != nil {
			return err
		}
		return r.openSections()
	}))
}

func (r *Reader) openSections() (err error) {
	if binary.BigEndian.Uint32(r.b) != blockMagic {
		return r.corrupt(0, "no magic number of an index")
	}
	if r.version = int(r.b[4]); r.version < 1 || r.version > 3 {
		return r.corrupt(4, "unknown version of the index")
	}
	tocAt := len(r.b) - tocBytes
	if r.toc, err = readTOC(r.b[tocAt:], len(r.b)); err != nil {
		return r.at(err, tocAt)
	}
	symbols, err := r.section(int(r.toc.symbols), int(r.toc.series), "symbol table")
	if err != nil {
		return err
	}
	table, err := r.section(int(r.toc.postingsTable), tocAt, "postings offset table")
	if err != nil {
		return err
	}
	base := int(r.toc.symbols) + sectionHeadBytes
	if r.symbols, err = openSymbols(symbols, base, r.version); err != nil {
		return r.at(err, base)
	}
	base = int(r.toc.postingsTable) + sectionHeadBytes
	if r.table, err = openTable(table, base, r.version); err != nil {
		return r.at(err, base)
	}
	r.checked = newCheckedLists(r.table.count)
	return nil
}

// section returns the content of a section that fills off..end:
//
//	+---------------+---------+------------+
//	| length (be32) | content | crc (be32) |
//	+---------------+---------+------------+
func (r *Reader) section(off, end int, what string) ([]byte, error) {
	content := off + sectionHeadBytes
	if end-content < countBytes+crcBytes {
		return nil, r.corrupt(off, what+" is cut off")
	}
	if uint64(binary.BigEndian.Uint32(r.b[off:])) != uint64(end-crcBytes-content) {
		return nil, r.corrupt(off, what+" has another length than its section")
	}
	b := r.b[content : end-crcBytes]
	if binary.BigEndian.Uint32(r.b[end-crcBytes:]) != encbuf.Checksum(b) {
		return nil, r.corrupt(off, "checksum of the "+what+" does not match")
	}
	return b, nil
}

func (r *Reader) corrupt(off int, reason string) error {
	return encbuf.Corrupt(off, reason).At(r.name, 0)
}

func (r *Reader) tableCorrupt() error {
	return r.corrupt(r.table.base, "entry of the postings offset table is malformed")
}

// at places damage of a section that begins at base in the file.
func (r *Reader) at(err error, base int) error {
	var damage *encbuf.CorruptError
	if errors.As(err, &damage) {
		return damage.At(r.name, int64(base))
	}
	return err
}

// Version returns the version of the format, from 1 to 3.
func (r *Reader) Version() int { return r.version }

// Size returns the size of the file in bytes.
func (r *Reader) Size() int64 { return int64(len(r.b)) }

// NumSymbols returns how many symbols there are; their numbers are below.
func (r *Reader) NumSymbols() int { return r.symbols.count }

// Symbol returns the string of a symbol, a copy.
func (r *Reader) Symbol(n uint32) (s string, err error) {
	err = r.guard(func() error {
		b, ok := r.symbols.at(n)
		if !ok {
			return r.noSymbol()
		}
		s = string(b)
		return nil
	})
	return s, err
}

// AppendSymbol appends the string of a symbol to dst.
func (r *Reader) AppendSymbol(dst []byte, n uint32) ([]byte, error) {
	all := dst
	err := r.guard(func() error {
		b, ok := r.symbols.at(n)
		if !ok {
			return r.noSymbol()
		}
		all = append(dst, b...)
		return nil
	})
	if err != nil {
		return dst, err
	}
	return all, nil
}

func (r *Reader) noSymbol() error {
	return r.corrupt(int(r.toc.symbols), "no such symbol")
}

// Symbols calls fn for each symbol in order, which is that of the strings by bytes. s
// aliases the file and is valid during the call.
func (r *Reader) Symbols(fn func(n uint32, s []byte) error) error {
	return r.guard(func() error {
		var prev []byte
		off := 0
		for n := range r.symbols.count {
			s, next := cutString(r.symbols.text, off)
			if next < 0 || n > 0 && string(prev) >= string(s) {
				return r.corrupt(r.symbols.base+off, "symbols do not ascend")
			}
			if err := fn(uint32(n), s); err != nil {
				return err
			}
			prev, off = s, next
		}
		return nil
	})
}

// Close gives the mapping up. No other method may run, or be called later.
func (r *Reader) Close() error {
	if r.closed.Swap(true) || r.mapping == nil {
		return nil
	}
	return r.mapping.Close()
}
