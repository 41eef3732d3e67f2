package record

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/wal"
)

// lateReach is the worked example of docs/format/wal-records.md.
var lateReach = &wal.Reach{Mark: 3, NextRef: 200, Segment: 5, FirstSeq: 310, Synced: 329}

func TestLateReach_TheWorkedExample(t *testing.T) {
	rec := AppendLateReach(nil, lateReach)
	require.Equal(t, "9503c80105b602c902", hex.EncodeToString(rec))
	got, err := ReadLateReach(rec)
	require.NoError(t, err)
	require.Equal(t, lateReach, got)
	require.Equal(t, TypeLateReach, TypeOf(rec))
	require.False(t, TypeLateReach.HoldsSamples())
	require.Equal(t, "reach of late samples", TypeLateReach.String())
}

func TestLateReach_DamageIsFound(t *testing.T) {
	rec := AppendLateReach(nil, lateReach)
	bad := [][]byte{append(rec[:len(rec):len(rec)], 0)}
	for n := 1; n < len(rec); n++ {
		bad = append(bad, rec[:n])
	}
	for _, r := range []*wal.Reach{{Mark: 6, Segment: 5}, {Segment: math.MinInt}, {Mark: -1}} {
		bad = append(bad, AppendLateReach(nil, r))
	}
	for _, b := range bad {
		_, err := ReadLateReach(b)
		var damage *encbuf.CorruptError
		require.ErrorAs(t, err, &damage, "%x", b)
	}
}
