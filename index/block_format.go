package index

import (
	"math"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// The file index of a block, docs/format/index.md:
//
//	+--------------------+ 0
//	| magic, version     |
//	+--------------------+ toc.symbols = 5
//	| symbol table       |
//	+--------------------+ toc.series
//	| series entries     | each at a multiple of 16
//	+--------------------+ toc.postings (and toc.labelIndices: empty)
//	| postings lists     | each at a multiple of 4
//	+--------------------+ toc.postingsTable (and toc.labelIndicesTable: empty)
//	| postings offsets   |
//	+--------------------+ size - 52
//	| table of contents  |
//	+--------------------+
const (
	blockMagic       = 0xBAAAD700
	blockVersion     = 2 // what is written; 1 and 3 are read, too
	headerBytes      = 5
	tocBytes         = 52
	crcBytes         = 4
	sectionHeadBytes = 4 // length of a section or list
	countBytes       = 4 // number of what is in it

	seriesAlign = 16 // of series entries since version 2: their id is offset / 16
	listAlign   = 4  // of postings lists
	idBytes     = 4  // of a series id in a list

	// tableStrings is the number of strings of each entry of the postings offset table.
	tableStrings = 2
)

// SymbolPair is one label of a series: the numbers of its name and its value in the
// symbol table of the block. Numbers ascend as the strings do, by bytes.
type SymbolPair struct {
	Name, Value uint32
}

// ChunkMeta is one chunk of a series: the times of its first and its last sample
// (closed, milliseconds) and its place.
type ChunkMeta struct {
	MinT, MaxT int64
	Ref        chunks.BlockRef
}

// toc are the absolute offsets of the parts of an index.
type toc struct {
	symbols, series, labelIndices, labelIndicesTable, postings, postingsTable uint64
}

func (t *toc) appendTo(dst []byte) []byte {
	begin := len(dst)
	for _, off := range []uint64{t.symbols, t.series, t.labelIndices, t.labelIndicesTable, t.postings, t.postingsTable} {
		dst = encbuf.AppendBE64(dst, off)
	}
	return encbuf.AppendBE32(dst, encbuf.Checksum(dst[begin:]))
}

// readTOC reads the last bytes of a file of size bytes. The offsets are in order and
// inside of the file if there is no error.
func readTOC(b []byte, size int) (toc, error) {
	d := encbuf.NewDec(b)
	t := toc{d.BE64(), d.BE64(), d.BE64(), d.BE64(), d.BE64(), d.BE64()}
	crc := d.BE32()
	switch {
	case d.Err() != nil:
	case crc != encbuf.Checksum(b[:tocBytes-crcBytes]):
		d.FailAt(0, "checksum of the table of contents does not match")
	case t.symbols < headerBytes || t.series < t.symbols || t.postings < t.series ||
		t.postingsTable < t.postings || t.postingsTable > uint64(size-tocBytes):
		d.FailAt(0, "sections of the table of contents are out of order")
	}
	return t, d.Err()
}

// seriesEnd is where series entries end: other sections may lie before the postings.
func (t *toc) seriesEnd() uint64 {
	if t.labelIndices >= t.series && t.labelIndices < t.postings {
		return t.labelIndices
	}
	return t.postings
}

// limits is what the fields of the format hold. Tests have smaller ones.
type limits struct {
	section uint64 // bytes of the symbol table and of the postings offset table: be32
	list    uint64 // series of one list: its length is a be32 too
	file    uint64 // bytes: ids are offsets / 16 in a be32
}

var formatLimits = limits{
	section: math.MaxUint32,
	list:    (math.MaxUint32 - countBytes) / idBytes,
	file:    seriesAlign * math.MaxUint32,
}

// alignUp returns the first multiple of n that is not below off.
func alignUp[T int | int64 | uint64](off, n T) T { return (off + n - 1) / n * n }
