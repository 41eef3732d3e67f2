package tsdb_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A checkpoint that is empty or damaged, and newer than what is there, hides no segment: nobody
// removes what it says that it replaces.
func TestOpen_NewerCheckpointThatIsNotWhole_HidesNothingAndGoesToQuarantine(t *testing.T) {
	bad := map[string]func(*testing.T, *tsdbtest.MemFS){
		"empty directory": func(t *testing.T, fs *tsdbtest.MemFS) {
			require.NoError(t, fs.MkdirAll("data/wal/checkpoint.00000007"))
		},
		"empty file": func(t *testing.T, fs *tsdbtest.MemFS) {
			require.NoError(t, fs.WriteFile("data/wal/checkpoint.00000001/00000000", nil))
		},
		"damaged": func(t *testing.T, fs *tsdbtest.MemFS) {
			data, err := fs.ReadFile("data/wal/00000000")
			require.NoError(t, err)
			require.NoError(t, fs.WriteFile("data/wal/checkpoint.00000000/00000000", data[:len(data)-3]))
		},
	}
	for name, damage := range bad {
		t.Run(name, func(t *testing.T) {
			f, _ := reachFixture(t)
			want := f.all()
			require.NoError(t, f.db.Close())
			damage(t, f.fs)

			verified, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: f.fs})
			require.NoError(t, err)
			require.True(t, verified.Clean(), "nothing is lost: %+v", verified.Findings)
			require.NotEmpty(t, verified.Findings)
			require.Contains(t, verified.Findings[0].What, "checkpoint is not whole")

			before := dataFiles(t, f.fs)
			ro, err := tsdb.OpenReadOnly("data", f.opts)
			require.NoError(t, err)
			q, err := ro.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			require.Equal(t, want, dumpQuerier(t, q))
			require.NoError(t, q.Close())
			require.NoError(t, ro.Close())
			require.Equal(t, before, dataFiles(t, f.fs))

			repaired := f.fs.KillClone()
			report, err := tsdb.Repair(ctx, "data", &tsdb.RepairOptions{Options: damageOptions(repaired)})
			require.NoError(t, err)
			require.True(t, report.Clean())
			f.open()
			opened := f.db.OpenReport()
			require.True(t, opened.Clean())
			require.Len(t, opened.Quarantined, 1)
			require.Equal(t, want, f.all())
			for _, fs := range []*tsdbtest.MemFS{repaired, f.fs} {
				for name, data := range before {
					if strings.HasPrefix(name, "wal/0") {
						got, err := fs.ReadFile("data/" + name)
						require.NoError(t, err, "no segment went")
						require.Equal(t, data, got)
					}
				}
			}
		})
	}
}
