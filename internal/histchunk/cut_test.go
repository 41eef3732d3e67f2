package histchunk_test

import (
	"encoding/json"

	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
)

const chunkRange = 7_200_000

// head appends the samples of one series as a head does: chunks end by size and time, by
// kind, and where the encoder says so.
type head struct {
	e      histchunk.Encoder
	cut    histchunk.Cut
	chunks []piece
	enc    histchunk.Encoding // of the newest sample; XOR for a float
}

// piece is one chunk as the vectors list it.
type piece struct {
	mint, maxt int64
	samples    int
	enc        histchunk.Encoding
	header     histchunk.Header
	data       []byte
}

func (p *piece) UnmarshalJSON(text []byte) error {
	var header string
	fields := []any{&p.mint, &p.maxt, &p.samples, &p.enc, &header}
	err := json.Unmarshal(text, &fields)
	p.header = headers[header]
	return err
}

func (h *head) end() {
	if n := h.e.NumSamples(); n > 0 {
		h.chunks = append(h.chunks, piece{
			h.e.FirstT(), h.e.LastT(), n, h.e.Encoding(), h.e.Header(), h.e.AppendTo(nil),
		})
	}
}

func (h *head) begin(header histchunk.Header, t int64) {
	h.end()
	h.e.Reset(header)
	h.cut.Begin(t, chunkRange)
}

// float is a sample of another kind.
func (h *head) float(t int64) {
	if h.begin(histchunk.HeaderUnknown, t); h.enc != histchunk.Encoding(1) {
		h.chunks = append(h.chunks, piece{mint: t, enc: histchunk.Encoding(1)})
	}
	last := &h.chunks[len(h.chunks)-1]
	last.maxt = t
	last.samples++
	h.enc = histchunk.Encoding(1)
}

func (h *head) histogram(t int64, v *histogram.Histogram) {
	if h.e.NumSamples() == 0 {
		h.begin(histchunk.HeaderUnknown, t)
	} else if h.cut.Due(t, h.e.LastT(), h.e.NumSamples(), h.e.SizeBytes()) {
		h.begin(h.e.HeaderAfter(v), t)
	}
	if next, taken := h.e.Append(t, 0, v); !taken {
		h.begin(next, t)
		h.e.Append(t, 0, v)
	}
	h.enc = h.e.Encoding()
}

func (h *head) floats(t int64, v *histogram.FloatHistogram) {
	if h.e.NumSamples() == 0 {
		h.begin(histchunk.HeaderUnknown, t)
	} else if h.cut.Due(t, h.e.LastT(), h.e.NumSamples(), h.e.SizeBytes()) {
		h.begin(h.e.HeaderAfterFloat(v), t)
	}
	if next, taken := h.e.AppendFloat(t, 0, v); !taken {
		h.begin(next, t)
		h.e.AppendFloat(t, 0, v)
	}
	h.enc = h.e.Encoding()
}

// ruled is sample i of the rule that most vectors have.
func ruled(i, buckets int) *histogram.Histogram {
	h := &histogram.Histogram{Schema: 1, ZeroThreshold: 0.001, ZeroCount: 1, Count: 1}
	if buckets > 0 {
		h.PositiveSpans = []histogram.Span{{Length: uint32(buckets)}}
	}
	before := 0
	for b := range buckets {
		n := i*(i+b%7) + b
		h.PositiveBuckets = append(h.PositiveBuckets, int64(n-before))
		h.Count += uint64(n)
		before = n
	}
	h.Sum = 1.5 * float64(h.Count)
	return h
}

// constant is the histogram of buckets 1, 2, 3.
func constant() *histogram.Histogram {
	return &histogram.Histogram{
		Schema: 1, ZeroThreshold: 0.001, ZeroCount: 1, Count: 7, Sum: 10.5,
		PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: []int64{1, 1, 1},
	}
}

func TestCut_CutsWhereTheVectorsDo(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name, Rule string
			Step       int64
			Count      int
			Chunks     []piece
		}
	}
	load(t, "histogram_cutting.json", &file)
	require.Len(t, file.Vectors, 24)
	buckets := map[string]int{
		"few-per-range": 40, "large-few-per-range": 400, "large-near-the-border": 400,
		"0-buckets": 0, "1-buckets": 1, "4-buckets": 4, "8-buckets": 8, "16-buckets": 16,
		"40-buckets": 40, "160-buckets": 160, "400-buckets": 400,
	}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			var h head
			start := v.Chunks[0].mint
			for i := range v.Count {
				at := start + int64(i)*v.Step
				kind, rule, _ := strings.Cut(v.Name, "-")
				n, named := buckets[rule]
				switch {
				case kind == "integer" && named:
					h.histogram(at, ruled(i, n))
				case kind == "float" && named:
					h.floats(at, ruled(i, n).ToFloat(nil))
				case v.Name == "kind-alternates" && i%2 == 0:
					h.float(at)
				case v.Name == "kind-alternates":
					h.histogram(at, ruled(i, 4))
				case v.Name == "reset-every-25":
					h.histogram(at, ruled(i%25, 4))
				case v.Name == "bucket-added-every-5":
					h.histogram(at, ruled(i, 1+i/5))
				case v.Name == "gauge-shrinks-every-10":
					g := ruled(i, 10-i%10)
					g.Hint = histogram.HintGauge
					h.histogram(at, g)
				case v.Name == "constant":
					h.histogram(at, constant())
				default:
					require.Fail(t, "unknown rule", v.Rule)
				}
			}
			h.end()
			for i := range h.chunks {
				h.chunks[i].data = nil
			}
			require.Equal(t, v.Chunks, h.chunks)
		})
	}
}

func TestCut_AtTheEdges(t *testing.T) {
	const r = 1000
	cases := map[string]struct {
		first, last, t int64
		samples, size  int
		due            bool
	}{
		"nothing yet":                        {0, 0, 1, 1, 100, false},
		"the range is over":                  {0, 900, 1000, 2, 100, true},
		"one before":                         {0, 900, 999, 2, 100, false},
		"a negative range ends at 0":         {-1000, -1000, 0, 1, 100, true},
		"but this is in the range behind it": {-999, -999, 999, 1, 100, false},
		"too many bytes":                     {0, 100, 101, 10, 2048, true},
		"one less":                           {0, 100, 101, 10, 2047, true}, // the estimate is over
		"too many bytes, too few samples":    {0, 100, 101, 9, 2048, false},
		"but not for a range that is over":   {0, 100, 1000, 9, 2048, true},
		"a quarter full at a tenth":          {0, 99, 332, 10, 256, false},
		"which makes two":                    {0, 99, 500, 10, 256, true},
		"one byte less is not looked at":     {0, 99, 500, 10, 255, false},
		"a quarter full at half the range":   {0, 499, 999, 10, 256, false},
	}
	for name, c := range cases {
		var cut histchunk.Cut
		cut.Begin(c.first, r)
		require.Equal(t, c.due, cut.Due(c.t, c.last, c.samples, c.size), name)
	}
}

// The estimate is made once, when the chunk is a quarter full.
func TestCut_EstimatesOnce(t *testing.T) {
	var cut histchunk.Cut
	cut.Begin(0, 1000)
	require.False(t, cut.Due(100, 99, 10, 256), "two chunks of 500 ms")
	require.False(t, cut.Due(499, 498, 30, 900), "which looks like one of 1000 ms now")
	require.True(t, cut.Due(500, 499, 30, 900))
	cut.Begin(500, 1000)
	require.False(t, cut.Due(501, 500, 1, 100))
}
