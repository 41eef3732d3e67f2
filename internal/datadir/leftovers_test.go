package datadir_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const block = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

func diskWith(t *testing.T, files ...string) *tsdbtest.MemFS {
	t.Helper()
	disk := tsdbtest.NewMemFS()
	for _, name := range files {
		require.NoError(t, disk.WriteFile("data/"+name, []byte(name)))
	}
	return disk
}

func filesIn(disk *tsdbtest.MemFS) (names []string) {
	for _, name := range disk.Files() {
		if name, ok := strings.CutPrefix(name, "data/"); ok && name != "" { // "": it is empty
			names = append(names, name)
		}
	}
	return names
}

// Only what has a name of ours and could be made by us goes.
func TestRemoveLeftovers_GoesByNameAndContent(t *testing.T) {
	ours := []string{
		"tmp-block-" + block + "/index", "tmp-block-" + block + "/chunks/000001", "tmp-deleted-" + block + "/anything",
		"tmp-checkpoint/00000001", "tmp-head-snapshot/00000000", "tmp-head-snapshot/sidecar", "tmp-blocks.tsdb",
		"tmp-wal-00000003", "tmp-chunks_head-000001", "copy.tmp-snapshot/wal/00000001", "copy.tmp-snapshot/" + block + "/note",
		"tmp-backfill-" + block + "/run-1", "tmp-backfill-" + block + "/blocks/" + block + "/index",
	}
	theirs := []string{
		"tmp-notes/1", "tmp-block-x/index", "tmp-wal-x", "monday.tmp-snapshot/letter", "tmp-backfill-" + strings.ToLower(block) + "/run-1",
		"wal/00000001",
	}
	disk := diskWith(t, append(ours, theirs...)...)
	busy, err := datadir.RemoveLeftovers(disk, "data")
	require.NoError(t, err)
	require.False(t, busy)
	require.ElementsMatch(t, theirs, filesIn(disk))
}

// A name that the next run needs is made free: what has it and is not ours goes into quarantine.
func TestRemoveLeftovers_SetsAsideWhatIsInTheWay(t *testing.T) {
	disk := diskWith(t, "tmp-checkpoint/letter", "tmp-head-snapshot/00000000", "tmp-wal-00000003/x")
	_, err := datadir.RemoveLeftovers(disk, "data")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"quarantine/tmp-checkpoint/letter", "quarantine/tmp-wal-00000003/x"}, filesIn(disk))
}

// Who writes blocks beside an open database keeps his directory.
func TestRemoveLeftovers_LeavesAWriterAtWork(t *testing.T) {
	name := datadir.BackfillPrefix + block
	disk := diskWith(t, name+"/run-1")
	lock, err := disk.LockDir("data/"+name, datadir.Owner())
	require.NoError(t, err)
	busy, err := datadir.RemoveLeftovers(disk, "data")
	require.NoError(t, err)
	require.True(t, busy)
	require.Contains(t, filesIn(disk), name+"/run-1")

	require.NoError(t, lock.Release())
	busy, err = datadir.RemoveLeftovers(disk, "data")
	require.NoError(t, err)
	require.False(t, busy)
	require.Empty(t, filesIn(disk))
}

func TestRemoveForeignSnapshots_KeepsWhatElseIsInThem(t *testing.T) {
	disk := diskWith(t, "chunk_snapshot.000001.0000000000/00000000", "chunk_snapshot.000002.0000000000.tmp/00000000",
		"chunk_snapshot.000003.0000000000/letter", "chunk_snapshot.x/00000000")
	require.NoError(t, datadir.RemoveForeignSnapshots(disk, "data"))
	require.ElementsMatch(t, []string{"quarantine/chunk_snapshot.000003.0000000000/letter", "chunk_snapshot.x/00000000"}, filesIn(disk))
}
