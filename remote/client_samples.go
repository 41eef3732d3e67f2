package remote

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// Bounds of a SAMPLES answer.
const (
	// maxSampleField is what one sample may have; 20 is usual, with fields that this
	// version does not know it may be more.
	maxSampleField = 1 << 10
	// maxScalar is the longest field that has no length: a tag and a varint.
	maxScalar = 2 * binary.MaxVarintLen64
)

// sampleSource reads a SAMPLES answer field by field, out of the stream:
//
//	response: 1 results    repeated QueryResult    result: 1 timeseries repeated TimeSeries
//	series:   1 labels     repeated Label          2 samples    repeated Sample
//	          3 exemplars  repeated Exemplar       4 histograms repeated Histogram
//	sample:   1 value      double                  2 timestamp  int64
//
// Places are counted in the decoded block.
type sampleSource struct {
	in      *snappyReader
	names   interner
	results int
	result  int64 // where the result ends
	series  int64 // where the series ends
	ls      []labels.Label
}

func newSampleSource(b *answerBody, limit int64) (*sampleSource, error) {
	in, err := newSnappyReader(b, limit)
	if err != nil {
		return nil, err
	}
	return &sampleSource{in: in}, nil
}

// nextSeries implements answerSource.
func (s *sampleSource) nextSeries() ([]labels.Label, error) {
	if err := s.discard(s.series); err != nil {
		return nil, err
	}
	for {
		if s.in.pos() >= s.result {
			if s.in.pos() == s.in.total {
				return nil, s.end()
			}
			if err := s.nextResult(); err != nil {
				return nil, err
			}
			continue
		}
		num, typ, size, err := s.field(s.result)
		if err != nil {
			return nil, err
		}
		if num == 1 && typ == protowire.BytesType {
			s.series = s.in.pos() + size
			return s.ls, s.labels()
		}
		if err := s.discard(s.in.pos() + size); err != nil {
			return nil, err
		}
	}
}

// nextResult reads a field of the response.
func (s *sampleSource) nextResult() error {
	num, typ, size, err := s.field(s.in.total)
	if err != nil {
		return err
	}
	if num != 1 || typ != protowire.BytesType {
		return s.discard(s.in.pos() + size)
	}
	if s.results++; s.results > 1 {
		return s.wrong("more than one result, for one query")
	}
	s.result = s.in.pos() + size
	return nil
}

// end is the end of the answer.
func (s *sampleSource) end() error {
	if s.results != 1 {
		return s.wrong("no result for the query")
	}
	if err := s.in.end(); err != nil {
		return err
	}
	return io.EOF
}

// field reads a tag, and of a length-delimited field its length. Of any other field it
// takes all; what is left of it is size bytes. The message ends at end.
func (s *sampleSource) field(end int64) (num protowire.Number, typ protowire.Type, size int64, err error) {
	b, err := s.need(maxScalar, end)
	if err != nil {
		return 0, 0, 0, err
	}
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
		return 0, 0, 0, s.wrong("a tag is wrong or cut off")
	}
	if typ != protowire.BytesType {
		k := protowire.ConsumeFieldValue(num, typ, b[n:])
		if k < 0 {
			return 0, 0, 0, s.wrong("a value is wrong or cut off")
		}
		s.in.skip(n + k)
		return num, typ, 0, nil
	}
	length, k := protowire.ConsumeVarint(b[n:])
	s.in.skip(n + max(k, 0))
	if k < 0 || length > uint64(end-s.in.pos()) {
		return 0, 0, 0, s.wrong("a field is longer than its message")
	}
	return num, typ, int64(length), nil
}

// need returns at least n bytes, or all until end.
func (s *sampleSource) need(n int, end int64) ([]byte, error) {
	b, err := s.in.need(int(min(int64(n), end-s.in.pos())))
	return b[:min(int64(len(b)), end-s.in.pos())], err
}

// discard takes everything before a place.
func (s *sampleSource) discard(place int64) error {
	for s.in.pos() < place {
		b, err := s.need(1, place)
		if err != nil {
			return err
		}
		s.in.skip(len(b))
	}
	return nil
}

func (s *sampleSource) wrong(what string) error {
	return errors.WithMessagef(errMalformed, "%s, at byte %d of the decoded answer", what, s.in.pos())
}

// labels reads the labels of a series, which come before all else of it.
func (s *sampleSource) labels() error {
	s.ls = s.ls[:0]
	for start := s.in.pos(); s.in.pos() < s.series; {
		b, err := s.need(1, s.series)
		if err != nil {
			return err
		}
		if b[0] != bytesTag(1) {
			return nil
		}
		_, _, size, err := s.field(s.series)
		if err != nil {
			return err
		}
		if err := checkLabelBytes(s.in.pos() + size - start); err != nil {
			return err
		}
		if b, err = s.need(int(size), s.in.pos()+size); err != nil {
			return err
		}
		l, err := s.names.label(b)
		if err != nil {
			return err
		}
		s.ls = append(s.ls, l)
		s.in.skip(len(b))
	}
	return nil
}

// samples implements answerSource.
func (s *sampleSource) samples(b *chunkenc.Batch) error {
	for room := min(cap(b.T), cap(b.V)); b.Len() < room && s.in.pos() < s.series; {
		buf, err := s.need(maxSampleField, s.series)
		if err != nil {
			return err
		}
		taken := 0
		for b.Len() < room {
			t, v, n := plainSample(buf[taken:])
			if n == 0 {
				break
			}
			b.T, b.V = append(b.T, t), append(b.V, v)
			taken += n
		}
		s.in.skip(taken)
		if taken == 0 {
			if err := s.other(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainSample decodes a Sample field of the usual form: a value that is not zero, then a
// time. Its length is 0 if b begins otherwise, or is too short.
func plainSample(b []byte) (t int64, v float64, n int) {
	const head = 2 + 1 + 8 + 1 // tag, length, value with its tag, tag of the time
	if len(b) < head+1 || b[0] != bytesTag(2) || b[2] != fixed64Tag(1) || b[head-1] != varintTag(2) {
		return 0, 0, 0
	}
	u, k := binary.Uvarint(b[head:])
	if k <= 0 || int(b[1]) != head-2+k {
		return 0, 0, 0
	}
	return int64(u), math.Float64frombits(binary.LittleEndian.Uint64(b[3:])), head + k
}

// other reads any other field of a series.
func (s *sampleSource) other(b *chunkenc.Batch) error {
	num, typ, size, err := s.field(s.series)
	switch {
	case err != nil:
		return err
	case typ == protowire.BytesType && num == 1:
		return s.wrong("a label behind samples")
	case typ == protowire.BytesType && num == 4:
		return errors.WithMessage(tsdb.ErrUnsupported, "histograms")
	case typ != protowire.BytesType || num != 2:
		return s.discard(s.in.pos() + size)
	case size > maxSampleField:
		return s.wrong("a sample of more than a kilobyte")
	}
	message, err := s.need(int(size), s.in.pos()+size)
	if err != nil {
		return err
	}
	var t int64
	var v float64
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			v = math.Float64frombits(r.fixed64())
		case 2:
			t = int64(r.varint())
		}
	}
	if r.err != nil {
		return r.err
	}
	b.T, b.V = append(b.T, t), append(b.V, v)
	s.in.skip(len(message))
	return nil
}
