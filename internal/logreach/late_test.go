package logreach_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

func TestLate_WhatIsKnownOfALogThatBeginsSomewhere(t *testing.T) {
	noted := &wal.Reach{Mark: 2, Segment: 4, Synced: 9}
	ours, other := &wal.ReplayReport{LastSeq: 9}, &wal.ReplayReport{LastSeq: 9, Foreign: 1}
	for name, c := range map[string]struct {
		noted       *wal.Reach
		first, last int // segments; none if first is behind last
		marked      bool
		rep         *wal.ReplayReport

		asked, elsewhere, damaged bool
	}{
		"nothing is noted":                 {nil, 3, 4, false, ours, false, false, false},
		"as it was":                        {noted, 2, 4, false, ours, true, false, false},
		"nothing is there":                 {noted, 1, 0, false, ours, true, true, false},
		"its end is missing":               {noted, 2, 3, false, ours, true, false, false},
		"its beginning is missing":         {noted, 3, 4, false, ours, true, true, true},
		"a new one":                        {noted, 5, 6, false, ours, false, true, true},
		"a new one that says so":           {noted, 5, 6, true, ours, false, false, false},
		"a new one of others":              {noted, 5, 5, false, other, false, true, false},
		"a new one in which there is none": {noted, 5, 5, false, &wal.ReplayReport{}, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			fs := tsdbtest.NewMemFS()
			for n := c.first; n <= c.last; n++ {
				require.NoError(t, fs.WriteFile(fmt.Sprintf("data/wbl/%08d", n), nil))
			}
			l := logreach.Late{Noted: c.noted}
			require.NoError(t, l.List(fs, "data/wbl"))
			require.Equal(t, c.asked, l.ForReplay() != nil)
			l.Marked = c.marked
			require.Equal(t, c.elsewhere, l.BeginsElsewhere())
			rep := *c.rep
			l.Weigh(&rep)
			require.Equal(t, c.damaged, len(rep.Damages) > 0, "%+v", rep.Damages)
		})
	}
}
