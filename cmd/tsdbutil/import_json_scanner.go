package main

import (
	"bufio"
	"encoding/json"
	"unicode/utf8"
)

// maxJSONDepth is how deep values may be nested that are passed over.
const maxJSONDepth = 32

// jsonError is why JSON cannot be read further.
type jsonError struct{ text string }

func (e *jsonError) Error() string { return e.text }

// jsonScanner reads JSON piece by piece, in bounded memory. Unlike that of the language it does
// not replace what is not UTF-8.
type jsonScanner struct {
	r       *bufio.Reader
	line    int // from 1
	longest int // bytes of a text; 0 is maxLine
	buf     []byte
}

func (s *jsonScanner) limit() int {
	if s.longest > 0 {
		return s.longest
	}
	return maxLine
}

func (s *jsonScanner) damage(text string) error { return &jsonError{text} }

func (s *jsonScanner) unexpected(want string) error {
	next, _ := s.r.Peek(1)
	return s.damage("want " + want + ", there is " + quoted(next))
}

// peek returns the next character that is no space.
func (s *jsonScanner) peek() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		default:
			return c, s.r.UnreadByte()
		}
	}
}

// peekDocument is peek that passes over a byte order mark: texts that were put together have some
// in the middle.
func (s *jsonScanner) peekDocument() (byte, error) {
	c, err := s.peek()
	if err != nil || c != markUTF8[0] {
		return c, err
	}
	if mark, _ := s.r.Peek(len(markUTF8)); string(mark) != markUTF8 {
		return c, nil
	}
	if _, err := s.r.Discard(len(markUTF8)); err != nil {
		return 0, err
	}
	return s.peek()
}

// take says whether the next character is c, and takes it.
func (s *jsonScanner) take(c byte) (bool, error) {
	next, err := s.peek()
	if err != nil || next != c {
		return false, err
	}
	_, err = s.r.Discard(1)
	return true, err
}

func (s *jsonScanner) want(c byte, what string) error {
	ok, err := s.take(c)
	if err == nil && !ok {
		err = s.unexpected(what)
	}
	return err
}

// list reads what stands between two brackets, with commas between its parts.
func (s *jsonScanner) list(begin, end byte, what string, part func() error) error {
	if err := s.want(begin, what); err != nil {
		return err
	}
	for first := true; ; first = false {
		ended, err := s.take(end)
		if ended || err != nil {
			return err
		}
		if !first {
			if err := s.want(',', "a comma"); err != nil {
				return err
			}
		}
		if err := part(); err != nil {
			return err
		}
	}
}

func (s *jsonScanner) array(each func() error) error { return s.list('[', ']', "an array", each) }

func (s *jsonScanner) object(member func(key string) error) error {
	return s.list('{', '}', "an object", func() error {
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.want(':', "a colon"); err != nil {
			return err
		}
		return member(key)
	})
}

// text reads a text in quotes.
func (s *jsonScanner) text() (string, error) {
	if err := s.want('"', "a text in quotes"); err != nil {
		return "", err
	}
	s.buf = append(s.buf[:0], '"')
	escaped := false
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return "", err
		}
		if len(s.buf) > s.limit() {
			return "", s.damage("a text is longer than " + count(s.limit()) + " bytes: is a quote not closed?")
		}
		s.buf = append(s.buf, c)
		switch {
		case c < ' ':
			return "", s.damage("a text has a control character in it: is a quote not closed?")
		case c == '\\':
			escaped = true
			if c, err = s.r.ReadByte(); err != nil {
				return "", err
			}
			s.buf = append(s.buf, c)
		case c == '"':
			return s.decode(escaped)
		}
	}
}

func (s *jsonScanner) decode(escaped bool) (text string, err error) {
	if !utf8.Valid(s.buf) {
		return "", s.damage("a text is not UTF-8: " + quoted(s.buf))
	}
	if !escaped {
		return string(s.buf[1 : len(s.buf)-1]), nil
	}
	if err := json.Unmarshal(s.buf, &text); err != nil {
		return "", s.damage("an escape is not valid: " + quoted(s.buf))
	}
	return text, nil
}

// maxScalar is how long a number or a word may be.
const maxScalar = 1 << 10

// scalar reads a number, a word or a text.
func (s *jsonScanner) scalar() (string, error) {
	c, err := s.peek()
	if err != nil {
		return "", err
	}
	if c == '"' {
		return s.text()
	}
	s.buf = s.buf[:0]
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return "", err
		}
		switch c {
		case ',', ']', '}', ' ', '\t', '\r', '\n', '[', '{', ':', '"':
			if err := s.r.UnreadByte(); err != nil {
				return "", err
			}
			if len(s.buf) == 0 {
				return "", s.unexpected("a number or a text")
			}
			return string(s.buf), nil
		}
		if s.buf = append(s.buf, c); len(s.buf) > maxScalar {
			return "", s.damage("a number is longer than " + count(maxScalar) + " characters")
		}
	}
}

// skip passes over a value.
func (s *jsonScanner) skip(depth int) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if depth == 0 {
		return s.damage("values are nested too deep")
	}
	switch c {
	case '{':
		return s.object(func(string) error { return s.skip(depth - 1) })
	case '[':
		return s.array(func() error { return s.skip(depth - 1) })
	default:
		_, err := s.scalar()
		return err
	}
}
