package verify

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func run(disk *tsdbtest.MemFS, any bool) (Report, error) {
	return Run(context.Background(), Options{FS: disk, Dir: "data", AnyDirectory: any, Clock: tsdbtest.NewClock(time.UnixMilli(0))})
}

func TestRun_OfADirectoryOfSomethingElse(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	require.NoError(t, disk.WriteFile("data/letter", nil))
	_, err := run(disk, false)
	require.ErrorIs(t, err, datadir.ErrNotDataDir)
	report, err := run(disk, true)
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Equal(t, "letter", report.Findings[0].File)
}

// The list of findings has a bound. What is not listed is counted, and damage among it is known.
func TestFind_CountsWhatIsNotListed(t *testing.T) {
	v := &verification{dir: "data"}
	for i := range maxFindings {
		v.find(Finding{Severity: Note, File: fmt.Sprintf("data/%d", i)})
	}
	v.find(Finding{Severity: Warning})
	v.find(Finding{Severity: Damage})
	require.Len(t, v.report.Findings, maxFindings)
	require.Equal(t, "0", v.report.Findings[0].File)
	require.Equal(t, 2, v.report.Omitted)
	require.Equal(t, 1, v.report.OmittedDamages)
}

// The worst comes first, then it goes by file and offset.
func TestRun_TellsTheWorstFirst(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	require.NoError(t, disk.WriteFile("data/wal", nil)) // must be a directory
	require.NoError(t, disk.WriteFile("data/lock", nil))
	require.NoError(t, disk.WriteFile("data/b", nil))
	require.NoError(t, disk.WriteFile("data/a", nil))
	require.NoError(t, disk.MkdirAll("data/quarantine/old"))
	require.NoError(t, disk.WriteFile("data/chunks_head/letter", nil))
	report, err := run(disk, true)
	require.NoError(t, err)
	require.True(t, report.InUse)
	var files []string
	for i, f := range report.Findings {
		files = append(files, f.File)
		require.True(t, i == 0 || f.Severity <= report.Findings[i-1].Severity)
	}
	require.Equal(t, "wal", files[0])
	require.Equal(t, []string{"chunks_head/letter", "a", "b", "quarantine"}, files[len(files)-4:])
}
