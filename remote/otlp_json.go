package remote

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// jsonConverter makes messages of requests in JSON. It keeps its memory.
//
// A message is written where it stays. Its length goes in front of it once it is known: there is
// room for a byte, and what has more than 127 moves by a few. Only attributes have messages in many
// others, and those are cut off where they are refused, so nothing that is long moves often.
type jsonConverter struct {
	jsonText
	content countedBytes
	memory  *memoryShare
	limit   int // bytes of the content
	lists   int // of values that the one under way is in
	most    int // where the content ends at the latest if the attribute under way is taken; 0: there is none
	scratch []byte
}

// convert returns the message of a request in JSON, of about so many bytes at most. It is good
// until the next call.
func (c *jsonConverter) convert(text []byte, limit int, memory *memoryShare) ([]byte, error) {
	if !json.Valid(text) {
		wrong := &json.SyntaxError{}
		err := json.Unmarshal(text, &json.RawMessage{})
		errors.As(err, &wrong)
		return nil, errors.WithMessagef(errMalformed, "JSON: %v, at byte %d", err, wrong.Offset)
	}
	*c = jsonConverter{
		jsonText: jsonText{text: text}, content: countedBytes{bytes: c.content.bytes[:0]},
		memory: memory, limit: limit, scratch: c.scratch,
	}
	err := errors.New("no object")
	if c.peek() == '{' {
		err = c.message(otlpFields)
	}
	c.text, c.memory = nil, nil
	if err != nil && !isAny(err, errBodyLimit, errMemory, errBusy) {
		err = errors.WithMessagef(errMalformed, "JSON: %v, at byte %d", err, c.at)
	}
	return c.content.bytes, err
}

// fieldHead is room for a tag and a length, or for a tag and a number.
const fieldHead = binary.MaxVarintLen32 + binary.MaxVarintLen64

// room makes room for a field, with n bytes beside its head.
func (c *jsonConverter) room(n int) error {
	if len(c.content.bytes)+n > c.limit {
		return errors.WithMessagef(errBodyLimit, "%d bytes", c.limit)
	}
	return c.content.grow(c.memory, n+fieldHead, c.limit+fieldHead)
}

// begin begins a message, and returns where.
func (c *jsonConverter) begin(num protowire.Number) (at int, err error) {
	if err := c.room(0); err != nil {
		return 0, err
	}
	c.content.bytes = append(protowire.AppendTag(c.content.bytes, num, protowire.BytesType), 0)
	return len(c.content.bytes), nil
}

// end ends the message that began there.
func (c *jsonConverter) end(at int) error {
	size := len(c.content.bytes) - at
	if size < 0x80 {
		c.content.bytes[at-1] = byte(size)
		return nil
	}
	if err := c.room(0); err != nil {
		return err
	}
	more := sizeVarint(uint64(size)) - 1
	b := c.content.bytes[:at+size+more]
	copy(b[at+more:], b[at:at+size])
	binary.PutUvarint(b[at-1:], uint64(size))
	c.content.bytes = b
	return nil
}

// message adds the fields of an object, which begins here.
func (c *jsonConverter) message(fields *jsonFields) error {
	c.at++
	var of attributeList
	for c.peek() != '}' {
		name := c.string()
		if len(name) > maxJSONName {
			name = nil
		} else if !isPlain(name) {
			name = appendPlain(nil, name)
		}
		f, known := (*fields)[string(name)]
		next := c.peek()
		if !known {
			c.skip()
			continue
		}
		if next != '[' {
			if err := c.element(&f, &of); err != nil {
				return err
			}
			continue
		}
		for c.at++; c.peek() != ']'; {
			if err := c.element(&f, &of); err != nil {
				return err
			}
		}
		c.at++
	}
	c.at++
	return nil
}

// maxJSONName is longer than the names that are known, even if all of one is escaped.
const maxJSONName = 256

// attributeList is what was converted of the attributes of one thing.
type attributeList struct{ n, bytes int }

// element adds one value of a field: the only one, or one of many. Of attributes that are refused
// because they are too large it adds as much as is needed for that.
func (c *jsonConverter) element(f *jsonField, of *attributeList) error {
	switch {
	case c.most > 0 && len(c.content.bytes) > c.most, of.n > maxAttributes, of.bytes > maxAttributesBytes:
		c.skip()
		return nil
	case f.kind != jsonAttribute:
		return c.value(f)
	}
	before := len(c.content.bytes)
	c.most = before + maxAttributesBytes + fieldHead
	err := c.value(f)
	c.most = 0
	of.n++
	of.bytes += max(0, len(c.content.bytes)-before-fieldHead)
	return err
}

