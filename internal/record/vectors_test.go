package record_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/record"
)

type vector struct {
	Name     string
	TypeByte record.Type `json:"type_byte"`
	Record   string
	Content  json.RawMessage
}

func (v vector) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.Record)
	require.NoError(t, err)
	return b
}

// loadVectors returns the vectors of the wanted types, or all.
func loadVectors(t testing.TB, types ...record.Type) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/wal_records.json")
	require.NoError(t, err)
	var file struct{ Vectors []vector }
	require.NoError(t, json.Unmarshal(b, &file))
	var out []vector
	for _, v := range file.Vectors {
		for _, typ := range types {
			if v.TypeByte == typ {
				out = append(out, v)
			}
		}
	}
	if len(types) == 0 {
		out = file.Vectors
	}
	require.NotEmpty(t, out)
	return out
}

type series struct {
	Ref    uint64
	Labels [][2]string
}

func encodeSeries(all []series) []byte {
	b := record.BeginSeries(nil)
	for _, s := range all {
		b = record.AppendSeriesRef(b, s.Ref, len(s.Labels))
		for _, l := range s.Labels {
			b = record.AppendLabel(b, l[0], l[1])
		}
	}
	return b
}

func decodeSeries(rec []byte) ([]series, error) {
	out := []series{}
	var d record.SeriesDecoder
	d.Reset(rec)
	for d.Next() {
		s := series{Ref: d.Ref(), Labels: [][2]string{}}
		for name, value, ok := d.Label(); ok; name, value, ok = d.Label() {
			s.Labels = append(s.Labels, [2]string{string(name), string(value)})
		}
		if d.Err() == nil {
			out = append(out, s)
		}
	}
	return out, d.Err()
}

// decodeSamples reads in steps of batch samples.
func decodeSamples(rec []byte, batch int) (samples []record.Sample, starts []int64, err error) {
	var d record.SampleDecoder
	d.Reset(rec)
	buf, st := make([]record.Sample, batch), make([]int64, batch)
	for {
		n, err := d.DecodeStarts(buf, st)
		samples, starts = append(samples, buf[:n]...), append(starts, st[:n]...)
		if err != nil || n < batch {
			return samples, starts, err
		}
	}
}

func decodeTombstones(rec []byte) ([]record.Tombstone, error) {
	out := []record.Tombstone{}
	var d record.TombstoneDecoder
	d.Reset(rec)
	for d.Next() {
		out = append(out, d.At())
	}
	return out, d.Err()
}

func TestSeries_EqualTheVectorsBothWays(t *testing.T) {
	for _, v := range loadVectors(t, record.TypeSeries) {
		t.Run(v.Name, func(t *testing.T) {
			want := []series{}
			require.NoError(t, json.Unmarshal(v.Content, &want))
			got, err := decodeSeries(v.bytes(t))
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, v.bytes(t), encodeSeries(want))
		})
	}
}

func TestSamples_EqualTheVectors(t *testing.T) {
	for _, v := range loadVectors(t, record.TypeSamples, record.TypeSamplesV2) {
		t.Run(v.Name, func(t *testing.T) {
			var content []struct {
				Ref   uint64
				T, ST int64
				V     string
			}
			require.NoError(t, json.Unmarshal(v.Content, &content))
			for batch := 1; batch < 4; batch++ {
				got, starts, err := decodeSamples(v.bytes(t), batch)
				require.NoError(t, err)
				require.Len(t, got, len(content))
				for i, c := range content {
					bits, err := strconv.ParseUint(c.V, 16, 64)
					require.NoError(t, err)
					require.Equal(t, c.Ref, got[i].Ref)
					require.Equal(t, c.T, got[i].T)
					require.Equal(t, bits, math.Float64bits(got[i].V))
					require.Equal(t, c.ST, starts[i])
				}
				if v.TypeByte == record.TypeSamples {
					require.Equal(t, v.bytes(t), record.AppendSamples(nil, got))
				}
			}
		})
	}
}

func TestTombstones_EqualTheVectorsBothWays(t *testing.T) {
	for _, v := range loadVectors(t, record.TypeTombstones) {
		t.Run(v.Name, func(t *testing.T) {
			want := []record.Tombstone{}
			require.NoError(t, json.Unmarshal(v.Content, &want))
			got, err := decodeTombstones(v.bytes(t))
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, v.bytes(t), record.AppendTombstones(nil, want))
		})
	}
}

func TestTypeOf_NamesEveryTypeOfTheVectors(t *testing.T) {
	for _, v := range loadVectors(t) {
		typ := record.TypeOf(v.bytes(t))
		require.Equal(t, v.TypeByte, typ)
		require.True(t, typ.Known(), v.Name)
		require.NotContains(t, typ.String(), "unknown")
	}
	require.Equal(t, record.TypeNone, record.TypeOf(nil))
	require.False(t, record.TypeNone.Known())
	require.False(t, record.Type(0x80).Known())
	require.Equal(t, "unknown type 128", record.Type(0x80).String())
	require.Equal(t, "min valid time", record.TypeMinValidTime.String())
}

func TestDecoders_RefuseARecordOfAnotherType(t *testing.T) {
	for _, rec := range [][]byte{nil, {0}, {4}, {0x80, 1}} {
		_, err := decodeSeries(rec)
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		_, _, err = decodeSamples(rec, 1)
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
		_, err = decodeTombstones(rec)
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
	}
}
