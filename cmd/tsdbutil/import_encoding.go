package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// Byte order marks. That of UTF-32 begins as that of UTF-16.
const (
	markUTF8    = "\xef\xbb\xbf"
	markUTF16LE = "\xff\xfe"
	markUTF16BE = "\xfe\xff"
	markUTF32LE = "\xff\xfe\x00\x00"
	markUTF32BE = "\x00\x00\xfe\xff"
)

// withoutMark takes a byte order mark away from the beginning of a text, whatever its format.
// Text in UTF-16, as some programs of Windows write it, becomes UTF-8; changed says so.
func withoutMark(r *bufio.Reader) (text *bufio.Reader, changed bool, err error) {
	head, _ := r.Peek(len(markUTF32LE)) // what is wrong with the input shows when it is read
	begins := func(mark string) bool { return bytes.HasPrefix(head, []byte(mark)) }
	switch {
	case begins(markUTF8):
		_, err := r.Discard(len(markUTF8))
		return r, false, err
	case begins(markUTF32LE), begins(markUTF32BE):
		return nil, false, errors.New("the text is UTF-32, which is not read: want UTF-8")
	case begins(markUTF16LE):
		_, err := r.Discard(len(markUTF16LE))
		return bufio.NewReaderSize(&utf16Reader{r: r, order: binary.LittleEndian}, importBuffer), true, err
	case begins(markUTF16BE):
		_, err := r.Discard(len(markUTF16BE))
		return bufio.NewReaderSize(&utf16Reader{r: r, order: binary.BigEndian}, importBuffer), true, err
	default:
		return r, false, nil
	}
}

// utf16Reader gives out UTF-16 as UTF-8.
type utf16Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	left  []byte // of a character that did not fit
	char  [utf8.UTFMax]byte
}

func (u *utf16Reader) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if len(u.left) == 0 {
			if n > 0 && u.r.Buffered() < 4 { // do not wait for more while there is something to give
				return n, nil
			}
			c, err := u.next()
			if err != nil {
				return n, err
			}
			u.left = u.char[:utf8.EncodeRune(u.char[:], c)]
		}
		done := copy(b[n:], u.left)
		u.left = u.left[done:]
		n += done
	}
	return n, nil
}

// next reads one character.
func (u *utf16Reader) next() (rune, error) {
	first, err := u.unit()
	if err != nil || !utf16.IsSurrogate(rune(first)) {
		return rune(first), err
	}
	second, err := u.unit()
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	c := utf16.DecodeRune(rune(first), rune(second))
	if err != nil || c == utf8.RuneError {
		return 0, errors.New("the text has the byte order mark of UTF-16 and is not UTF-16")
	}
	return c, nil
}

func (u *utf16Reader) unit() (uint16, error) {
	var b [2]byte
	_, err := io.ReadFull(u.r, b[:])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, errors.New("the text ends within a character of UTF-16")
	}
	return u.order.Uint16(b[:]), err
}
