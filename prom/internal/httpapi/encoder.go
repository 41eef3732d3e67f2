package httpapi

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// encoder writes JSON as it is made, so that an answer of any size needs the same memory.
type encoder struct {
	w   io.Writer
	buf []byte
	err error // of w
}

// pieceBytes is how much is collected before it is written.
const pieceBytes = 32 << 10

var encoders = sync.Pool{New: func() any { return &encoder{buf: make([]byte, 0, pieceBytes+pieceBytes/8)} }}

func newEncoder(w io.Writer) *encoder {
	e := encoders.Get().(*encoder)
	e.w, e.err, e.buf = w, nil, e.buf[:0]
	return e
}

// free ends the use of an encoder.
func (e *encoder) free() {
	if e.w = nil; cap(e.buf) <= 4*pieceBytes {
		encoders.Put(e)
	}
}

// flush writes what is left, and returns the first error.
func (e *encoder) flush() error {
	if len(e.buf) > 0 && e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
	return e.err
}

// room writes if there is enough to be written.
func (e *encoder) room() {
	if len(e.buf) >= pieceBytes {
		_ = e.flush() // it is kept
	}
}

func (e *encoder) raw(s string) { e.buf = append(e.buf, s...) }

// text writes a string. Nothing is escaped that need not be.
func (e *encoder) text(s string) {
	e.buf = appendText(e.buf, s)
	e.room()
}

// writer is data that knows how it is written.
type writer interface{ write(e *encoder) }

// value writes data of any kind.
func (e *encoder) value(v any) {
	switch v := v.(type) {
	case writer:
		v.write(e)
	case []string:
		e.strings(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // data of ours is made of plain types
		}
		e.buf = append(e.buf, b...)
	}
}

func (e *encoder) strings(list []string) {
	e.raw("[")
	for i, s := range list {
		if i > 0 {
			e.raw(",")
		}
		e.text(s)
	}
	e.raw("]")
}

func (e *encoder) notes(name string, list []string) {
	if len(list) > 0 {
		e.raw(`,"` + name + `":`)
		e.strings(list)
	}
}

func (e *encoder) labels(ls labels.Labels) {
	e.raw("{")
	first := true
	ls.Range(func(l labels.Label) {
		if !first {
			e.raw(",")
		}
		first = false
		e.buf = appendText(e.buf, l.Name)
		e.raw(":")
		e.buf = appendText(e.buf, l.Value)
	})
	e.raw("}")
	e.room()
}

// point writes a time and a value.
func (e *encoder) point(t int64, v float64) {
	e.buf = append(e.buf, '[')
	e.buf = appendTime(e.buf, t)
	e.raw(",")
	e.quoted(v)
	e.raw("]")
}

func (e *encoder) points(list []promql.FPoint) {
	e.raw("[")
	for i, p := range list {
		if i > 0 {
			e.raw(",")
		}
		e.point(p.T, p.F)
		e.room()
	}
	e.raw("]")
}

// appendTime appends milliseconds as seconds with no more decimals than it needs.
func appendTime(dst []byte, t int64) []byte {
	ms := uint64(t)
	if t < 0 {
		dst, ms = append(dst, '-'), -ms
	}
	dst = strconv.AppendUint(dst, ms/1000, 10)
	if ms %= 1000; ms != 0 {
		dst = append(dst, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return dst
}

// appendValue appends the shortest text that is read back as the same value, with an exponent where
// the number is very small or very large.
func appendValue(dst []byte, v float64) []byte {
	form := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	return appendFloat(dst, v, form)
}

func appendFloat(dst []byte, v float64, form byte) []byte {
	if math.IsInf(v, 0) {
		form = 'f'
	}
	return strconv.AppendFloat(dst, v, form, -1, 64)
}

const hex = "0123456789abcdef"

// appendText appends a JSON string. What is not UTF-8 becomes the character for that.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0 // from here on nothing needed a change
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[plain:i]...), "\ufffd"...)
				plain = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		plain = i
	}
	return append(append(dst, s[plain:]...), '"')
}
