package headsnap

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/labels"
)

// goldenExemplars is the worked example of docs/format/head-snapshot.md.
const goldenExemplars = "43" +
	"0e" + "0101610162" + "03" + "d00f" + "3fe0000000000000" + "0102696401 78" +
	"00" + "00" + "04" + "01" + "3ff0000000000000" + "00"

func exemplarRecord(t testing.TB) []byte {
	rec, err := hex.DecodeString(strings.ReplaceAll(goldenExemplars, " ", ""))
	require.NoError(t, err)
	return rec
}

func readExemplars(rec []byte) (list []exemplars.Entry, err error) {
	err = EachExemplar(rec, func(e *exemplars.Entry) { list = append(list, *e) })
	return list, err
}

func TestExemplars_TheWorkedExample(t *testing.T) {
	of := labels.FromStrings("a", "b")
	list := []exemplars.Entry{
		{Series: of, Ref: 7, Seq: 3, Exemplar: exemplar.Exemplar{Labels: labels.FromStrings("id", "x"), Value: 0.5, T: 1000, HasT: true}},
		{Series: of, Ref: 7, Seq: 4, Exemplar: exemplar.Exemplar{Value: 1, T: 999, HasT: true}},
	}
	rec, n := appendExemplars(nil, list)
	require.Equal(t, 2, n)
	require.Equal(t, hex.EncodeToString(exemplarRecord(t)), hex.EncodeToString(rec))
	require.Equal(t, KindExemplars, KindOf(rec))
	got, err := readExemplars(rec)
	require.NoError(t, err)
	require.Equal(t, list, got)
}

func TestExemplars_LongListsAreSplit(t *testing.T) {
	var list, got []exemplars.Entry
	for i := range 5000 {
		list = append(list, exemplars.Entry{
			Series: labels.FromStrings("s", fmt.Sprint(i%300)), Ref: uint64(i%300) << 30, Seq: uint64(i / 10),
			Exemplar: exemplar.Exemplar{T: math.MinInt64 * int64(i%2), HasT: true, Value: float64(i), Labels: labels.FromStrings("id", strings.Repeat("x", i%100))},
		})
	}
	records := 0
	for rest := list; len(rest) > 0; records++ {
		rec, n := appendExemplars(nil, rest)
		require.Less(t, len(rec), maxExemplarsBytes+1000)
		some, err := readExemplars(rec)
		require.NoError(t, err)
		got, rest = append(got, some...), rest[n:]
	}
	require.Greater(t, records, 3)
	require.Equal(t, list, got)
}

// Each cut and each flipped bit is read as something, or is damage with a place.
func TestExemplars_DamageIsFoundOrReads(t *testing.T) {
	rec := exemplarRecord(t)
	check := func(rec []byte) {
		if _, err := readExemplars(rec); err != nil {
			var corrupt *encbuf.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.LessOrEqual(t, corrupt.Offset, int64(len(rec)))
		}
	}
	for n := range rec {
		check(rec[:n])
		for bit := range 8 {
			flipped := append([]byte(nil), rec...)
			flipped[n] ^= 1 << bit
			check(flipped)
		}
	}
	_, err := readExemplars(append(rec[:len(rec):len(rec)], 2, 0))
	require.ErrorContains(t, err, "series without labels")
	_, err = readExemplars([]byte{typeGone})
	require.ErrorContains(t, err, "another type")
}

func FuzzExemplars(f *testing.F) {
	f.Add(exemplarRecord(f))
	f.Add([]byte{typeExemplars})
	f.Fuzz(func(t *testing.T, rec []byte) {
		var list []exemplars.Entry
		measured(t, len(rec), func() { list, _ = readExemplars(rec) })
		if len(list) == 0 {
			return
		}
		again, n := appendExemplars(nil, list)
		got, err := readExemplars(again)
		require.NoError(t, err)
		for i := range got[:n] {
			require.True(t, math.Float64bits(list[i].Value) == math.Float64bits(got[i].Value))
			list[i].Value, got[i].Value = 0, 0
		}
		require.Equal(t, list[:n], got)
	})
}
