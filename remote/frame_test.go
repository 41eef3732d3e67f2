package remote

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// cutFrame takes the first frame off a body and returns its data.
func cutFrame(t testing.TB, body []byte) (data, rest []byte) {
	t.Helper()
	size, n := binary.Uvarint(body)
	require.Positive(t, n)
	sum := binary.BigEndian.Uint32(body[n:])
	data = body[n+4:][:size]
	require.Equal(t, crc32.Checksum(data, castagnoli), sum)
	return data, body[n+4+int(size):]
}

// frame is what a frame says.
type frame struct {
	queryIndex int64
	series     []frameSeries
}

type frameSeries struct {
	labels []labels.Label
	chunks []frameChunk
}

// decode replaces f by what the data of a frame says.
func (f *frame) decode(data []byte) error {
	*f = frame{}
	r := readFields(data)
	for r.next() {
		switch r.num {
		case 1:
			var s frameSeries
			if err := s.decode(r.bytes()); err != nil {
				return err
			}
			f.series = append(f.series, s)
		case 2:
			f.queryIndex = int64(r.varint())
		}
	}
	return r.err
}

func (s *frameSeries) decode(b []byte) error {
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			l, err := decodeLabel(r.bytes())
			if err != nil {
				return err
			}
			s.labels = append(s.labels, l)
		case 2:
			c, err := decodeChunk(r.bytes())
			if err != nil {
				return err
			}
			s.chunks = append(s.chunks, c)
		}
	}
	return errors.WithMessage(r.err, "series")
}

// decodeLabel decodes a Label message; its strings are copies.
func decodeLabel(message []byte) (l labels.Label, err error) {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			l.Name = r.string()
		case 2:
			l.Value = r.string()
		}
	}
	return l, errors.WithMessage(r.err, "label")
}

// decodeSample decodes a Sample message.
func decodeSample(b []byte) (t int64, v float64, err error) {
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			v = math.Float64frombits(r.fixed64())
		case 2:
			t = int64(r.varint())
		}
	}
	return t, v, errors.WithMessage(r.err, "sample")
}

// A kept encoder must give for each series what a new one gives, whatever stood in its buffer
// before.
func TestFrame_LabelsOverThoseOfTheSeriesBefore(t *testing.T) {
	long := strings.Repeat("x", 127)
	many := func(length int) (ls []labels.Label) {
		for i := range 3 * maxMoved {
			ls = append(ls, labels.Label{Name: fmt.Sprintf("n%02d", i), Value: long[:length]})
		}
		return ls
	}
	series := [][]labels.Label{
		{{Name: "a", Value: "1"}, {Name: "b", Value: "22"}, {Name: "c", Value: "3"}},
		{{Name: "a", Value: "2"}, {Name: "b", Value: "33"}, {Name: "c", Value: "4"}},
		{{Name: "a", Value: "2"}, {Name: "b", Value: "3"}, {Name: "c", Value: "4"}},
		{{Name: "a", Value: "2"}, {Name: "bb", Value: "3"}, {Name: "c", Value: ""}, {Name: "d", Value: long}},
		{{Name: "a", Value: "3"}, {Name: "bb", Value: "4"}, {Name: "c", Value: ""}, {Name: "d", Value: long + "x"}},
		{{Name: "a", Value: "3"}, {Name: "bb", Value: "4"}},
		{},
		{{Name: "", Value: ""}},
		{{Name: "", Value: "1"}},
		{{Name: "a", Value: long}, {Name: "b", Value: strings.Repeat(long, 140)}},
		{{Name: "b", Value: long}, {Name: "c", Value: strings.Repeat(long, 140)}},
		many(5), many(5), many(6), append(many(6), many(7)...), many(1),
		{{Name: "a", Value: "1"}, {Name: "b", Value: "22"}, {Name: "c", Value: "3"}},
	}
	kept := frameEncoder{limit: 1 << 10}
	for round := range 2 {
		for i, ls := range series {
			fresh := frameEncoder{limit: 1 << 10}
			if i%3 == 0 {
				kept.drop()
			}
			for _, e := range []*frameEncoder{&kept, &fresh} {
				e.begin(ls)
				e.add(1, 2, chunkenc.EncXOR, bytes.Repeat([]byte{byte(i)}, 100*i))
			}
			require.Equal(t, fresh.left, kept.left, "round %d series %d", round, i)
			before := len(kept.complete())
			fresh.finish(round)
			kept.finish(round)
			want, got := fresh.complete(), kept.complete()[before:]
			require.Equal(t, want, got, "round %d series %d", round, i)
			data, rest := cutFrame(t, got)
			require.Empty(t, rest)
			var fr frame
			require.NoError(t, fr.decode(data))
			require.Equal(t, len(ls), len(fr.series[0].labels))
			for j := range ls {
				require.Equal(t, ls[j], fr.series[0].labels[j])
			}
		}
	}
}

// FuzzFrame builds the frames of a series out of its input, and reads them again.
func FuzzFrame(f *testing.F) {
	f.Add("__name__", "up", int64(vectorStart), int64(15_000), []byte("0123456789"), 3, 100, 0)
	f.Add("", "", int64(0), int64(0), []byte(nil), 1, 1, 5)
	f.Add("a", "b", int64(math.MinInt64), int64(-1), bytes.Repeat([]byte{1}, 300), 200, 1<<20, math.MaxInt)
	f.Fuzz(func(t *testing.T, name, value string, mint, step int64, data []byte, count, limit, queryIndex int) {
		count, limit, data = count&0x3f, max(limit, 1), data[:min(len(data), 64<<10)]
		ls := []labels.Label{{Name: name, Value: value}}
		e := frameEncoder{limit: limit}
		e.begin(ls)
		var body []byte
		var want []frameChunk
		for i := range count {
			if e.full(len(data)) {
				e.finish(queryIndex)
				if i%2 == 0 {
					body = append(body, e.complete()...)
					e.drop()
				}
				e.next()
			}
			c := frameChunk{mint: mint + int64(i)*step, maxt: mint + int64(i+1)*step, typ: int32(i), data: data}
			e.add(c.mint, c.maxt, chunkenc.Encoding(c.typ), c.data)
			want = append(want, c)
		}
		e.finish(queryIndex)
		body = append(body, e.complete()...)
		var got []frameChunk
		for len(body) > 0 {
			frameData, rest := cutFrame(t, body)
			var fr frame
			require.NoError(t, fr.decode(frameData))
			require.EqualValues(t, queryIndex, fr.queryIndex)
			require.Len(t, fr.series, 1)
			require.Equal(t, ls, fr.series[0].labels)
			one := len(fr.series[0].chunks) == 1
			require.True(t, one || len(frameData) <= max(limit, frameCap))
			got = append(got, fr.series[0].chunks...)
			body = rest
		}
		require.Len(t, got, len(want))
		for i := range want {
			require.True(t, bytes.Equal(want[i].data, got[i].data))
			want[i].data, got[i].data = nil, nil
		}
		require.Equal(t, want, got)
	})
}
