package blockdir

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// Meta files are read and written without reflection: package json's way of doing it would be
// 5% of a small program. Its scanner, which has none, says whether text is JSON at all.

// checkJSON returns what is wrong with the syntax, and where.
func checkJSON(b []byte) (offset int, err error) {
	err = json.Indent(new(bytes.Buffer), b, "", "")
	if syntax, ok := err.(*json.SyntaxError); ok { // errors.As would link reflection for it
		offset = int(min(syntax.Offset, int64(len(b))))
	}
	return offset, err
}

// jsonCursor goes through text that checkJSON takes.
type jsonCursor struct {
	text []byte
	at   int
}

// next passes space and returns the byte behind it.
//
//go:noinline
func (c *jsonCursor) next() byte {
	for c.text[c.at] <= ' ' {
		c.at++
	}
	return c.text[c.at]
}

// take is next for one of some bytes, which it passes.
func (c *jsonCursor) take(b byte) bool {
	if c.next() != b {
		return false
	}
	c.at++
	return true
}

// value passes a value, be it a list or an object, and returns it.
func (c *jsonCursor) value() json.RawMessage {
	c.next()
	from, depth := c.at, 0
	for ; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '"':
			c.passString()
		case '{', '[':
			depth++
		case '}', ']', ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return c.text[from:c.at:c.at]
			}
			if b := c.text[c.at]; b == '}' || b == ']' {
				depth--
			}
		}
	}
	return c.text[from:]
}

// passString goes to the end of a string that begins here.
func (c *jsonCursor) passString() {
	for c.at++; c.text[c.at] != '"'; c.at++ {
		if c.text[c.at] == '\\' {
			c.at++
		}
	}
}

// splitObject returns the fields of an object by name, the last one of those with the same.
func splitObject(b []byte) (fields map[string]json.RawMessage, ok bool) {
	c := jsonCursor{text: b}
	if !c.take('{') {
		return nil, false
	}
	fields = map[string]json.RawMessage{}
	for !c.take('}') {
		c.take(',')
		name, _ := unquoteJSON(c.value())
		c.take(':')
		fields[name] = c.value()
	}
	return fields, true
}

// splitList returns the elements of a list.
func splitList(b []byte) (list []json.RawMessage, ok bool) {
	c := jsonCursor{text: b}
	if !c.take('[') {
		return nil, false
	}
	for !c.take(']') {
		c.take(',')
		list = append(list, c.value())
	}
	return list, true
}

// unquoteJSON returns what a string says. What is not UTF-8 becomes U+FFFD.
func unquoteJSON(raw []byte) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	var out []byte
	for in := raw[1 : len(raw)-1]; len(in) > 0; {
		if in[0] == '\\' && in[1] == 'u' {
			var r rune
			r, in = unescapeJSON(in)
			out = utf8.AppendRune(out, r)
			continue
		}
		if in[0] == '\\' {
			b := in[1]
			if i := strings.IndexByte("bfnrt", b); i >= 0 {
				b = "\b\f\n\r\t"[i]
			}
			out, in = append(out, b), in[2:]
			continue
		}
		r, n := utf8.DecodeRune(in)
		out, in = utf8.AppendRune(out, r), in[n:]
	}
	return string(out), true
}

// unescapeJSON returns what a numbered escape stands for, or two of them, and what is behind.
func unescapeJSON(in []byte) (r rune, rest []byte) {
	number := func(in []byte) rune {
		n, _ := strconv.ParseUint(string(in[2:6]), 16, 32) // the scanner has seen it
		return rune(n)
	}
	r, rest = number(in), in[6:]
	if !utf16.IsSurrogate(r) {
		return r, rest
	}
	if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		if both := utf16.DecodeRune(r, number(rest)); both != utf8.RuneError {
			return both, rest[6:]
		}
	}
	return utf8.RuneError, rest
}

// appendName begins the next field of an object. It is not inlined: there are many fields.
//
//go:noinline
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendJSON(b, name), ':')
}

// appendJSON writes a string. What is not UTF-8 becomes U+FFFD; what browsers take for
// something else is escaped, as the reference does.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		short := strings.IndexByte("\b\f\n\r\t", s[0])
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', s[0])
		case short >= 0:
			b = append(b, '\\', "bfnrt"[short])
		case r == utf8.RuneError && n == 1 || r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029':
			const digits = "0123456789abcdef"
			b = append(b, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		default:
			b = append(b, s[:n]...)
		}
		s = s[n:]
	}
	return append(b, '"')
}

// appendStrings writes a field that is a list, nothing if it is empty.
func appendStrings(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(appendName(b, name), '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, s)
	}
	return append(b, ']')
}

// appendExtra writes unknown fields, by name.
func appendExtra(b []byte, extra map[string]json.RawMessage) ([]byte, error) {
	names := slices.Collect(maps.Keys(extra))
	sort.Slice(names, func(i, k int) bool { return names[i] < names[k] }) // not by package slices: 13 kB for strings
	for _, name := range names {
		if _, err := checkJSON(extra[name]); err != nil {
			return nil, errors.Wrap(err, "encode unknown fields of meta file")
		}
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, extra[name])
		b = append(appendName(b, name), escaped.Bytes()...)
	}
	return b, nil
}
