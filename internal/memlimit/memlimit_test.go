package memlimit

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHold_SetsTheLimitOfTheGroupUntilTheLastRelease(t *testing.T) {
	before := debug.SetMemoryLimit(None)
	defer debug.SetMemoryLimit(before)
	limit := func() int64 { return debug.SetMemoryLimit(-1) }

	first, second := hold(1<<40), hold(1<<40)
	require.EqualValues(t, int64(1<<40), limit())
	first()
	first()
	require.EqualValues(t, int64(1<<40), limit())
	second()
	require.EqualValues(t, int64(None), limit())

	release := hold(1 << 40)
	debug.SetMemoryLimit(1 << 41)
	release()
	require.EqualValues(t, int64(1<<41), limit(), "the program's own stays")

	hold(1 << 40)()
	require.EqualValues(t, int64(1<<41), limit())
	require.EqualValues(t, int64(1<<41), Bytes())
	debug.SetMemoryLimit(None)
	hold(None)()
	require.EqualValues(t, int64(None), limit())
}

func TestWorkers_GetAnEighthOfTheLimit(t *testing.T) {
	const mb = 1 << 20
	for _, tc := range []struct {
		n     int
		limit int64
		want  int
	}{
		{64, None, 64}, {64, 1 << 40, 64}, {64, 512 * mb, 16}, {64, 100 * mb, 3}, {64, 10 * mb, 2}, {1, mb, 1}, {2, mb, 2},
	} {
		require.Equal(t, tc.want, Workers(tc.n, 4*mb, tc.limit), "%+v", tc)
	}
	require.EqualValues(t, 900, ofGroup(1000))
	require.EqualValues(t, int64(None), ofGroup(None))
}
