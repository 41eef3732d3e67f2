package compat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What we do to a directory with blocks is read by us, by the reference read-write and
// read-only, by promtool, and by a real Prometheus.
func TestScenes_OfOurs_ReadByAll(t *testing.T) {
	eachScene(t, openOurBlocks, 3200)
}

// The same for what the reference does.
func TestScenes_OfTheReference_ReadByAll(t *testing.T) {
	eachScene(t, openTheirBlocks, 3000)
}

// The same for what neither does every day.
func TestOddities_OfTheReference_ReadByAll(t *testing.T) {
	for i, o := range oddities() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(t testing.TB, dir string) blockEngine {
				return openTheirs(t, dir, theirBlockOptions, o.options)
			}, plan{Seed: seed(t, 3100+uint64(i)), Series: 60})
			o.play(w)
			w.check("in the end")
			w.e.close()
			require.NotEmpty(t, metasOf(t, w.dir))
			requireAllRead(t, i, left{dir: w.dir, want: w.want, excuses: excuses{overlap: o.overlap}})
		})
	}
}
