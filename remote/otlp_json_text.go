package remote

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonText is a text that encoding/json found to be valid, and a place in it. So nothing is checked
// here again, and what is not known can be passed over without a look at what it says.
type jsonText struct {
	text []byte
	at   int
}

// peek passes over blanks, and over commas and colons: where they stand is known. It returns the
// byte that is there then, 0 at the end.
func (j *jsonText) peek() byte {
	for ; j.at < len(j.text); j.at++ {
		switch c := j.text[j.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// string passes over a string and returns what is between its quotes.
func (j *jsonText) string() (quoted []byte) {
	from := j.at + 1
	for end := from; ; end++ {
		n := bytes.IndexByte(j.text[end:], '"')
		if end += n; !isEscaped(j.text[from:end]) {
			j.at = end + 1
			return j.text[from:end]
		}
	}
}

// isEscaped reports whether what stands behind a text is escaped by its last backslash.
func isEscaped(before []byte) bool {
	n := len(before)
	for n > 0 && before[n-1] == '\\' {
		n--
	}
	return (len(before)-n)%2 == 1
}

// word passes over a number, true, false or null, and returns it.
func (j *jsonText) word() []byte {
	from := j.at
	for j.at < len(j.text) {
		switch j.text[j.at] {
		case ' ', '\t', '\n', '\r', ',', ']', '}':
			return j.text[from:j.at]
		}
		j.at++
	}
	return j.text[from:]
}

// skip passes over a value, which peek has come to.
func (j *jsonText) skip() {
	for depth := 0; ; {
		switch j.peek() {
		case '{', '[':
			depth++
			j.at++
		case '}', ']':
			depth--
			j.at++
		case '"':
			j.string()
		default:
			j.word()
		}
		if depth == 0 {
			return
		}
	}
}

// isPlain reports whether a string says what is between its quotes.
func isPlain(quoted []byte) bool {
	return bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted)
}

// plainLen is how many bytes a string says.
func plainLen(quoted []byte) (n int) {
	for len(quoted) > 0 {
		r, size := quotedRune(quoted)
		quoted, n = quoted[size:], n+utf8.RuneLen(r)
	}
	return n
}

// appendPlain appends what a string says.
func appendPlain(dst, quoted []byte) []byte {
	for len(quoted) > 0 {
		r, size := quotedRune(quoted)
		quoted, dst = quoted[size:], utf8.AppendRune(dst, r)
	}
	return dst
}

// quotedRune reads a character of a string. What is none becomes U+FFFD, as encoding/json has it.
func quotedRune(quoted []byte) (r rune, size int) {
	if quoted[0] != '\\' {
		return utf8.DecodeRune(quoted)
	}
	switch c := quoted[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(c), 2
	}
	r = hexRune(quoted)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(quoted) >= 12 && quoted[6] == '\\' && quoted[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(quoted[6:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hexRune reads the four digits of an escaped character.
func hexRune(escaped []byte) rune {
	v, _ := strconv.ParseUint(string(escaped[2:6]), 16, 16) // as the text is valid
	return rune(v)
}
