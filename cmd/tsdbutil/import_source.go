package main

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"

	"github.com/pkg/errors"
)

const (
	importBuffer = 256 << 10 // bytes that are read at a time
	// maxLine is how long a line, or a row of CSV, may be in bytes: 1,000 samples fit,
	// and a file without line ends is noticed early.
	maxLine = 1 << 20
)

// importSource is what is imported: a file or standard input, unpacked if it is a gzip.
type importSource struct {
	file   *os.File // nil: closed
	reader *bufio.Reader
	bar    *progress // bytes of the file
}

// openSource opens a file by name, or standard input.
func (c *console) openSource(name string) (*importSource, error) {
	s := &importSource{file: os.Stdin}
	if name != standardInput {
		var err error
		if s.file, err = os.Open(name); err != nil {
			return nil, errors.Wrap(err, "open input")
		}
	}
	size := int64(0)
	if info, err := s.file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	s.bar = c.startProgress("Reading", size, true)
	s.reader = bufio.NewReaderSize(&countedReader{s.file, s.bar}, importBuffer)
	if magic, err := s.reader.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(s.reader)
		if err != nil {
			s.close()
			return nil, errors.Wrapf(err, "read %s", name)
		}
		s.reader = bufio.NewReaderSize(unpacked, importBuffer)
	}
	return s, nil
}

// close may be called again. Nothing was written, so there is no error to miss.
func (s *importSource) close() {
	s.bar.finish()
	if s.file != nil && s.file != os.Stdin {
		_ = s.file.Close() // only read
	}
	s.file = nil
}

// countedReader tells a progress what was read.
type countedReader struct {
	r   io.Reader
	bar *progress
}

func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.bar.add(int64(n))
	return n, err
}

// lineReader gives out lines with their numbers.
type lineReader struct {
	r      *bufio.Reader
	long   []byte // a line that did not fit the buffer of r
	number int
}

// next returns a line without its end; it is valid until the next call. At the end it
// returns io.EOF. A line that is too long is an errLine, and is skipped.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.join(line)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	l.number++
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > maxLine {
		return nil, &lineError{l.number, errors.Errorf("the line is longer than %s bytes", count(maxLine))}
	}
	return line, nil
}

// join puts a long line together, or as much of it as tells that it is too long.
func (l *lineReader) join(first []byte) (line []byte, err error) {
	l.long = append(l.long[:0], first...)
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var more []byte
		more, err = l.r.ReadSlice('\n')
		if len(l.long) <= maxLine {
			l.long = append(l.long, more...)
		}
	}
	return l.long, err
}

// lineError is what is wrong with a line.
type lineError struct {
	line int // from 1
	err  error
}

func (e *lineError) Error() string { return "line " + count(e.line) + ": " + e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }
