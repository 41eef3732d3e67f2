package main

import (
	"bufio"
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// rowReader gives out the rows of a table. What is in quotes is given as it stands, line
// ends too; the reader of the language turns those of Windows into others. Lines that are empty
// or blank are passed over.
type rowReader struct {
	lines lineReader
	comma []byte

	line int  // where the last row begins, from 1
	gap  bool // an empty line stands before it

	text  []byte   // of all cells
	ends  []int    // of each cell in text
	cells []string // valid until the next row
}

// rowError is what is wrong with a row. The next one can be read.
type rowError struct{ text string }

func (e *rowError) Error() string { return e.text }

func newRowReader(r *bufio.Reader, comma rune, longest int) *rowReader {
	return &rowReader{lines: lineReader{r: r, longest: longest}, comma: []byte(string(comma))}
}

// next returns the cells of the next row, and io.EOF at the end. A rowError is of one row.
func (r *rowReader) next() ([]string, error) {
	r.gap = false
	for {
		line, err := r.lines.raw()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimPrefix(line, []byte(markUTF8)); len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0 && !bytes.Contains(line, r.comma) {
			r.gap = true
			continue
		}
		r.line = r.lines.number
		return r.row(line)
	}
}

// row takes a line apart, and reads more of them for quotes that go on.
func (r *rowReader) row(line []byte) ([]string, error) {
	r.text, r.ends = r.text[:0], r.ends[:0]
	for {
		rest, err := r.cell(line)
		if err != nil {
			return nil, err
		}
		r.ends = append(r.ends, len(r.text))
		if !bytes.HasPrefix(rest, r.comma) {
			if len(trimLineEnd(rest)) > 0 {
				return nil, &rowError{"something follows a text in quotes: " + quoted(trimLineEnd(rest))}
			}
			return r.split(), nil
		}
		line = rest[len(r.comma):]
	}
}

// cell adds one cell to the text and returns what follows it.
func (r *rowReader) cell(line []byte) (rest []byte, err error) {
	if len(line) > 0 && line[0] == '"' {
		return r.quotedCell(line[1:])
	}
	end := bytes.Index(line, r.comma)
	if end < 0 {
		end = len(trimLineEnd(line))
	}
	if bytes.IndexByte(line[:end], '"') >= 0 {
		return nil, &rowError{`bare " in a cell without quotes`}
	}
	r.text = append(r.text, line[:end]...)
	return line[end:], nil
}

func (r *rowReader) quotedCell(line []byte) (rest []byte, err error) {
	for {
		end := bytes.IndexByte(line, '"')
		if end < 0 {
			r.text = append(r.text, line...)
			if line, err = r.more(); err != nil {
				return nil, err
			}
			continue
		}
		r.text = append(r.text, line[:end]...)
		if line = line[end+1:]; !bytes.HasPrefix(line, []byte(`"`)) {
			return line, nil
		}
		r.text = append(r.text, '"')
		line = line[1:]
	}
}

// more reads the next line of a cell. Memory is bounded: a quote may never be closed.
func (r *rowReader) more() ([]byte, error) {
	if len(r.text) > r.lines.limit() {
		return nil, &lineError{r.line, errors.Errorf("a row is longer than %s bytes: is a quote not closed?", count(r.lines.limit()))}
	}
	line, err := r.lines.raw()
	if errors.Is(err, io.EOF) {
		return nil, &rowError{"a quote is not closed"}
	}
	return line, err
}

func (r *rowReader) split() []string {
	text, start := string(r.text), 0
	r.cells = r.cells[:0]
	for _, end := range r.ends {
		r.cells = append(r.cells, text[start:end])
		start = end
	}
	return r.cells
}

// separators are what stands between the cells of a table, if nothing else is said.
const separators = ",\t;"

// separatorOf finds out what stands between the cells of a row: the first of separators that
// is not in quotes; ok is false if there is none.
func separatorOf(row []byte) (comma rune, ok bool) {
	inQuotes := false
	for _, c := range row {
		switch {
		case c == '"':
			inQuotes = !inQuotes
		case !inQuotes && bytes.IndexByte([]byte(separators), c) >= 0:
			return rune(c), true
		}
	}
	return ',', false
}

// parseSeparator reads the flag.
func parseSeparator(text string) (rune, error) {
	if text == `\t` || text == "tab" {
		return '\t', nil
	}
	comma, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) || comma == utf8.RuneError || bytes.ContainsRune([]byte("\"\r\n"), comma) {
		return 0, usageError("--separator: want one character, or tab")
	}
	return comma, nil
}
