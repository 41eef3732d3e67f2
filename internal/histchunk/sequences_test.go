package histchunk_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// named is a histogram of a file of sequences, and a hint.
type named struct {
	name string
	hint histogram.ResetHint
}

func (n *named) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&n.name, &n.hint})
}

// read is a sample as it is read back.
type read struct {
	t int64
	named
}

func (r *read) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&r.t, &r.named})
}

// sequences is a file of histograms that were appended to a head.
type sequences struct {
	Vectors []struct {
		Name    string
		Samples []struct {
			T     int64
			H, FH *named
		}
		Read   []read
		Chunks []struct {
			Data, Header        string
			Encoding            histchunk.Encoding
			Mint, Maxt, Samples int64
		}
	}
	Ints   map[string]*histtest.Int
	Floats map[string]*histtest.Float
}

func (s *sequences) int(n named) *histogram.Histogram {
	h := s.Ints[n.name].Copy()
	h.Hint = n.hint
	return h
}

func (s *sequences) float(n named) *histogram.FloatHistogram {
	h := s.Floats[n.name].Copy()
	h.Hint = n.hint
	return h
}

// A head that appends in order has these chunks, and reads back these samples and hints.
func TestEncoder_MakesTheChunksOfSequences(t *testing.T) {
	var file sequences
	load(t, "histogram_sequences.json", &file)
	require.Len(t, file.Vectors, 34)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			var h head
			for _, s := range v.Samples {
				if s.H != nil {
					h.histogram(s.T, file.int(*s.H))
				} else {
					h.floats(s.T, file.float(*s.FH))
				}
			}
			h.end()
			require.Len(t, h.chunks, len(v.Chunks))
			for i, want := range v.Chunks {
				got := h.chunks[i]
				if want.Data != "" { // of long ones the file has only what is about them
					require.Equal(t, want.Data, hex.EncodeToString(got.data), "chunk %d", i)
				}
				require.Equal(t, headers[want.Header], got.header)
				require.Equal(t, want.Encoding, got.enc)
				require.EqualValues(t, want.Samples, got.samples)
				require.Equal(t, [2]int64{want.Mint, want.Maxt}, [2]int64{got.mint, got.maxt})
			}
			requireRead(t, &file, h.chunks, v.Read)
		})
	}
}

// requireRead decodes chunks, and compares samples and hints.
func requireRead(t *testing.T, file *sequences, chunks []piece, want []read) {
	t.Helper()
	var d histchunk.Decoder
	for _, c := range chunks {
		require.NoError(t, d.Reset(c.enc, c.data))
		for d.Next() {
			require.NotEmpty(t, want)
			w := want[0]
			want = want[1:]
			require.Equal(t, w.t, d.T())
			require.Equal(t, w.hint, d.Hint(), "at %d", w.t)
			if d.Floats() {
				var f histogram.FloatHistogram
				d.FloatHistogram(&f)
				require.True(t, f.Equal(file.float(w.named)), fmt.Sprint(f))
				continue
			}
			var h histogram.Histogram
			d.Histogram(&h)
			require.True(t, h.Equal(file.int(w.named)), fmt.Sprint(h))
		}
		require.NoError(t, d.Err())
	}
	require.Empty(t, want)
}
