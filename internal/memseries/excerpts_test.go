package memseries

import (
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
)

// Excerpts of series are taken while others fill their pieces, free them and give them back: each
// is what Excerpt would have given, a sample after the other up to the snapshot, and the race
// detector must have nothing to say.
func TestViews_BesideWritersAndTrims(t *testing.T) {
	d := NewDirectory(defaultCutting)
	var series []*Series
	for i := range 3 * GroupLen {
		series = append(series, newSeries(t, d, "__name__", "m", "i", strconv.Itoa(i)))
	}
	done := make(chan struct{})
	var reading sync.WaitGroup
	var wrong error
	reading.Go(func() {
		var v Excerpts
		for i := 0; wrong == nil; i++ {
			select {
			case <-done:
				return
			default:
				wrong = takeExcerpts(d, &v, series[i%len(series):])
			}
		}
	})
	const samples = 900
	for i := range int64(samples) {
		for _, s := range series {
			commit(d, uint64(i+1), uint64(i), s, i, math.Sqrt(float64(i)))
		}
		if i%300 == 299 {
			d.Truncation.DropBefore(i - 100)
			d.Truncation.trimPieces()
		}
	}
	close(done)
	reading.Wait()
	require.NoError(t, wrong)
	var v Excerpts
	v.Take(d.Past(samples), nil, math.MinInt64, math.MaxInt64)
	require.Nil(t, v.Of(series[0]))
	for _, s := range series {
		got := samplesOf(t, d, s, samples)
		require.GreaterOrEqual(t, len(got), 100)
		for at, v := range got {
			require.Equal(t, math.Sqrt(float64(at)), v)
		}
	}
}

// AppendRefs gives what is in files of the excerpts that are left, in their order.
func TestViews_AppendRefs(t *testing.T) {
	d := NewDirectory(defaultCutting)
	var files chunkStore
	var series []*Series
	for i := range 5 {
		series = append(series, newSeries(t, d, "__name__", "m", "i", strconv.Itoa(i)))
	}
	for i := range int64(400) {
		if i == 300 {
			files.write(d, files.take(d))
		}
		for _, s := range series[:3+i%2] { // the last has none; that before it, half as many
			commit(d, uint64(i+1), uint64(i), s, i, 1)
		}
	}
	var v Excerpts
	v.Take(d.Past(math.MaxUint64), series, math.MinInt64, math.MaxInt64)
	var want []chunks.Ref
	for _, s := range series {
		var excerpt Excerpt
		d.Past(math.MaxUint64).Excerpt(s, math.MinInt64, math.MaxInt64, &excerpt)
		for _, c := range excerpt.Chunks {
			if c.Ref != 0 {
				want = append(want, c.Ref)
			}
		}
	}
	require.Len(t, want, 3*2+1, "as many were full when they were written")
	require.Equal(t, want, v.AppendRefs(nil, 100))
	require.Equal(t, want[:3], v.AppendRefs(nil, 3))
	require.Empty(t, v.AppendRefs(nil, 0))
	require.NotNil(t, v.Of(series[0]))
	require.Equal(t, want[2:], v.AppendRefs(nil, len(want)))
	require.Equal(t, append([]chunks.Ref{7}, want[2:]...), v.AppendRefs([]chunks.Ref{7}, 100))
	v.Forget()
	require.Empty(t, v.AppendRefs(nil, 100))
}

// takeExcerpts takes excerpts of the first series and decodes them.
func takeExcerpts(d *Directory, v *Excerpts, series []*Series) error {
	v.Take(d.Past(math.MaxUint64), series, math.MinInt64, math.MaxInt64)
	for _, s := range series[:min(len(series), GroupLen)] {
		excerpt := v.Of(s)
		if excerpt == nil {
			return errors.New("a series that was taken has no excerpt")
		}
		next := int64(-1)
		for _, c := range excerpt.Chunks {
			chunk, err := chunkenc.FromData(chunkenc.EncXOR, excerpt.Data(c))
			if err != nil {
				return err
			}
			for it := chunk.Iterator(nil); it.Next() != chunkenc.ValNone; {
				at, value := it.At()
				if next >= 0 && at != next || value != math.Sqrt(float64(at)) {
					return errors.Errorf("sample %d, %v where %d should be", at, value, next)
				}
				next = at + 1
			}
		}
	}
	if v.Of(series[0]) != nil {
		return errors.New("a series has another excerpt behind the last one")
	}
	return nil
}
