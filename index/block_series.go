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

// Series appends the labels and chunks of a series to the given slices. id is from a
// list of this reader. The order is that of the file; only Verify makes sure that it is
// as it should be.
func (r *Reader) Series(id uint64, ls []SymbolPair, cs []ChunkMeta) ([]SymbolPair, []ChunkMeta, error) {
	moreLabels, moreChunks := ls, cs
	err := r.guard(func() error {
		off, body, err := r.entry(id)
		if err != nil {
			return err
		}
		moreLabels, moreChunks, err = r.decodeSeries(off, body, ls, cs)
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
	err := r.guard(func() error {
		off, body, err := r.entry(id)
		if err == nil {
			more, _, err = r.decodeLabels(off, body, ls)
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
	err := r.guard(func() error {
		for _, l := range ls {
			name, ok := r.symbols.encoded(l.Name)
			value, ok2 := r.symbols.encoded(l.Value)
			if !ok || !ok2 {
				return r.noSymbol()
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

// holds tells whether a series entry may begin at the place of an id.
func (r *Reader) holds(id uint64) bool {
	off, ok := r.offset(id)
	return ok && off >= r.toc.series && off < r.toc.seriesEnd()
}

// offset returns the place of an id.
func (r *Reader) offset(id uint64) (off uint64, ok bool) {
	if r.version == 1 {
		return id, true
	}
	return id * seriesAlign, id <= math.MaxUint32
}

// entry returns the offset and the content of the body of a series entry.
func (r *Reader) entry(id uint64) (off int, body []byte, err error) {
	if !r.holds(id) {
		return 0, nil, r.corrupt(int(r.toc.series), "series lies outside of its section")
	}
	at, _ := r.offset(id)
	body, _, err = r.entryAt(int(at))
	return int(at), body, err
}

// entryAt returns the body of the entry at off, which is in the series section, and
// the offset behind the entry.
func (r *Reader) entryAt(off int) (body []byte, end int, err error) {
	b := r.b[off:r.toc.seriesEnd()]
	length, n := uvarint(b, 0)
	if n < 0 || n > maxLengthBytes || length > uint64(len(b)-n) || len(b)-n-int(length) < crcBytes {
		return nil, 0, r.corrupt(off, "series entry is longer than its section")
	}
	end = n + int(length)
	body = b[n:end:end]
	if binary.BigEndian.Uint32(b[end:]) != encbuf.Checksum(body) {
		return nil, 0, r.corrupt(off, "checksum of the series entry does not match")
	}
	return body, off + end + crcBytes, nil
}

// decodeSeries appends what a body holds; off is for errors.
func (r *Reader) decodeSeries(off int, body []byte, ls []SymbolPair, cs []ChunkMeta) ([]SymbolPair, []ChunkMeta, error) {
	ls, at, err := r.decodeLabels(off, body, ls)
	if err != nil {
		return nil, nil, err
	}
	cs, err = r.decodeChunks(off, body, at, cs)
	return ls, cs, err
}

// decodeLabels appends the labels that a body begins with, and returns the offset behind them.
func (r *Reader) decodeLabels(off int, body []byte, ls []SymbolPair) (_ []SymbolPair, at int, err error) {
	n, at := uvarint(body, 0)
	if at < 0 || n > uint64((len(body)-at)/minLabelBytes) {
		return nil, 0, r.corrupt(off, "number of labels exceeds the series entry")
	}
	ls = slices.Grow(ls, int(n))
	for range n {
		var name, value uint64
		name, at = uvarint(body, at)
		value, at = uvarint(body, at)
		l, ok := r.symbolPair(name, value)
		if at < 0 || !ok {
			return nil, 0, r.corrupt(off, "label of the series entry is no symbol")
		}
		ls = append(ls, l)
	}
	return ls, at, nil
}

// decodeChunks appends the chunks of a body, from an offset on.
func (r *Reader) decodeChunks(off int, body []byte, at int, cs []ChunkMeta) ([]ChunkMeta, error) {
	n, at := uvarint(body, at)
	if at < 0 || n > uint64((len(body)-at)/minChunkBytes) {
		return nil, r.corrupt(off, "number of chunks exceeds the series entry")
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
		return nil, r.corrupt(off, "series entry has another length than its labels and chunks")
	}
	return cs, nil
}

// symbolPair makes numbers of the symbols of a label: version 1 has their places.
func (r *Reader) symbolPair(name, value uint64) (SymbolPair, bool) {
	if r.version == 1 {
		n, ok := r.symbols.number(name)
		v, ok2 := r.symbols.number(value)
		return SymbolPair{n, v}, ok && ok2
	}
	count := uint64(r.symbols.count)
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
