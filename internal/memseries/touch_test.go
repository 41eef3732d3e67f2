package memseries

import (
	"math"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Touch looks at pieces that others fill, free and give back meanwhile: the race detector
// must have nothing to say, and the samples must all be there.
func TestTouch_BesideWritersAndTrims(t *testing.T) {
	d := NewDirectory(defaultCutting)
	var series []*Series
	for i := range 3 * TouchLen {
		series = append(series, newSeries(t, d, "__name__", "m", "i", strconv.Itoa(i)))
	}
	done := make(chan struct{})
	var touching sync.WaitGroup
	touching.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				d.Touch(series[i%len(series):])
			}
		}
	})
	const samples = 900
	for i := range int64(samples) {
		for _, s := range series {
			commit(d, uint64(i+1), uint64(i), s, i, math.Sqrt(float64(i)))
		}
		if i%300 == 299 {
			d.DropBefore(i - 100)
			d.trimPieces()
		}
	}
	close(done)
	touching.Wait()
	d.Touch(nil)
	for _, s := range series {
		got := samplesOf(t, d, s, samples)
		require.GreaterOrEqual(t, len(got), 100)
		for at, v := range got {
			require.Equal(t, math.Sqrt(float64(at)), v)
		}
	}
}
