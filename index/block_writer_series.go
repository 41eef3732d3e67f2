package index

import (
	"encoding/binary"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// AddSeries adds a series with its chunks, of which there is at least one, and returns
// its id. Neither slice is kept.
//
// Label sets ascend strictly from call to call, names inside of a set ascend, no value
// is empty. Chunks do not overlap, and their refs ascend over all series. Whatever else
// is ErrInvalid and changes nothing.
func (w *Writer) AddSeries(ls []SymbolPair, cs []ChunkMeta) (id uint32, err error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	if reason := w.breaks(ls, cs); reason != "" {
		return 0, errors.WithMessagef(ErrInvalid, "series %d: %s", w.series, reason)
	}
	w.body = appendSeries(w.body[:0], ls, cs)
	at := alignUp(w.out.pos(), seriesAlign)
	if err := w.checkRoom(at); err != nil {
		return 0, err
	}
	w.out.align(seriesAlign)
	w.out.buf = encbuf.AppendUvarint(w.out.buf, uint64(len(w.body)))
	w.out.buf = append(w.out.buf, w.body...)
	w.out.buf = encbuf.AppendBE32(w.out.buf, encbuf.Checksum(w.body))
	w.count(ls)
	w.order.accept(ls, cs)
	return uint32(at / seriesAlign), w.out.flushFull()
}

// breaks returns why a series cannot be the next one, nothing if it can.
func (w *Writer) breaks(ls []SymbolPair, cs []ChunkMeta) string {
	symbols := uint64(len(w.symbols.offs))
	for _, l := range ls {
		if uint64(l.Name) >= symbols || uint64(l.Value) >= symbols {
			return "a label is no symbol"
		}
	}
	if len(cs) == 0 {
		return "no chunks"
	}
	return w.order.breaks(ls, cs)
}

// checkRoom tells whether the entry in body may stand at an offset.
func (w *Writer) checkRoom(at int64) error {
	switch {
	case uint64(len(w.body)) > math.MaxUint32:
		return errors.WithMessage(ErrTooLarge, "series entry")
	case uint64(at)+uint64(len(w.body))+maxLengthBytes+crcBytes > w.limits.file:
		return errors.WithMessage(ErrTooLarge, "series section")
	case w.series >= w.limits.list:
		return errors.WithMessage(ErrTooLarge, "list of all series")
	}
	return nil
}

// count adds a series to the numbers of its lists.
func (w *Writer) count(ls []SymbolPair) {
	w.series++
	for _, l := range ls {
		num := w.pairs.intern(l)
		if int(num) == len(w.counts) {
			w.counts = append(w.counts, 0)
		}
		w.counts[num]++
	}
}

// appendSeries appends the body of a series entry:
//
//	+------------+----------------------+------------+-------------------------------+
//	| labels     | name symbol,         | chunks     | mint, maxt - mint, ref        |
//	| (uvarint)  | value symbol         | (uvarint)  | varint, uvarint, uvarint      |
//	|            | (uvarint), repeated  |            +-------------------------------+
//	|            |                      |            | mint - maxt before, uvarint   |
//	|            |                      |            | maxt - mint, uvarint          |
//	|            |                      |            | ref - ref before, varint      |
//	+------------+----------------------+------------+-------------------------------+
func appendSeries(b []byte, ls []SymbolPair, cs []ChunkMeta) []byte {
	b = appendShort(b, uint64(len(ls)))
	for _, l := range ls {
		b = appendShort(b, uint64(l.Name))
		b = appendShort(b, uint64(l.Value))
	}
	b = appendShort(b, uint64(len(cs)))
	for i, c := range cs {
		if i == 0 {
			b = appendShort(b, encbuf.Zigzag(c.MinT))
			b = appendShort(b, uint64(c.MaxT-c.MinT))
			b = appendShort(b, uint64(c.Ref))
			continue
		}
		b = appendShort(b, uint64(c.MinT-cs[i-1].MaxT))
		b = appendShort(b, uint64(c.MaxT-c.MinT))
		b = appendShort(b, encbuf.Zigzag(int64(c.Ref-cs[i-1].Ref)))
	}
	return b
}

// appendShort is encbuf.AppendUvarint, inlined: a series has many numbers.
func appendShort(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}
