package histogram_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// Digests are equal exactly where EqualByIndex says that histograms say the same.
func TestDigest_IsThatOfWhatAHistogramSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := histtest.Draw(pick(t))
		b := histtest.Follow(pick(t), a)
		require.Equal(t, a.EqualByIndex(b), a.Digest() == b.Digest())
		fa, fb := histtest.Floats(a), histtest.Floats(b)
		require.Equal(t, fa.EqualByIndex(fb), fa.Digest() == fb.Digest())
		require.Equal(t, a.Stale(), a.Digest() == fa.Digest(), "a float histogram is another kind")

		c := a.Copy()
		c.Hint = histogram.HintGauge
		c.Compact()
		require.Equal(t, a.Digest(), c.Digest(), "nor hint nor the form of spans count")
	})
}
