package memseries

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

// A commit of many samples, of whatever series in whatever order, is what its samples are one after
// the other.
func TestApply_ManySamplesAreThoseOfEach(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	whole, single := NewDirectory(Cutting{Range: 400, Samples: 8}), NewDirectory(Cutting{Range: 400, Samples: 8})
	var series [2][]*Series
	for i := range 3*pageLen + 9 {
		for k, d := range []*Directory{whole, single} {
			series[k] = append(series[k], newSeries(t, d, "i", strconv.Itoa(i)))
		}
	}
	far, err := restore(whole, 1<<30, labels.FromStrings("far", "1"))
	require.NoError(t, err)
	farToo, err := restore(single, 1<<30, labels.FromStrings("far", "1"))
	require.NoError(t, err)
	series[0], series[1] = append(series[0], far), append(series[1], farToo)

	newest := make([]int64, len(series[0]))
	for seq := uint64(1); seq < 300; seq++ {
		n := []int{0, 1, 2, aheadLen, aheadLen + 1, 2 * aheadLen, 2*aheadLen + 1, 5 * aheadLen, 700}[rnd.IntN(9)]
		var samples []Sample
		set, mint, maxt := ShardSet(0), int64(math.MaxInt64), int64(math.MinInt64)
		for range n {
			i := rnd.IntN(len(newest))
			if rnd.IntN(4) == 0 {
				i = len(newest) - 1 // several of one series
			}
			newest[i] += 1 + rnd.Int64N(60)
			set |= Bit(series[0][i])
			st := plain(series[0][i], newest[i], float64(rnd.IntN(100))/7)
			mint, maxt = min(mint, st.T), max(maxt, st.T)
			samples = append(samples, st)
			commit(single, seq, seq, series[1][i], st.T, math.Float64frombits(st.Sum))
		}
		whole.Shards.Lock(set)
		gotMint, gotMaxt := whole.Shards.ApplyLocked(samples, nil, seq, seq, alwaysOpen{})
		whole.Shards.Unlock(set)
		require.Equal(t, [2]int64{mint, maxt}, [2]int64{gotMint, gotMaxt})
	}
	for i := range newest {
		require.Equal(t, samplesOf(t, single, series[1][i], math.MaxUint64), samplesOf(t, whole, series[0][i], math.MaxUint64))
	}
}

// What is asked for with a record of 160 bytes, wherever it begins, are all lines that it is in but
// that of pendT.
func TestSeries_LiesInThreeLines(t *testing.T) {
	const line = 64
	record := reflect.TypeFor[Series]()
	offset := func(name string) (sum uintptr) {
		f, ok := record.FieldByName(name)
		require.True(t, ok)
		for n := range f.Index { // that of a struct in the record, and that in it
			sum += record.FieldByIndex(f.Index[:n+1]).Offset
		}
		return sum
	}
	if strconv.IntSize < 64 {
		t.Skip("the layout is for 64-bit machines: with pointers of four bytes a record has another size, and nothing is asked for ahead")
	}
	require.Equal(t, uintptr(160), record.Size(), "with another size records begin elsewhere in a line")
	for _, begin := range []uintptr{0, 32} {
		lines := map[uintptr]bool{}
		for _, name := range []string{"slot", "pendT", "prevMaxt", "cutAt"} {
			lines[(begin+offset(name))/line] = true
		}
		for at := range record.Size() {
			require.True(t, lines[(begin+at)/line], "byte %d of a record that begins at %d", at, begin)
		}
	}
}
