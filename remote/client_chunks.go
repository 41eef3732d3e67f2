package remote

import (
	"io"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// chunkStream reads series and chunks of a streamed answer as they come. One frame is in memory.
type chunkStream struct {
	frames    *frameReader
	endKnown  bool
	names     interner
	rest      fieldReader // of the frame: series that were not looked at
	chunks    fieldReader // of the series: chunks that were not looked at
	cur, next []labels.Label
	ahead     bool // next and chunks are a series that was not moved to
	end       bool // of the answer

	peeked    frameChunk
	hasPeeked bool
}

func newChunkStream(b *answerBody, limit int) chunkStream {
	return chunkStream{frames: newFrameReader(b, limit), endKnown: b.endKnown()}
}

// nextSeries moves to the next series, past what is left of the present one, and returns its labels
// in a slice that is used again. The end of the answer is io.EOF.
func (s *chunkStream) nextSeries() ([]labels.Label, error) {
	for {
		if err := s.peek(); err != nil {
			return nil, err
		}
		if !s.hasPeeked {
			break
		}
		s.hasPeeked = false
	}
	if s.end {
		return nil, io.EOF
	}
	s.ahead = false
	s.cur = append(s.cur[:0], s.next...)
	return s.cur, nil
}

// peek looks at the next chunk of the series; none is there at its end, and then the next
// series is known, or that there is none.
func (s *chunkStream) peek() error {
	for !s.hasPeeked && !s.ahead && !s.end {
		if s.chunks.next() {
			if s.chunks.num != 2 {
				continue
			}
			c, err := decodeChunk(s.chunks.bytes())
			if err == nil {
				err = s.chunks.err
			}
			if err != nil {
				return err
			}
			s.peeked, s.hasPeeked = c, true
			return nil
		}
		if s.chunks.err != nil {
			return s.chunks.err
		}
		if err := s.part(); err != nil {
			return err
		}
	}
	return nil
}

// part finds the next ChunkedSeries. It goes on with the present series when it has the
// same labels.
func (s *chunkStream) part() error {
	for !s.rest.next() || s.rest.num != 1 {
		if s.rest.err != nil {
			return s.rest.err
		}
		if len(s.rest.rest) > 0 {
			continue
		}
		if err := s.frame(); err != nil || s.end {
			return err
		}
	}
	message := s.rest.bytes()
	if s.rest.err != nil {
		return s.rest.err
	}
	s.chunks = readFields(message)
	if err := s.labels(message); err != nil {
		return err
	}
	s.ahead = len(s.cur) == 0 || !slices.Equal(s.cur, s.next)
	return nil
}

// labels reads those of a ChunkedSeries.
func (s *chunkStream) labels(message []byte) error {
	s.next = s.next[:0]
	size := 0
	for r := readFields(message); r.next(); {
		if r.num != 1 {
			continue
		}
		b := r.bytes()
		size += sizeBytes(len(b))
		if err := checkLabelBytes(int64(size)); err != nil {
			return err
		}
		l, err := s.names.label(b)
		if err != nil {
			return err
		}
		s.next = append(s.next, l)
	}
	return nil
}

// frame reads the next frame.
func (s *chunkStream) frame() error {
	data, err := s.frames.next()
	if err == io.EOF {
		if !s.endKnown {
			return errors.WithMessage(errMalformed, "the answer ends with its connection, so nobody knows whether it is complete")
		}
		s.end, err = true, nil
	}
	if err != nil {
		return err
	}
	s.rest = readFields(data)
	r := s.rest
	for r.next() {
		if r.num == 2 && r.varint() != 0 {
			return errors.WithMessagef(errMalformed, "a frame for query %d, one was asked", int64(r.v))
		}
	}
	return r.err
}
