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
	// maxLine is how long a line, or a row of CSV, may be in bytes if labels are not
	// allowed to be longer: 1,000 samples fit, and a file without line ends is noticed early.
	maxLine = 1 << 20
	// importTail is how much of the end of a file is looked at.
	importTail = 4 << 10
)

// importSource is what is imported: a file or standard input, unpacked if it is a gzip.
type importSource struct {
	file   *os.File // nil: closed
	reader *bufio.Reader
	bar    *progress // bytes of the file
	tail   []byte    // the end of the text, if it can be seen
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
	switch info, err := s.file.Stat(); {
	case err == nil && info.IsDir():
		s.close()
		return nil, errors.Errorf("open input: %s is a directory", name)
	case err == nil && info.Mode().IsRegular():
		size = info.Size()
	}
	s.bar = c.startProgress("Reading", size, true)
	s.reader = bufio.NewReaderSize(&countedReader{s.file, s.bar}, importBuffer)
	packed := false
	if magic, err := s.reader.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(s.reader)
		if err != nil {
			s.close()
			return nil, errors.Wrapf(err, "read %s", name)
		}
		s.reader, packed = bufio.NewReaderSize(unpacked, importBuffer), true
	}
	text, changed, err := withoutMark(s.reader)
	if err != nil {
		s.close()
		return nil, errors.WithMessagef(err, "read %s", name)
	}
	s.reader = text
	if packed || changed {
		return s, nil
	}
	if err := s.readTail(size); err != nil {
		s.close()
		return nil, errors.Wrapf(err, "read the end of %s", name)
	}
	return s, nil
}

// readTail keeps the end of a file of so many bytes.
func (s *importSource) readTail(size int64) error {
	s.tail = make([]byte, min(size, importTail))
	if n, err := s.file.ReadAt(s.tail, size-int64(len(s.tail))); n < len(s.tail) {
		return err
	}
	return nil
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
	r       *bufio.Reader
	long    []byte // a line that did not fit the buffer of r
	number  int
	longest int // bytes of a line; 0 is maxLine
}

func (l *lineReader) limit() int {
	if l.longest > 0 {
		return l.longest
	}
	return maxLine
}

// next returns a line without its end; it is valid until the next call. At the end it
// returns io.EOF. A line that is too long is a lineError, and is skipped.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.raw()
	return trimLineEnd(line), err
}

// raw is next with the end of the line.
func (l *lineReader) raw() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.join(line)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	l.number++
	if len(trimLineEnd(line)) > l.limit() {
		return nil, &lineError{l.number, errors.Errorf("the line is longer than %s bytes", count(l.limit()))}
	}
	return line, nil
}

// trimLineEnd takes the end of a line away, that of Unix or of Windows.
func trimLineEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// join puts a long line together, or as much of it as tells that it is too long.
func (l *lineReader) join(first []byte) (line []byte, err error) {
	l.long = append(l.long[:0], first...)
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var more []byte
		more, err = l.r.ReadSlice('\n')
		if len(l.long) <= l.limit() {
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
