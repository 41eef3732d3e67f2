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
	// maxHistogramField is what a histogram may have: usual ones have a few hundred bytes.
	maxHistogramField = 1 << 20
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
// Histogram: histogram_encode.go.
//
// Places are counted in the decoded block.
type sampleSource struct {
	in      *snappyReader
	names   interner
	results int
	result  int64 // where the result ends
	series  int64 // where the series ends
	ls      []labels.Label

	held  chunkenc.Batch // floats of the series,
	at    int            // of which those from here on were not given
	last  int64          // time of the last one that was
	given bool           // there was one

	histogram wireHistogram
	ahead     bool // it was not given
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
			s.held.Cut(0)
			s.at, s.given, s.ahead = 0, false, false
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

// samples implements answerSource. A server may have the floats of a series in front of its
// histograms, whatever their times. So floats are held until a histogram stands behind them, or
// nothing.
func (s *sampleSource) samples(b *chunkenc.Batch) (chunkenc.ValueType, error) {
	if s.at == s.held.Len() {
		s.held.Cut(0)
		s.at = 0
	}
	if err := s.lookAhead(); err != nil {
		return chunkenc.ValNone, err
	}
	n := s.held.Len()
	if s.ahead {
		for n = s.at; n < s.held.Len() && s.held.T[n] <= s.histogram.t; {
			n++
		}
	}
	switch {
	case n > s.at:
		n = min(n, s.at+min(cap(b.T), cap(b.V)))
		b.Append(&s.held, s.at, n)
		s.at, s.last, s.given = n, s.held.T[n-1], true
		return chunkenc.ValFloat, nil
	case !s.ahead:
		return chunkenc.ValNone, nil
	case s.given && s.histogram.t < s.last:
		return chunkenc.ValNone, errors.WithMessagef(tsdb.ErrUnsupported,
			"a series of %d floats and more, with older histograms behind them: ask for streamed chunks", heldSamples)
	}
	s.ahead = false
	return s.histogram.kind, nil
}

// other implements answerSource.
func (s *sampleSource) other() otherSample { return &s.histogram }

// lookAhead reads floats until a histogram stands behind them, or the series ends, or there are as
// many as are held.
func (s *sampleSource) lookAhead() error {
	for !s.ahead && s.held.Len() < heldSamples && s.in.pos() < s.series {
		buf, err := s.need(maxSampleField, s.series)
		if err != nil {
			return err
		}
		taken := 0
		for s.held.Len() < heldSamples {
			t, v, n := plainSample(buf[taken:])
			if n == 0 {
				break
			}
			s.held.T, s.held.V = append(s.held.T, t), append(s.held.V, v)
			taken += n
		}
		s.in.skip(taken)
		if taken == 0 {
			if err := s.rare(); err != nil {
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

// rare reads any other field of a series.
func (s *sampleSource) rare() error {
	num, typ, size, err := s.field(s.series)
	switch {
	case err != nil:
		return err
	case typ != protowire.BytesType:
		return s.discard(s.in.pos() + size)
	case num == 1:
		return s.wrong("a label behind samples")
	case num == 2 && size > maxSampleField:
		return s.wrong("a sample of more than a kilobyte")
	case num == 4 && size > maxHistogramField:
		return errors.WithMessagef(errLimit, "a histogram of %d bytes, the limit is %d", size, maxHistogramField)
	case num != 2 && num != 4:
		return s.discard(s.in.pos() + size)
	}
	message, err := s.need(int(size), s.in.pos()+size)
	if err != nil {
		return err
	}
	if num == 4 {
		s.ahead = true
		err = s.histogram.decode(message)
	} else {
		err = s.rareSample(message)
	}
	s.in.skip(len(message))
	return err
}

// rareSample reads a Sample of any form.
func (s *sampleSource) rareSample(message []byte) error {
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
	s.held.T, s.held.V = append(s.held.T, t), append(s.held.V, v)
	return r.err
}
