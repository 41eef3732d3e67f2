package tsdb

import (
	"io/fs"
	"math"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// missingBlock is a block that is not read: a query that touches its times says so.
type missingBlock struct {
	id         ulid.ULID // as the name says
	name       string    // of the directory, relative to the data directory
	mint, maxt int64     // closed
	sources    []ulid.ULID
}

// missing returns the blocks in quarantine, and those whose directories are misspelt, that
// no other block has the samples of, as Repair and a merge make them. What is misspelt is
// reported.
func (bs *blockSet) missing(blocks []viewBlock, report *OpenReport) ([]missingBlock, error) {
	have := newLineage()
	for _, b := range blocks {
		have.add(b.meta)
	}
	out, err := quarantinedBlocks(bs.opts.FS, bs.dir, have)
	if err != nil {
		return nil, err
	}
	names, err := blockdir.Misspelt(bs.opts.FS, bs.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := missingAt(bs.opts.FS, bs.dir, name, ulid.MustParseStrict(name))
		there := have.has(m)
		if !there {
			out = append(out, m)
		}
		reason := "directory of a block is not spelt " + m.id.String() + ", so it is not read"
		report.Damages = append(report.Damages, Damage{File: name, Reason: reason, Harmless: there})
	}
	return out, nil
}

// quarantinedBlocks returns the blocks in quarantine that are not in have.
func quarantinedBlocks(fsys FS, dataDir string, have *lineage) (out []missingBlock, err error) {
	entries, err := fsys.ReadDir(filepath.Join(dataDir, quarantineDirName))
	if ignoreNotExist(err) != nil {
		return nil, err
	}
	for _, e := range entries {
		id, ok := quarantinedID(e)
		if !ok {
			continue
		}
		if m := missingAt(fsys, dataDir, filepath.Join(quarantineDirName, e.Name()), id); !have.has(m) {
			out = append(out, m)
		}
	}
	return out, nil
}

// quarantinedID returns the block that an entry of quarantine is: its name, maybe with a
// number behind it.
func quarantinedID(e fs.DirEntry) (id ulid.ULID, ok bool) {
	if len(e.Name()) < ulid.EncodedSize || !e.IsDir() {
		return id, false
	}
	return blockdir.ParseName(e.Name()[:ulid.EncodedSize])
}

// missingAt describes a directory that is not read: one whose meta file cannot be read may
// have had samples of any time.
func missingAt(fsys FS, dataDir, name string, id ulid.ULID) missingBlock {
	m := missingBlock{id: id, name: name, mint: math.MinInt64, maxt: math.MaxInt64}
	if meta, err := blockdir.ReadMeta(fsys, filepath.Join(dataDir, name)); err == nil {
		m.mint, m.maxt, m.sources = meta.MinTime, meta.MaxTime-1, meta.Compaction.Sources
	}
	return m
}

// lineage is what blocks were made of.
type lineage struct{ ids, sources map[ulid.ULID]bool }

func newLineage() *lineage {
	return &lineage{ids: map[ulid.ULID]bool{}, sources: map[ulid.ULID]bool{}}
}

func (l *lineage) add(m BlockMeta) {
	l.ids[m.ULID] = true
	for _, p := range m.Compaction.Parents {
		l.ids[p.ULID] = true
	}
	for _, id := range m.Compaction.Sources {
		l.sources[id] = true
	}
}

// has reports whether the blocks have what can be had of another one: they are it, were
// made of it, or of all that it was made of, as long as it says what that is.
func (l *lineage) has(m missingBlock) bool {
	if l.ids[m.id] || l.sources[m.id] {
		return true
	}
	for _, id := range m.sources {
		if !l.sources[id] {
			return false
		}
	}
	return len(m.sources) > 0
}
