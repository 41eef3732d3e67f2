package index

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Bytes that one of them takes at least.
const (
	minLabelBytes = 2
	minChunkBytes = 3
)

// seriesSection are the series entries of a block: labels, and where the chunks are.
type seriesSection struct {
	file       *blockFile
	symbols    *symbolTable
	version    int
	first, end uint64 // offsets in the file
}

// holds tells whether a series entry may begin at the place of an id.
func (s *seriesSection) holds(id uint64) bool {
	off, ok := s.offset(id)
	return ok && off >= s.first && off < s.end
}

// offset returns the place of an id.
func (s *seriesSection) offset(id uint64) (off uint64, ok bool) {
	if s.version == 1 {
		return id, true
	}
	return id * seriesAlign, id <= math.MaxUint32
}

// entry returns the offset and the content of the body of a series entry.
func (s *seriesSection) entry(id uint64) (off int, body []byte, err error) {
	if !s.holds(id) {
		return 0, nil, s.file.corrupt(int(s.first), "series lies outside of its section")
	}
	at, _ := s.offset(id)
	body, _, err = s.entryAt(int(at))
	return int(at), body, err
}

// entryAt returns the body of the entry at off, which is in the series section, and
// the offset behind the entry.
func (s *seriesSection) entryAt(off int) (body []byte, end int, err error) {
	b := s.file.b[off:s.end]
	length, n := uvarint(b, 0)
	if n < 0 || n > maxLengthBytes || length > uint64(len(b)-n) || len(b)-n-int(length) < crcBytes {
		return nil, 0, s.file.corrupt(off, "series entry is longer than its section")
	}
	end = n + int(length)
	body = b[n:end:end]
	if binary.BigEndian.Uint32(b[end:]) != encbuf.Checksum(body) {
		return nil, 0, s.file.corrupt(off, "checksum of the series entry does not match")
	}
	return body, off + end + crcBytes, nil
}

// idAt returns the id of an entry.
func (s *seriesSection) idAt(off int) (uint64, error) {
	if s.version == 1 {
		return uint64(off), nil
	}
	if off%seriesAlign != 0 {
		return 0, s.file.corrupt(off, "series entry is not aligned, or padding is not zero")
	}
	return uint64(off / seriesAlign), nil
}

// decode appends what a body holds; off is for errors.
func (s *seriesSection) decode(off int, body []byte, ls []SymbolPair, cs []ChunkMeta) ([]SymbolPair, []ChunkMeta, error) {
	ls, at, err := s.decodeLabels(off, body, ls)
	if err != nil {
		return nil, nil, err
	}
	cs, err = s.decodeChunks(off, body, at, cs)
	return ls, cs, err
}

// decodeLabels appends the labels that a body begins with, and returns the offset behind them.
func (s *seriesSection) decodeLabels(off int, body []byte, ls []SymbolPair) (_ []SymbolPair, at int, err error) {
	n, at := uvarint(body, 0)
	if at < 0 || n > uint64((len(body)-at)/minLabelBytes) {
		return nil, 0, s.file.corrupt(off, "number of labels exceeds the series entry")
	}
	ls = slices.Grow(ls, int(n))
	for range n {
		var name, value uint64
		name, at = uvarint(body, at)
		value, at = uvarint(body, at)
		l, ok := s.symbolPair(name, value)
		if at < 0 || !ok {
			return nil, 0, s.file.corrupt(off, "label of the series entry is no symbol")
		}
		ls = append(ls, l)
	}
	return ls, at, nil
}

// decodeChunks appends the chunks of a body, from an offset on.
func (s *seriesSection) decodeChunks(off int, body []byte, at int, cs []ChunkMeta) ([]ChunkMeta, error) {
	n, at := uvarint(body, at)
	if at < 0 || n > uint64((len(body)-at)/minChunkBytes) {
		return nil, s.file.corrupt(off, "number of chunks exceeds the series entry")
	}
	cs = slices.Grow(cs, int(n))
	var c ChunkMeta
	for i := range n {
		var mint, span, ref uint64
		mint, at = uvarint(body, at)
		span, at = uvarint(body, at)
		ref, at = uvarint(body, at)
		if i == 0 {
			c.MinT, c.Ref = zigzag(mint), chunks.BlockRef(ref)
		} else {
			c.MinT, c.Ref = c.MaxT+int64(mint), c.Ref+chunks.BlockRef(zigzag(ref))
		}
		c.MaxT = c.MinT + int64(span)
		cs = append(cs, c)
	}
	if at != len(body) {
		return nil, s.file.corrupt(off, "series entry has another length than its labels and chunks")
	}
	return cs, nil
}

// symbolPair makes numbers of the symbols of a label: version 1 has their places.
func (s *seriesSection) symbolPair(name, value uint64) (SymbolPair, bool) {
	if s.version == 1 {
		n, ok := s.symbols.number(name)
		v, ok2 := s.symbols.number(value)
		return SymbolPair{n, v}, ok && ok2
	}
	count := uint64(s.symbols.count)
	return SymbolPair{uint32(name), uint32(value)}, name < count && value < count
}

// uvarint returns the number at off and the offset behind it, -1 if there is none. It
// takes an offset of -1, too. Numbers of two bytes, as most symbols are, and of three, as
// lengths of chunks are, come before all longer ones (BenchmarkReader_Series).
func uvarint(b []byte, off int) (v uint64, next int) {
	if uint(off) >= uint(len(b)) {
		return 0, -1
	}
	b = b[off:]
	if b[0] < 0x80 {
		return uint64(b[0]), off + 1
	}
	if len(b) > 2 {
		switch {
		case b[1] < 0x80:
			return uint64(b[0]&0x7f) | uint64(b[1])<<7, off + 2
		case b[2] < 0x80:
			return uint64(b[0]&0x7f) | uint64(b[1]&0x7f)<<7 | uint64(b[2])<<14, off + 3
		}
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, -1
	}
	return v, off + n
}

func zigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
