package datadir

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// Missing is a block that is not read: a query that touches its times says so.
type Missing struct {
	ID         ulid.ULID // as the name says
	Name       string    // of the directory, relative to the data directory
	Mint, Maxt int64     // closed, milliseconds
	Sources    []ulid.ULID
	Vanished   bool // it is nowhere: the list of blocks has it
}

// Times says what a block had.
func (m *Missing) Times() string {
	if m.Mint == math.MinInt64 && m.Maxt == math.MaxInt64 {
		return "nobody knows of which times it had samples"
	}
	return fmt.Sprintf("it had samples from %s to %s", time.UnixMilli(m.Mint).UTC().Format(time.RFC3339), time.UnixMilli(m.Maxt).UTC().Format(time.RFC3339))
}

// MissingAt describes a directory that is not read: one whose meta file cannot be read may
// have had samples of any time.
func MissingAt(fsys fileutil.FS, dataDir, name string, id ulid.ULID) Missing {
	m := Missing{ID: id, Name: name, Mint: math.MinInt64, Maxt: math.MaxInt64}
	if meta, err := blockdir.ReadMeta(fsys, filepath.Join(dataDir, name)); err == nil {
		m.Mint, m.Maxt, m.Sources = meta.MinTime, meta.MaxTime-1, meta.Compaction.Sources
	}
	return m
}

// Vanished returns the blocks of the list that are not in the directory and went into no
// other one, but for those with which nothing is lost. Some directories that are called after
// blocks are none.
func Vanished(fsys fileutil.FS, dataDir string, list []blocklist.Block, have *Lineage, none []ulid.ULID) ([]Missing, error) {
	if len(list) == 0 {
		return nil, nil
	}
	there, err := blocksByName(fsys, dataDir)
	if err != nil {
		return nil, err
	}
	for _, id := range none {
		delete(there, id)
	}
	gone := absent(list, there, have)
	if len(gone) == 0 {
		return nil, nil
	}
	// Another engine that had the directory meanwhile removes the oldest blocks, as its
	// retention says, and tells nobody.
	foreign, err := wal.EndsForeign(fsys, filepath.Join(dataDir, WALDir))
	if err != nil {
		foreign = false // recovery says what is wrong with the log
	}
	if foreign {
		gone = Without(gone, func(m Missing) bool { return m.Maxt < have.mint })
	}
	// A writer beside us may have removed some since the list was read.
	now, _, err := blocklist.Read(fsys, dataDir)
	if err != nil {
		return nil, err
	}
	return Without(gone, func(m Missing) bool {
		return !slices.ContainsFunc(now, func(b blocklist.Block) bool { return b.ULID == m.ID })
	}), nil
}

// Without returns those that are not to be dropped, in the memory of the list.
//
//go:noinline
func Without(list []Missing, drop func(Missing) bool) []Missing {
	kept := list[:0]
	for _, m := range list {
		if !drop(m) {
			kept = append(kept, m)
		}
	}
	return kept
}

// absent returns the blocks of the list whose names are not there, and which are not in others.
func absent(list []blocklist.Block, there map[ulid.ULID]bool, have *Lineage) (gone []Missing) {
	listed := map[ulid.ULID]bool{}
	for _, b := range list {
		listed[b.ULID] = true
	}
	for _, b := range list {
		m := Missing{ID: b.ULID, Name: b.ULID.String(), Mint: b.MinTime, Maxt: b.MaxTime - 1, Sources: b.Sources, Vanished: true}
		if !b.Empty && !there[b.ULID] && !have.Has(m) && !have.hasAnew(m, listed) {
			gone = append(gone, m)
		}
	}
	return gone
}

// blocksByName returns the blocks that a directory is called after, in any spelling, at the top or
// in quarantine: whatever is in it, another rule tells of it.
func blocksByName(fsys fileutil.FS, dataDir string) (map[ulid.ULID]bool, error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	there := map[ulid.ULID]bool{}
	for _, e := range entries {
		if id, err := ulid.ParseStrict(e.Name()); err == nil && e.IsDir() {
			there[id] = true
		}
	}
	set, err := quarantineIDs(fsys, dataDir)
	for _, id := range set {
		there[id] = true
	}
	return there, err
}
