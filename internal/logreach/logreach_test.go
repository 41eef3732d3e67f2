package logreach_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/wal"
)

func TestReach_TellsReplayOnlyWhatIsKnown(t *testing.T) {
	r := logreach.Reach{Reach: wal.Reach{Segment: 3}}
	require.Nil(t, r.ForReplay())
	r.Found = true
	require.Equal(t, &wal.Reach{Segment: 3}, r.ForReplay())
}

func TestState_GoesByDamagesAndByTheNote(t *testing.T) {
	noted := &logreach.Reach{Found: true, Noted: true}
	for name, tc := range map[string]struct {
		report wal.ReplayReport
		want   logreach.State
		whole  bool
		stale  int64
	}{
		"whole":    {wal.ReplayReport{Reached: true}, logreach.State{Noted: true}, true, 7},
		"torn":     {wal.ReplayReport{Reached: true, Damages: []wal.Damage{{Tail: true}}}, logreach.State{Noted: true}, true, 7},
		"harmless": {wal.ReplayReport{Damages: []wal.Damage{{Harmless: true}}}, logreach.State{}, true, math.MaxInt64},
		"lost":     {wal.ReplayReport{Damages: []wal.Damage{{}}}, logreach.State{Lost: true}, false, logreach.NeverTruncated},
		"omitted":  {wal.ReplayReport{OmittedDamages: 1}, logreach.State{Lost: true}, false, logreach.NeverTruncated},
		"foreign": {wal.ReplayReport{Foreign: 1, Damages: []wal.Damage{{Tail: true}}}, logreach.State{Foreign: true}, false,
			logreach.NeverTruncated},
		"foreign checkpoint": {wal.ReplayReport{ForeignCheckpoint: true}, logreach.State{Foreign: true}, true, logreach.NeverTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			s := logreach.StateOf(&tc.report, noted)
			require.Equal(t, tc.want, s)
			require.Equal(t, tc.whole, logreach.IsWhole(&tc.report))
			require.Equal(t, tc.stale, s.Stale(7))
			require.False(t, s.IsCut(0))
			require.Equal(t, !s.Noted, s.IsCut(1))
		})
	}
}

func TestState_AnEmptyLogLacksSeries(t *testing.T) {
	empty := &wal.ReplayReport{Checkpoint: -1}
	require.True(t, logreach.State{}.MayLackSeries(empty))
	require.False(t, logreach.State{Noted: true}.MayLackSeries(empty), "it was empty before")
	require.False(t, logreach.State{}.MayLackSeries(&wal.ReplayReport{Checkpoint: 2}))
	require.True(t, logreach.State{Lost: true}.MayLackSeries(&wal.ReplayReport{Checkpoint: 2}))
}
