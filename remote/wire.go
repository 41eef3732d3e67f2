package remote

import (
	"math/bits"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb/labels"
)

// fieldReader is a cursor over the fields of one serialised message. Fields that the
// caller does not ask for are skipped, whatever they are; one that it asks for by another
// type than it has is an error. Nothing is allocated.
type fieldReader struct {
	rest []byte
	num  protowire.Number
	typ  protowire.Type
	v    uint64 // of a varint and of fixed types
	data []byte // of the length-delimited type; aliases the message
	err  error
}

func readFields(message []byte) fieldReader { return fieldReader{rest: message} }

// readPair reads a message of a name and a value, as labels and attributes are:
//
//	1 name   2 value
func readPair(message []byte) (name, value []byte, _ error) {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			name = r.bytes()
		case 2:
			value = r.bytes()
		}
	}
	return name, value, r.err
}

// next moves to the next field; false at the end and on an error.
func (r *fieldReader) next() bool {
	if len(r.rest) == 0 || r.err != nil {
		return false
	}
	if b := r.rest; len(b) > 1 && b[0]&0x87 == byte(protowire.BytesType) && b[0] > 7 && b[1] < 0x80 {
		if end := 2 + int(b[1]); end <= len(b) { // short and of a low number, as most are
			r.num, r.typ, r.data, r.rest = protowire.Number(b[0]>>3), protowire.BytesType, b[2:end], b[end:]
			return true
		}
	}
	n := 0
	r.num, r.typ, n = protowire.ConsumeTag(r.rest)
	if n < 0 {
		return r.malformed("a tag is")
	}
	r.rest = r.rest[n:]
	switch r.typ {
	case protowire.VarintType:
		r.v, n = protowire.ConsumeVarint(r.rest)
	case protowire.Fixed64Type:
		r.v, n = protowire.ConsumeFixed64(r.rest)
	case protowire.BytesType:
		r.data, n = protowire.ConsumeBytes(r.rest)
	default:
		n = protowire.ConsumeFieldValue(r.num, r.typ, r.rest)
	}
	if n < 0 {
		return r.malformed("a value is")
	}
	r.rest = r.rest[n:]
	return true
}

func (r *fieldReader) malformed(what string) bool {
	r.err = errors.WithMessagef(errMalformed, "%s wrong or cut off, %d bytes before the end", what, len(r.rest))
	return false
}

func (r *fieldReader) is(typ protowire.Type) bool {
	if r.typ != typ && r.err == nil {
		r.err = errors.WithMessagef(errMalformed, "field %d has wire type %d, not %d", r.num, r.typ, typ)
	}
	return r.err == nil
}

// varint returns the field's value, 0 if it is no varint, which is the reader's error.
func (r *fieldReader) varint() uint64 {
	if !r.is(protowire.VarintType) {
		return 0
	}
	return r.v
}

// fixed64 is varint for the eight-byte type.
func (r *fieldReader) fixed64() uint64 {
	if !r.is(protowire.Fixed64Type) {
		return 0
	}
	return r.v
}

// bytes returns the field's bytes, none if it is not length-delimited. They alias the
// message.
func (r *fieldReader) bytes() []byte {
	if !r.is(protowire.BytesType) {
		return nil
	}
	return r.data
}

// string returns a copy of the field's bytes.
func (r *fieldReader) string() string { return string(r.bytes()) }

// Tags of the first 15 fields are one byte.
func varintTag(field byte) byte  { return field<<3 | byte(protowire.VarintType) }
func fixed64Tag(field byte) byte { return field<<3 | byte(protowire.Fixed64Type) }
func bytesTag(field byte) byte   { return field<<3 | byte(protowire.BytesType) }

// appendInt appends an int64 or enum field, which is left out when it is zero.
func appendInt(dst []byte, field byte, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, varintTag(field)), uint64(v))
}

// spreadVarint returns the varint of v in the low n bytes of a word, without a loop: groups of
// seven bits are spread over eight bytes by halves, and the highest bits of all but the last are
// set. Of 0 and of 2^56 and more, which times are not as a rule, n is 0 (BenchmarkReadHead).
func spreadVarint(v uint64) (word uint64, n int) {
	if v-1 >= 1<<56-1 {
		return 0, 0
	}
	n = sizeVarint(v)
	v = v&0x0fffffff | v&(0x0fffffff<<28)<<4
	v = v&0x00003fff_00003fff | v&0x0fffc000_0fffc000<<2
	v = v&0x007f007f_007f007f | v&0x3f803f80_3f803f80<<1
	return v | 0x8080808080808080>>(72-8*n), n
}

// shortVarint is spreadVarint for less than 2^14, which most lengths are.
func shortVarint(v uint64) (word uint64, n int) {
	if v < 1<<7 {
		return v, 1
	}
	return v&0x7f | 0x80 | v>>7<<8, 2
}

// appendVarint appends a varint, most of which are short.
func appendVarint(dst []byte, v uint64) []byte {
	if v < 0x80 {
		return append(dst, byte(v))
	}
	return protowire.AppendVarint(dst, v)
}

// appendString appends a string field, which is left out when it is empty.
func appendString(dst []byte, field byte, s string) []byte {
	if s == "" {
		return dst
	}
	return append(appendVarint(append(dst, bytesTag(field)), uint64(len(s))), s...)
}

func sizeInt(v int64) int {
	if v == 0 {
		return 0
	}
	return 1 + sizeVarint(uint64(v))
}

func sizeString(s string) int {
	if s == "" {
		return 0
	}
	return sizeBytes(len(s))
}

// sizeBytes is the size of a length-delimited field of n bytes, with its tag.
func sizeBytes(n int) int { return 1 + sizeVarint(uint64(n)) + n }

// sizeVarint is the length of a varint, one byte for seven bits: 9/64 is little less than 1/7,
// and 64 bits are not enough for that to matter.
func sizeVarint(v uint64) int { return int(uint(9*bits.Len64(v|1)+64) / 64) }

// A Label message:
//
//	1 name  string
//	2 value string

func sizeLabel(l labels.Label) int { return sizeString(l.Name) + sizeString(l.Value) }

// appendLabel appends a label as field 1, which it is of all messages that have some.
func appendLabel(dst []byte, l labels.Label) []byte {
	dst = protowire.AppendVarint(append(dst, bytesTag(1)), uint64(sizeLabel(l)))
	return appendString(appendString(dst, 1, l.Name), 2, l.Value)
}
