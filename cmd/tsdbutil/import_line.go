package main

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// textLine is a line of OpenMetrics or of the Prometheus text format that has a sample.
type textLine struct {
	series    []byte // name and labels as they stand; alias the line, as all others do
	at        []byte // the time as it stands
	t, st     int64  // milliseconds; an st of 0 is none
	v         float64
	histogram []byte // in place of v, as it stands; nil: it is a float
	exemplars []byte // as they stand, each behind a #
}

// parseTextLine takes a line with a sample apart, except for its labels. With
// milliseconds the time is a whole number of them, as in the Prometheus text format;
// otherwise it is in seconds, as in OpenMetrics.
func parseTextLine(line []byte, milliseconds bool) (l textLine, err error) {
	end, err := seriesEnd(line)
	if err != nil {
		return l, err
	}
	l.series = line[:end]
	rest, err := l.parseValue(line[end:])
	if err != nil {
		return l, err
	}
	at, rest := token(rest)
	if len(at) == 0 || at[0] == '#' {
		return l, errors.New("there is no time")
	}
	l.at = at
	if milliseconds {
		l.t, err = parseMilliseconds(at)
	} else {
		l.t, err = parseSeconds(at)
	}
	if err != nil {
		return l, err
	}
	return l, l.parseExtras(rest, milliseconds)
}

// parseValue takes the value, and returns what follows it.
func (l *textLine) parseValue(b []byte) (rest []byte, err error) {
	if b = bytes.TrimLeft(b, " \t"); isHistogramText(b) {
		end, err := histogramEnd(b)
		l.histogram = b[:end]
		return b[end:], err
	}
	value, rest := token(b)
	if len(value) == 0 {
		return nil, errors.New("there is no value")
	}
	l.v, err = parseValue(value)
	return rest, err
}

// startMark stands before a start timestamp.
const startMark = "st@"

// parseExtras takes what OpenMetrics has behind the time: a start timestamp, and exemplars.
func (l *textLine) parseExtras(b []byte, milliseconds bool) (err error) {
	extra, rest := token(b)
	if start, ok := bytes.CutPrefix(extra, []byte(startMark)); ok && !milliseconds {
		if l.st, err = parseSeconds(start); err != nil {
			return errors.WithMessage(err, "start timestamp")
		}
		b = rest
		extra, _ = token(b)
	}
	switch {
	case len(extra) == 0:
		return nil
	case len(extra) == 1 && extra[0] == '#' && !milliseconds:
		l.exemplars = bytes.TrimLeft(b, " \t")
		return nil
	default:
		return errors.Errorf("something follows the time: %s", quoted(extra))
	}
}

// token cuts off the next word; words stand apart by spaces or tabs.
func token(b []byte) (word, rest []byte) {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for i, c := range b {
		if isBlank(c) {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// seriesEnd returns where name and labels end: behind the brace that is not in quotes, or,
// without any, at the first blank.
func seriesEnd(line []byte) (int, error) {
	open := -1
	for i, c := range line {
		if c == '{' {
			open = i
			break
		}
		if isBlank(c) {
			// Blanks may stand between the name and the brace.
			rest := bytes.TrimLeft(line[i:], " \t")
			if len(rest) > 0 && rest[0] == '{' && !isHistogramText(rest) {
				open = len(line) - len(rest)
				break
			}
			return i, nil
		}
	}
	if open < 0 {
		return len(line), nil
	}
	inQuotes := false
	for i := open + 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && inQuotes:
			i++
		case c == '"':
			inQuotes = !inQuotes
		case c == '}' && !inQuotes:
			return i + 1, nil
		}
	}
	if inQuotes {
		return 0, errors.New("a quote is not closed")
	}
	return 0, errors.New("the brace of the labels is not closed")
}

// powersOfTen are those that a float64 has exactly.
var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// exactDigits is how many decimal digits a float64 holds exactly, whatever they are.
const exactDigits = 15

// parseValue reads a number, NaN or an infinity. Numbers of few digits, which most are, take
// no memory and are one exact division: the quotient of two exact numbers is rounded
// as it should be.
func parseValue(b []byte) (float64, error) {
	digits, point, mantissa := 0, -1, int64(0)
	s := b
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	for i, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
			mantissa = mantissa*10 + int64(c-'0')
		case c == '.' && point < 0:
			point = i
		default:
			return parseRareValue(b)
		}
		if digits > exactDigits {
			return parseRareValue(b)
		}
	}
	if digits == 0 {
		return parseRareValue(b)
	}
	v := float64(mantissa)
	if point >= 0 {
		v /= powersOfTen[len(s)-1-point]
	}
	if negative {
		v = -v
	}
	return v, nil
}

// parseRareValue reads what has an exponent, many digits, or no digits. Underscores and
// hexadecimal numbers, which the language knows, are no numbers here.
func parseRareValue(b []byte) (float64, error) {
	s := string(b)
	if v, ok, err := parseNaN(s); ok {
		return v, err
	}
	if !strings.ContainsAny(s, "_xXpP") {
		if v, err := strconv.ParseFloat(s, 64); err == nil {
			return v, nil
		}
	}
	return 0, errors.Errorf("the value is no number: %s", quoted(b))
}

// parseMilliseconds reads a whole number.
func parseMilliseconds(b []byte) (int64, error) {
	t, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, errors.Errorf("the time is no whole number of milliseconds: %s", quoted(b))
	}
	return t, nil
}

// parseSeconds reads seconds with or without a fraction, and rounds to milliseconds.
func parseSeconds(b []byte) (int64, error) {
	if t, ok := exactSeconds(b); ok {
		return t, nil
	}
	s, err := parseValue(b)
	if err != nil || math.IsNaN(s) || math.Abs(s) > latestSeconds {
		return 0, errors.Errorf("the time is no number of seconds: %s", quoted(b))
	}
	whole, fraction := math.Modf(s)
	return int64(whole)*1000 + int64(math.Round(fraction*1000)), nil
}

// quotedBytes is how much of a bad text an error shows.
const quotedBytes = 60

func quoted[S ~string | ~[]byte](s S) string {
	if len(s) > quotedBytes {
		return strconv.Quote(string(s[:quotedBytes])) + "..."
	}
	return strconv.Quote(string(s))
}
