package checkpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/headsnap"
)

func TestGone_HasTheNewestSegmentOfEachSeries(t *testing.T) {
	var g checkpoint.Gone
	require.Empty(t, g.List())
	g.Remember(3, 9, 7)
	g.Remember(4, 8, 9)
	require.Equal(t, []headsnap.Gone{{Ref: 7, Segment: 3}, {Ref: 8, Segment: 4}, {Ref: 9, Segment: 4}}, g.List())
}