// value adds one value.
func (c *jsonConverter) value(f *jsonField) error {
	next := c.peek()
	switch {
	case next == 'n': // null: it is not there
		c.word()
		return nil
	case f.fields != nil && next != '{':
		return errors.Errorf("%s: no object", f.name)
	case f.fields != nil:
		return c.object(f)
	case next == '{' || next == '[':
		return errors.Errorf("%s: no simple value", f.name)
	case next == '"':
		return errors.WithMessage(c.quoted(f, c.string()), f.name)
	case f.kind <= jsonBase64:
		return errors.Errorf("%s: no string", f.name)
	}
	word := c.word()
	switch word[0] {
	case 't':
		word = []byte("1")
	case 'f':
		word = []byte("0")
	}
	return errors.WithMessage(c.number(f, word), f.name)
}

// object adds a message. One in more lists than are taken is left empty, so it is still seen that
// there are too many.
func (c *jsonConverter) object(f *jsonField) error {
	at, err := c.begin(f.num)
	switch {
	case err != nil:
		return err
	case c.lists > maxValueDepth:
		c.skip()
	case f.kind == jsonNested:
		c.lists++
		err = c.message(f.fields)
		c.lists--
	default:
		err = c.message(f.fields)
	}
	if err != nil {
		return err
	}
	return c.end(at)
}

const (
	// longestText is the longest text between quotes that may be an attribute: six bytes may say
	// one.
	longestText = 6 * maxAttributesBytes
	// longestEscaped is the longest text of an id, of bytes or of a number that may have escapes,
	// which nobody sends.
	longestEscaped = longestText
)

// quoted adds a simple value that is in quotes.
func (c *jsonConverter) quoted(f *jsonField, quoted []byte) error {
	if c.most > 0 && len(quoted) > longestText {
		return c.addText(f, quoted[:maxAttributesBytes+1], true) // it is refused, whatever it says
	}
	plain := isPlain(quoted)
	if f.kind == jsonString {
		return c.addText(f, quoted, plain)
	}
	if !plain {
		if len(quoted) > longestEscaped {
			return errors.New("escapes in a long text")
		}
		c.scratch = appendPlain(c.scratch[:0], quoted)
		quoted = c.scratch
	}
	if f.kind != jsonHex && f.kind != jsonBase64 {
		return c.number(f, quoted)
	}
	if err := c.room(len(quoted)); err != nil {
		return err
	}
	at, err := c.begin(f.num)
	if err != nil {
		return err
	}
	if f.kind == jsonHex {
		c.content.bytes, err = hex.AppendDecode(c.content.bytes, quoted) // its errors are short
	} else {
		c.content.bytes, err = base64.StdEncoding.AppendDecode(c.content.bytes, quoted)
	}
	if err != nil {
		return err
	}
	return c.end(at)
}

// addText adds a string.
func (c *jsonConverter) addText(f *jsonField, quoted []byte, plain bool) error {
	n := len(quoted)
	if !plain {
		n = plainLen(quoted)
	}
	if err := c.room(n); err != nil {
		return err
	}
	b := protowire.AppendVarint(protowire.AppendTag(c.content.bytes, f.num, protowire.BytesType), uint64(n))
	if plain {
		b = append(b, quoted...)
	} else {
		b = appendPlain(b, quoted)
	}
	c.content.bytes = b
	return nil
}

// number adds a number, or a boolean that is written as one.
func (c *jsonConverter) number(f *jsonField, text []byte) (err error) {
	if err := c.room(0); err != nil {
		return err
	}
	var v uint64
	if f.kind == jsonDouble {
		var d float64
		if d, err = strconv.ParseFloat(string(text), 64); err != nil { // reads NaN and Infinity, too
			return errors.Errorf("%.40q is no number", text)
		}
		v = math.Float64bits(d)
	} else if v, err = wholeNumber(text); err != nil {
		return err
	}
	b := c.content.bytes
	switch f.kind {
	case jsonDouble, jsonFixed:
		b = protowire.AppendFixed64(protowire.AppendTag(b, f.num, protowire.Fixed64Type), v)
	case jsonZigZag:
		b = protowire.AppendVarint(protowire.AppendTag(b, f.num, protowire.VarintType), protowire.EncodeZigZag(int64(v)))
	default:
		b = protowire.AppendVarint(protowire.AppendTag(b, f.num, protowire.VarintType), v)
	}
	c.content.bytes = b
	return nil
}

// wholeNumber reads one with 64 bits, with a sign or without. It may be written as 1e3 or 1.0.
func wholeNumber(text []byte) (uint64, error) {
	if v, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return uint64(v), nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return 0, errors.Errorf("%.40q is no whole number", text)
	}
	return uint64(int64(v)), nil
}
