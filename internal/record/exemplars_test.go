package record_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

// exemplarEntry is an exemplar and its series.
type exemplarEntry struct {
	ref uint64
	e   exemplar.Exemplar
}

func encodeExemplars(all []exemplarEntry) []byte {
	var e record.ExemplarEncoder
	rec := e.Begin(nil)
	for _, x := range all {
		rec = e.Append(rec, x.ref, x.e.T, x.e.Value, x.e.Labels)
	}
	return rec
}

func decodeExemplars(t require.TestingT, rec []byte) (all []exemplarEntry, err error) {
	var d record.ExemplarDecoder
	for d.Reset(rec); d.Next(); {
		ls, err := d.Labels()
		require.NoError(t, err)
		all = append(all, exemplarEntry{d.Ref(), exemplar.Exemplar{Labels: ls, Value: d.Value(), T: d.T()}})
	}
	return all, d.Err()
}

func requireSameExemplars(t require.TestingT, want, got []exemplarEntry) {
	require.Len(t, got, len(want))
	for i, w := range want {
		require.Equal(t, w.ref, got[i].ref)
		require.True(t, w.e.Equal(got[i].e), "%v %v", w, got[i])
	}
}

func TestExemplars_EqualTheVectorsBothWays(t *testing.T) {
	for _, v := range loadVectors(t, record.TypeExemplars) {
		var content []struct {
			Ref    uint64
			T      int64
			V      histtest.Bits
			Labels [][2]string
		}
		require.NoError(t, json.Unmarshal(v.Content, &content))
		var want []exemplarEntry
		for _, c := range content {
			var ls []labels.Label
			for _, l := range c.Labels {
				ls = append(ls, labels.Label{Name: l[0], Value: l[1]})
			}
			want = append(want, exemplarEntry{
				c.Ref, exemplar.Exemplar{Labels: labels.New(ls...), Value: float64(c.V), T: c.T},
			})
		}
		rec := v.bytes(t)
		got, err := decodeExemplars(t, rec)
		require.NoError(t, err)
		requireSameExemplars(t, want, got)
		require.Equal(t, rec, encodeExemplars(want))

		whole := 0
		for cut := 2; cut < len(rec); cut++ {
			got, err := decodeExemplars(t, rec[:cut])
			requireSameExemplars(t, want[:len(got)], got)
			if err == nil {
				whole++
				continue
			}
			requirePlace(t, rec[:cut], err)
		}
		require.Equal(t, len(want)-1, whole, "cuts between entries are not damage")
	}
}

func TestExemplars_OfNothingAndOfOtherTypes(t *testing.T) {
	require.Equal(t, []byte{4}, encodeExemplars(nil))
	got, err := decodeExemplars(t, []byte{4})
	require.NoError(t, err)
	require.Empty(t, got)
	for _, rec := range [][]byte{nil, {5}, {0x33, 1, 2}} {
		_, err := decodeExemplars(t, rec)
		require.ErrorIs(t, err, encbuf.ErrCorrupt)
	}
}

func TestExemplars_AnyNumbersSurvive(t *testing.T) {
	want := []exemplarEntry{
		{math.MaxUint64, exemplar.Exemplar{T: math.MaxInt64, Value: math.Float64frombits(0x7ff0000000000002)}},
		{1, exemplar.Exemplar{T: math.MinInt64, Value: math.Copysign(0, -1), Labels: labels.FromStrings("a", "é")}},
		{1 << 63, exemplar.Exemplar{T: -1, Value: math.Inf(1)}},
	}
	got, err := decodeExemplars(t, encodeExemplars(want))
	require.NoError(t, err)
	requireSameExemplars(t, want, got)
}

// Labels that others wrote out of order, or without a value, are put right.
func TestExemplars_LabelsBecomeCanonical(t *testing.T) {
	var e record.ExemplarEncoder
	rec := e.Append(e.Begin(nil), 7, 1, 2, labels.Labels{})
	rec[len(rec)-1] = 3
	for _, s := range []string{"z", "1", "a", "2", "empty", ""} {
		rec = encbuf.AppendString(rec, s)
	}
	got, err := decodeExemplars(t, rec)
	require.NoError(t, err)
	require.Equal(t, labels.FromStrings("a", "2", "z", "1"), got[0].e.Labels)
}

func FuzzDecodeExemplars(f *testing.F) {
	seed(f, record.TypeExemplars)
	f.Fuzz(func(t *testing.T, rec []byte) {
		got, err := decodeExemplars(t, rec)
		if err != nil {
			requirePlace(t, rec, err)
		}
		again, err := decodeExemplars(t, encodeExemplars(got))
		require.NoError(t, err)
		requireSameExemplars(t, got, again)
	})
}

func TestMetadata_EqualsTheVectorsBothWays(t *testing.T) {
	for _, v := range loadVectors(t, record.TypeMetadata) {
		var content []struct {
			Ref        uint64
			Type       record.MetricType `json:"metric_type"`
			Unit, Help string
		}
		require.NoError(t, json.Unmarshal(v.Content, &content))
		rec := record.BeginMetadata(nil)
		var d record.MetadataDecoder
		d.Reset(v.bytes(t))
		for _, c := range content {
			want := record.Metadata{Type: c.Type, Unit: c.Unit, Help: c.Help}
			rec = record.AppendMetadata(rec, c.Ref, want)
			require.True(t, d.Next())
			require.Equal(t, c.Ref, d.Ref())
			require.Equal(t, want, d.Metadata())
		}
		require.False(t, d.Next())
		require.NoError(t, d.Err())
		require.Equal(t, v.bytes(t), rec)
	}
}

// Fields of other names are skipped, and a kind that nobody knows is unknown.
func TestMetadata_OfOthers(t *testing.T) {
	rec := append(record.BeginMetadata(nil), 9, 200, 3)
	for _, s := range []string{"HELP", "h", "COLOUR", "red", "UNIT", "u"} {
		rec = encbuf.AppendString(rec, s)
	}
	var d record.MetadataDecoder
	d.Reset(rec)
	require.True(t, d.Next())
	require.Equal(t, record.Metadata{Type: record.MetricUnknown, Unit: "u", Help: "h"}, d.Metadata())
	require.EqualValues(t, 7, record.MetricStateset, "the last one has a name")
}
