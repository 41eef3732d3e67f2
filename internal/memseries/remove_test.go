package memseries

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

func TestRemoveIdle_RemovesOnlySeriesThatNobodyNeeds(t *testing.T) {
	d := NewDirectory(defaultCutting)
	names := []string{"idle", "pinned", "sample", "newer", "kept by the caller", "never written"}
	byName := map[string]*Series{}
	for i, name := range names {
		s := newSeries(t, d, "name", name)
		byName[name] = s
		s.Unpin()
		if name != "never written" {
			commit(d, uint64(i+1), uint64(i+1), s, 50, 1)
			s.SetLogged(true)
		}
	}
	commit(d, 10, 10, byName["sample"], 150, 1)
	byName["pinned"].Pin()
	byName["newer"].Reserve(100, 1) // on its way
	d.DropBefore(100)

	asked := 0
	removed := d.RemoveIdle(100, func(ref uint64) bool {
		asked++
		require.NotNil(t, d.ByRef(ref), "it is asked before")
		return ref != byName["kept by the caller"].Ref()
	})
	require.Equal(t, 3, asked)
	require.Equal(t, []uint64{byName["idle"].Ref(), byName["never written"].Ref()}, removed)
	require.Equal(t, 4, d.Len())
	require.True(t, byName["idle"].Dead())
	require.Nil(t, d.FindPinned(labels.FromStrings("name", "idle")))

	byName["pinned"].Unpin()
	require.Equal(t, []uint64{byName["pinned"].Ref(), byName["kept by the caller"].Ref()}, d.RemoveIdle(100, nil))
	again := newSeries(t, d, "name", "idle")
	require.Greater(t, again.Ref(), byName["never written"].Ref(), "refs are never used again")
}

func TestRemoveIdle_TakesMarksAndPostingsAlong(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b", "c", "d")
	s.Unpin()
	for i := range 10 {
		commit(d, uint64(i+1), 0, s, int64(i), 1)
	}
	require.NotEmpty(t, d.ShardOf(s).mu.marks)
	d.DropBefore(100)
	require.Len(t, d.RemoveIdle(100, nil), 1)
	require.Empty(t, d.ShardOf(s).mu.marks)
	require.Empty(t, d.Postings().LabelNames(nil))
}

func TestRemoveIdle_LabelPlacesAreUsedAgain(t *testing.T) {
	d := NewDirectory(defaultCutting)
	for round := range 5 {
		for i := range 100 {
			newSeries(t, d, "a", fmt.Sprint(round, " ", i)).Unpin()
		}
		require.Len(t, d.RemoveIdle(0, nil), 100)
	}
	require.LessOrEqual(t, d.arena.next, uint32(100))
}

func TestRestorer_OldSamplesAreCountedWhateverTheirSeries(t *testing.T) {
	d := NewDirectory(defaultCutting)
	_, err := d.Restore(7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	r := d.NewRestorer()
	r.MinValid = 100
	r.Append(7, 99, 1, 1)
	r.Append(20, 99, 1, 1)
	r.Append(7, 100, 1, 1)
	r.Append(7, 99, 1, 1)
	require.EqualValues(t, 3, r.Old)
	require.EqualValues(t, 1, r.Samples)
	require.Zero(t, r.Unknown+r.Late)
	r.Close()
	require.EqualValues(t, 21, d.NextRef(), "a ref that the log names is never handed out")
	require.NoError(t, d.FinishRestore(1, func(Mapped) (float64, error) { return math.NaN(), nil }))
	require.EqualValues(t, 100, d.ByRef(7).Mint())
}
