package record_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/record"
)

var histogramTypes = []record.Type{
	record.TypeHistograms, record.TypeCustomHistograms, record.TypeHistogramsV2,
	record.TypeFloatHistograms, record.TypeCustomFloats, record.TypeFloatsV2,
}

func TestNewestHistogram_OfTheVectors(t *testing.T) {
	for _, v := range loadVectors(t, histogramTypes...) {
		var content []struct{ T int64 }
		require.NoError(t, json.Unmarshal(v.Content, &content))
		want := int64(math.MinInt64)
		for _, s := range content {
			want = max(want, s.T)
		}
		rec := v.bytes(t)
		got, ok := record.NewestHistogram(rec)
		require.True(t, ok, v.Name)
		require.Equal(t, want, got, v.Name)
		_, ok = record.NewestHistogram(append(rec[:len(rec):len(rec)], 0))
		require.False(t, ok, "%s and a byte", v.Name)
		whole := 0
		for n := 1; n < len(rec); n++ { // nothing is made up of a part, but of whole entries
			if newest, ok := record.NewestHistogram(rec[:n]); ok {
				require.LessOrEqual(t, newest, want, v.Name)
				whole++
			}
		}
		require.Less(t, whole, max(len(content), 1)+1, v.Name)
	}
}

func TestNewestHistogram_OfNothingAndOfOtherTypes(t *testing.T) {
	for _, typ := range histogramTypes {
		newest, ok := record.NewestHistogram([]byte{byte(typ)})
		require.True(t, ok)
		require.EqualValues(t, int64(math.MinInt64), newest)
	}
	for _, rec := range [][]byte{nil, {byte(record.TypeSamples)}, {0x33, 1, 2}} {
		_, ok := record.NewestHistogram(rec)
		require.False(t, ok)
	}
}

func FuzzNewestHistogram(f *testing.F) {
	for _, v := range loadVectors(f, histogramTypes...) {
		f.Add(v.bytes(f))
	}
	f.Fuzz(func(_ *testing.T, rec []byte) { record.NewestHistogram(rec) })
}
