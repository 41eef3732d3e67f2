package compat

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
)

// requireRefused opens a directory with ours, in vain: the error names what is in the
// way, and no file changes.
func requireRefused(t *testing.T, dir, name string) {
	t.Helper()
	before := listing(t, dir)
	_, err := tsdb.Open(dir, ourOptions())
	require.ErrorIs(t, err, tsdb.ErrUnsupported)
	require.ErrorContains(t, err, name)
	require.Equal(t, before, listing(t, dir))
}

// A directory with out-of-order samples is refused. An empty file in wbl/, which the
// reference leaves when it is only configured to take such samples, is no reason to.
func TestRefuse_OutOfOrderSamples_ByNameAndUntouched(t *testing.T) {
	set := []series{newSeries("a", "b")}
	dir, want := t.TempDir(), data{}
	window := func(o *reference.Options) { o.OutOfOrderTimeWindow = century }
	r := openTheirs(t, dir, window)
	r.commit(set, []row{{0, 1000, 1}, {0, 2000, 2}})
	r.close()
	want.add(set, []row{{0, 1000, 1}, {0, 2000, 2}})
	wbl, err := filepath.Glob(filepath.Join(dir, "wbl", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, wbl, "the reference keeps no wbl any more")
	db := openOurs(t, dir)
	requireEqual(t, want, db.dump(), "ours")
	db.requireClean()
	db.close()

	r = openTheirs(t, dir, window)
	r.commit(set, []row{{0, 500, 3}})
	r.close()
	requireRefused(t, dir, filepath.Join("wbl", filepath.Base(newestFile(t, filepath.Join(dir, "wbl")))))
	r = openTheirs(t, dir, window)
	requireEqual(t, data{set[0].key: {{500, 0x4008000000000000}, {1000, 0x3ff0000000000000}, {2000, 0x4000000000000000}}}, r.dump(), "reference")
	r.requireUndamaged()
}
