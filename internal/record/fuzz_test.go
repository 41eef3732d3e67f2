package record_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/record"
)

func seed(f *testing.F, types ...record.Type) {
	for _, v := range loadVectors(f, types...) {
		f.Add(v.bytes(f))
	}
}

// requirePlace asserts that an error is damage at a place inside the record.
func requirePlace(t *testing.T, rec []byte, err error) {
	t.Helper()
	var ce *encbuf.CorruptError
	require.ErrorAs(t, err, &ce)
	require.GreaterOrEqual(t, ce.Offset, int64(0))
	require.LessOrEqual(t, ce.Offset, int64(len(rec)))
}

func FuzzDecodeSeries(f *testing.F) {
	seed(f, record.TypeSeries)
	f.Fuzz(func(t *testing.T, rec []byte) {
		got, err := decodeSeries(rec)
		if err != nil {
			requirePlace(t, rec, err)
		}
		again, err := decodeSeries(encodeSeries(got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func FuzzDecodeSamples(f *testing.F) {
	seed(f, record.TypeSamples, record.TypeSamplesV2)
	f.Fuzz(func(t *testing.T, rec []byte) {
		got, _, err := decodeSamples(rec, 3)
		if err != nil {
			requirePlace(t, rec, err)
		}
		requireSameSamples(t, got, record.AppendSamples(nil, got))
		raw := samplesFromBytes(rec)
		requireSameSamples(t, raw, record.AppendSamples(nil, raw))
	})
}

func requireSameSamples(t *testing.T, want []record.Sample, rec []byte) {
	t.Helper()
	var d record.SampleDecoder
	d.Reset(rec)
	require.GreaterOrEqual(t, d.MaxSamples(), len(want))
	got, _, err := decodeSamples(rec, 5)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.Ref, got[i].Ref)
		require.Equal(t, w.T, got[i].T)
		require.Equal(t, math.Float64bits(w.V), math.Float64bits(got[i].V))
	}
}

// samplesFromBytes makes samples of any numbers whatever.
func samplesFromBytes(b []byte) (out []record.Sample) {
	for ; len(b) >= 24; b = b[24:] {
		out = append(out, record.Sample{
			Ref: binary.LittleEndian.Uint64(b),
			T:   int64(binary.LittleEndian.Uint64(b[8:])),
			V:   math.Float64frombits(binary.LittleEndian.Uint64(b[16:])),
		})
	}
	return out
}

func FuzzDecodeTombstones(f *testing.F) {
	seed(f, record.TypeTombstones)
	f.Fuzz(func(t *testing.T, rec []byte) {
		got, err := decodeTombstones(rec)
		if err != nil {
			requirePlace(t, rec, err)
		}
		again, err := decodeTombstones(record.AppendTombstones(nil, got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func FuzzDecodeMetadata(f *testing.F) {
	seed(f, record.TypeMetadata)
	f.Fuzz(func(t *testing.T, rec []byte) {
		var d record.MetadataDecoder
		again := record.BeginMetadata(nil)
		for d.Reset(rec); d.Next(); {
			again = append(again, d.Entry()...)
			requireMetadata(t, d.Ref(), d.Metadata())
		}
		if d.Err() != nil {
			requirePlace(t, rec, d.Err())
			return
		}
		require.Equal(t, rec, again)
	})
}

// requireMetadata writes an entry and reads it again.
func requireMetadata(t *testing.T, ref uint64, m record.Metadata) {
	t.Helper()
	var d record.MetadataDecoder
	d.Reset(record.AppendMetadata(record.BeginMetadata(nil), ref, m))
	require.True(t, d.Next())
	require.Equal(t, ref, d.Ref())
	require.Equal(t, m, d.Metadata())
	require.False(t, d.Next())
	require.NoError(t, d.Err())
}
