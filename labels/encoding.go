package labels

import (
	"encoding/binary"

	"github.com/pkg/errors"
)

// AppendEncoded appends the encoded set to dst: for each label the length of the
// name as uvarint, the name, the length of the value, the value. These are the
// bytes that a series record of the WAL has after its number of labels.
func (ls Labels) AppendEncoded(dst []byte) []byte { return append(dst, ls.data...) }

// FromEncoded makes a set of all of b, which AppendEncoded or a foreign encoder
// wrote; b is copied. Labels out of order are sorted and empty values are dropped,
// because other writers may leave both. An error is ErrEncoding.
func FromEncoded(b []byte) (Labels, error) {
	if isOrdinary(b) {
		return Labels{string(b)}, nil
	}
	canonical := true
	prev := []byte(nil)
	for off := 0; off < len(b); {
		name, mid, shortName := cutBytes(b, off)
		if mid < 0 {
			return Labels{}, errors.WithMessagef(ErrEncoding, "name at offset %d is cut off", off)
		}
		value, end, shortValue := cutBytes(b, mid)
		if end < 0 {
			return Labels{}, errors.WithMessagef(ErrEncoding, "value at offset %d is cut off", mid)
		}
		if !shortName || !shortValue || len(value) == 0 || string(name) < string(prev) {
			canonical = false
		}
		prev, off = name, end
	}
	if canonical {
		return Labels{string(b)}, nil
	}
	return fromForeign(b), nil
}

// isOrdinary says whether b is as AppendEncoded writes it, and all lengths are of one byte:
// the usual case, which is told in half the time (BenchmarkFromEncoded).
func isOrdinary(b []byte) bool {
	prev := []byte(nil)
	for off := 0; off < len(b); {
		end := off + 1 + int(b[off])
		if b[off] >= 0x80 || end >= len(b) {
			return false
		}
		name := b[off+1 : end]
		if string(name) < string(prev) {
			return false
		}
		n := b[end]
		if off = end + 1 + int(n); n == 0 || n >= 0x80 || off > len(b) {
			return false
		}
		prev = name
	}
	return true
}

// fromForeign normalises bytes that FromEncoded has found whole.
func fromForeign(b []byte) Labels {
	var ls []Label
	for off := 0; off < len(b); {
		name, mid, _ := cutBytes(b, off)
		value, end, _ := cutBytes(b, mid)
		ls = append(ls, Label{string(name), string(value)})
		off = end
	}
	return New(ls...)
}

// cutBytes returns the bytes whose length stands at off, the offset after them (-1
// if they do not fit), and whether the length is in its shortest form.
func cutBytes(b []byte, off int) (s []byte, next int, shortest bool) {
	length, n := binary.Uvarint(b[off:])
	if n <= 0 || length > uint64(len(b)-off-n) {
		return nil, -1, false
	}
	start := off + n
	next = start + int(length)
	return b[start:next], next, n == 1 || b[start-1] != 0
}
