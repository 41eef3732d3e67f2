package datadir_test

import (
	"math"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// id names a block.
func id(n byte) (id ulid.ULID) {
	id[15] = n
	return id
}

func TestLineage_HasWhatBlocksAreAndWereMadeOf(t *testing.T) {
	have := datadir.NewLineage()
	m := blockdir.Meta{ULID: id(9), MinTime: 100, MaxTime: 200}
	m.Compaction.Sources = []ulid.ULID{id(1), id(2)}
	m.Compaction.Parents = []blockdir.Parent{{ULID: id(5)}}
	have.Add(&m)
	for name, c := range map[string]struct {
		m    datadir.Missing
		want bool
	}{
		"itself":                   {datadir.Missing{ID: id(9)}, true},
		"a source":                 {datadir.Missing{ID: id(1)}, true},
		"a parent":                 {datadir.Missing{ID: id(5)}, true},
		"of the same sources":      {datadir.Missing{ID: id(6), Sources: []ulid.ULID{id(2), id(1)}}, true},
		"of one that is not there": {datadir.Missing{ID: id(6), Sources: []ulid.ULID{id(1), id(3)}}, false},
		"of nothing that is known": {datadir.Missing{ID: id(6)}, false},
	} {
		require.Equal(t, c.want, have.Has(c.m), name)
	}
}

func TestMissing_SaysOfWhichTimes(t *testing.T) {
	m := datadir.Missing{Mint: 0, Maxt: 59_999}
	require.Equal(t, "it had samples from 1970-01-01T00:00:00Z to 1970-01-01T00:00:59Z", m.Times())
	m = datadir.MissingAt(diskWith(t, block+"/index"), "data", block, ulid.MustParseStrict(block))
	require.Equal(t, [2]int64{math.MinInt64, math.MaxInt64}, [2]int64{m.Mint, m.Maxt})
	require.Equal(t, "nobody knows of which times it had samples", m.Times())
}

// Vanished is what the list has and neither the directory, in any spelling, nor quarantine, nor the
// lineage of the others.
func TestVanished_IsWhatNobodyKnows(t *testing.T) {
	disk := diskWith(t, id(1).String()+"/index", "quarantine/"+id(2).String()+".1/index")
	list := []blocklist.Block{{ULID: id(1)}, {ULID: id(2)}, {ULID: id(3)}, {ULID: id(4), MinTime: 10, MaxTime: 20}, {ULID: id(5), Empty: true}}
	require.NoError(t, blocklist.Write(disk, "data", list))
	have := datadir.NewLineage()
	have.Add(&blockdir.Meta{ULID: id(7), Compaction: blockdir.Compaction{Sources: []ulid.ULID{id(3)}}})
	gone, err := datadir.Vanished(disk, "data", list, have, nil)
	require.NoError(t, err)
	require.Equal(t, []datadir.Missing{{ID: id(4), Name: id(4).String(), Mint: 10, Maxt: 19, Vanished: true}}, gone)

	gone, err = datadir.Vanished(disk, "data", list, have, []ulid.ULID{id(1)}) // whose directory is that of something else
	require.NoError(t, err)
	require.Len(t, gone, 2)

	require.NoError(t, blocklist.Write(disk, "data", list[:1])) // somebody removed the others meanwhile
	gone, err = datadir.Vanished(disk, "data", list, have, nil)
	require.NoError(t, err)
	require.Empty(t, gone)
}

// Another engine cleans a block, and merges the result: what is there then names the result only.
func TestVanished_IsNotWhatWasWrittenAnewAndMerged(t *testing.T) {
	list := []blocklist.Block{{ULID: id(1), MinTime: 10, MaxTime: 20}, {ULID: id(2), MinTime: 5, MaxTime: 30}}
	disk := diskWith(t, id(2).String()+"/index")
	require.NoError(t, blocklist.Write(disk, "data", list))
	for name, c := range map[string]struct {
		parent blockdir.Parent
		gone   int
	}{
		"of its times":           {blockdir.Parent{ULID: id(5), MinTime: 10, MaxTime: 20}, 0},
		"of more":                {blockdir.Parent{ULID: id(5), MinTime: 0, MaxTime: 40}, 0},
		"without its first time": {blockdir.Parent{ULID: id(5), MinTime: 11, MaxTime: 20}, 1},
		"without its last time":  {blockdir.Parent{ULID: id(5), MinTime: 10, MaxTime: 19}, 1},
		"of one that is listed":  {blockdir.Parent{ULID: id(2), MinTime: 5, MaxTime: 30}, 1},
	} {
		have := datadir.NewLineage()
		have.Add(&blockdir.Meta{ULID: id(9), Compaction: blockdir.Compaction{Sources: []ulid.ULID{id(5)}, Parents: []blockdir.Parent{c.parent}}})
		gone, err := datadir.Vanished(disk, "data", list, have, nil)
		require.NoError(t, err)
		require.Len(t, gone, c.gone, name)
	}
}

func TestQuarantined_GoesByNameAndLineage(t *testing.T) {
	disk := diskWith(t, "quarantine/"+id(1).String()+"/index", "quarantine/"+id(2).String()+".3/index", "quarantine/"+id(3).String()+".x/index",
		"quarantine/"+id(4).String(), "quarantine/wal-1")
	have := datadir.NewLineage()
	have.Add(&blockdir.Meta{ULID: id(1)})
	found, err := datadir.Quarantined(disk, "data", have)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, id(2), found[0].ID)
}
