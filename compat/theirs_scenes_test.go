package compat

import (
	"testing"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"
)

// What the reference wrote is read by all readers of the reference: the tests know what
// must be there.
func TestScenes_OfTheReference_ReadByTheReference(t *testing.T) {
	eachScene(t, openTheirBlocks, 3000, requireReferenceReadsBlocks)
}

// A real Prometheus serves it.
func TestScenes_OfTheReference_ServedByPrometheus(t *testing.T) {
	eachScene(t, openTheirBlocks, 3000, requireServerReads)
}

// The same for what the reference does not do every day.
func TestOddities_OfTheReference_ReadByTheReference(t *testing.T) {
	eachOddity(t, requireReferenceReadsBlocks)
}

// eachOddity makes each directory with the reference and hands it to a test.
func eachOddity(t *testing.T, test func(t testing.TB, l left)) {
	for i, o := range oddities() {
		t.Run(o.name, func(t *testing.T) {
			w := newWorld(t, func(t testing.TB, dir string) blockEngine {
				return openTheirs(t, dir, theirBlockOptions, func(opts *reference.Options) {
					if o.options != nil {
						o.options(opts)
					}
				})
			}, plan{Seed: seed(t, 3100+uint64(i)), Series: 60})
			o.play(w)
			w.check("in the end")
			w.e.close()
			require.NotEmpty(t, metasOf(t, w.dir))
			test(t, left{dir: w.dir, want: w.want, excuses: excuses{overlap: o.overlap}})
		})
	}
}
