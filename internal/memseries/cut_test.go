package memseries

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/labels"
)

// cutter appends to one series until a chunk is full, and has it written.
type cutter struct {
	d     *Directory
	s     *Series
	fulls []Full
	refs  []chunks.Ref
	t     int64
}

func newCutter(tb testing.TB) *cutter {
	d := NewDirectory(Cutting{Range: math.MaxInt64, Samples: 8})
	s, _, err := d.GetOrCreate(labels.FromStrings("a", "b"))
	require.NoError(tb, err)
	c := &cutter{d: d, s: s, refs: []chunks.Ref{1}}
	for range 4 {
		c.run()
	}
	return c
}

func (c *cutter) run() {
	for c.d.FullBytes() == 0 {
		c.t++
		commit(c.d, 1, 1, c.s, c.t, float64(c.t)*1.1)
	}
	c.fulls, _ = c.d.CollectFull(c.fulls[:0], 0, math.MaxInt)
	c.d.Written(c.fulls, c.refs[:len(c.fulls)])
	c.s.numMapped = 0 // the list would grow
}

func TestCut_AllocatesNothing(t *testing.T) {
	c := newCutter(t)
	require.Zero(t, testing.AllocsPerRun(100, c.run))
}

func BenchmarkCut(b *testing.B) {
	c := newCutter(b)
	b.ReportAllocs()
	for range b.N {
		c.run()
	}
}
