package tsdb

import (
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// missingBlock is a block that is not read: a query that touches its times says so.
type missingBlock struct {
	id         ulid.ULID // as the name says
	name       string    // of the directory, relative to the data directory
	mint, maxt int64     // closed
	sources    []ulid.ULID
	vanished   bool // it is nowhere: the list of blocks has it
}

// MissingBlock is a block that there should be and that is not read.
type MissingBlock struct {
	ULID ulid.ULID
	// Path is where it is, or was if it has vanished, relative to the data directory.
	Path string
	// MinTime and MaxTime are in milliseconds, half-open, as those of BlockMeta. math.MinInt64 and
	// math.MaxInt64 mean that nobody knows: it may have had samples of any time.
	MinTime, MaxTime int64
	// Vanished: it is nowhere. Others are in quarantine, or in a place where they are not read.
	Vanished bool
}

// missingBlocks returns what is missing, as others get it.
func (v *view) missingBlocks() []MissingBlock {
	var out []MissingBlock
	for _, m := range v.missing {
		b := MissingBlock{ULID: m.id, Path: m.name, MinTime: m.mint, MaxTime: m.maxt, Vanished: m.vanished}
		if m.maxt < math.MaxInt64 {
			b.MaxTime++
		}
		out = append(out, b)
	}
	return out
}

// missing returns the blocks in quarantine, those whose directories are misspelt, and those that
// links lead to, as far as no other block has the samples of them, as Repair and a merge make
// them. Each is reported, also one that an earlier Open has set aside.
func (bs *blockSet) missing(have *lineage, report *OpenReport) ([]missingBlock, error) {
	out, err := quarantinedBlocks(bs.opts.FS, bs.dir, have)
	if err != nil {
		return nil, err
	}
	for _, m := range out {
		if !slices.Contains(report.Quarantined, m.name) {
			report.Damages = append(report.Damages, Damage{File: m.name, Reason: "the block was damaged and set aside, and no other one has its samples"})
		}
	}
	misspelt, err := blockdir.Misspelt(bs.opts.FS, bs.dir)
	if err != nil {
		return nil, err
	}
	links, err := blockdir.Links(bs.opts.FS, bs.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range append(misspelt, links...) {
		m := missingAt(bs.opts.FS, bs.dir, name, ulid.MustParseStrict(name))
		there := have.has(m)
		if !there {
			out = append(out, m)
		}
		reason := "directory of a block is not spelt " + m.id.String() + ", so it is not read"
		if slices.Contains(links, name) {
			reason = "it is a link and not the directory of a block, so it is not read"
		}
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

// quarantineIDs returns the blocks that something in quarantine is called after.
func quarantineIDs(fsys FS, dataDir string) (ids []ulid.ULID, err error) {
	entries, err := fsys.ReadDir(filepath.Join(dataDir, quarantineDirName))
	if ignoreNotExist(err) != nil {
		return nil, err
	}
	for _, e := range entries {
		if id, ok := quarantinedID(e); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// quarantinedID returns the block that an entry of quarantine is: its name, maybe with a
// number behind it.
func quarantinedID(e fs.DirEntry) (id ulid.ULID, ok bool) {
	if len(e.Name()) < ulid.EncodedSize || !e.IsDir() {
		return id, false
	}
	number, numbered := strings.CutPrefix(e.Name()[ulid.EncodedSize:], ".")
	if numbered != isNumber(number) || !numbered && number != "" {
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
type lineage struct {
	ids, sources map[ulid.ULID]bool
	mint         int64 // where the oldest of them begins; math.MaxInt64: there is none
}

func newLineage() *lineage {
	return &lineage{ids: map[ulid.ULID]bool{}, sources: map[ulid.ULID]bool{}, mint: math.MaxInt64}
}

func (l *lineage) add(m BlockMeta) {
	l.mint = min(l.mint, m.MinTime)
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
