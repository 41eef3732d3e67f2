package labels

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/pkg/errors"
)

// encode copies sorted labels into one string, in one allocation (BenchmarkNew: with a
// strings.Builder a third longer).
func encode(ls []Label) Labels {
	n := 0
	for i := range ls {
		n += encodedLen(ls[i].Name) + encodedLen(ls[i].Value)
	}
	b := appendLabels(make([]byte, 0, n), ls)
	return Labels{unsafe.String(unsafe.SliceData(b), len(b))} // nobody else has b
}

// encodedLen is what a string takes with its length before it.
func encodedLen(s string) int { return (bits.Len64(uint64(len(s))|1)+6)/7 + len(s) }

func appendLabels(dst []byte, ls []Label) []byte {
	for i := range ls {
		dst = binary.AppendUvarint(dst, uint64(len(ls[i].Name)))
		dst = append(dst, ls[i].Name...)
		dst = binary.AppendUvarint(dst, uint64(len(ls[i].Value)))
		dst = append(dst, ls[i].Value...)
	}
	return dst
}

// FromEncoded makes a set of all of b, which AppendEncoded or a foreign encoder
// wrote; b is copied. Labels out of order are sorted and empty values are dropped,
// because other writers may leave both. An error is ErrEncoding.
func FromEncoded(b []byte) (Labels, error) {
	ls, asWritten, err := normalise(b)
	if asWritten {
		ls.data = string(b)
	}
	return ls, err
}

// UnsafeFromEncoded is FromEncoded without the copy: the set and the strings taken out of it lie in
// b, unless that is in another form than AppendEncoded writes. Nobody may use any of them when b
// has changed; strings that change break maps and comparisons. It is for who looks at many sets and
// keeps none, as recovery does (BenchmarkFromEncoded/unsafe). An error is ErrEncoding.
func UnsafeFromEncoded(b []byte) (Labels, error) {
	ls, asWritten, err := normalise(b)
	if asWritten {
		ls.data = unsafe.String(unsafe.SliceData(b), len(b))
	}
	return ls, err
}

// normalise says whether b is as AppendEncoded writes it, and makes a set of what is in another
// form. An error is ErrEncoding.
func normalise(b []byte) (foreign Labels, asWritten bool, err error) {
	if isOrdinary(b) {
		return Labels{}, true, nil
	}
	asWritten = true
	prev := []byte(nil)
	for off := 0; off < len(b); {
		name, mid, shortName := cutBytes(b, off)
		if mid < 0 {
			return Labels{}, false, errors.WithMessagef(ErrEncoding, "name at offset %d is cut off", off)
		}
		value, end, shortValue := cutBytes(b, mid)
		if end < 0 {
			return Labels{}, false, errors.WithMessagef(ErrEncoding, "value at offset %d is cut off", mid)
		}
		if !shortName || !shortValue || len(value) == 0 || string(name) < string(prev) {
			asWritten = false
		}
		prev, off = name, end
	}
	if asWritten {
		return Labels{}, true, nil
	}
	return fromForeign(b), false, nil
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

// fromForeign makes a set of bytes that normalise has found whole.
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
