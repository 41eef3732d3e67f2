package tsdb

import (
	"math"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

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
		b := MissingBlock{ULID: m.ID, Path: m.Name, MinTime: m.Mint, MaxTime: m.Maxt, Vanished: m.Vanished}
		if m.Maxt < math.MaxInt64 {
			b.MaxTime++
		}
		out = append(out, b)
	}
	return out
}

// missing returns the blocks in quarantine, those whose directories are misspelt, and those that
// links lead to, as far as no other block has the samples of them, as Repair and a merge make
// them. Each is reported, also one that an earlier Open has set aside.
func (bs *blockSet) missing(have *datadir.Lineage, report *OpenReport) ([]datadir.Missing, error) {
	out, err := datadir.Quarantined(bs.opts.FS, bs.dir, have)
	if err != nil {
		return nil, err
	}
	for _, m := range out {
		if !slices.Contains(report.Quarantined, m.Name) {
			report.Damages = append(report.Damages, Damage{File: m.Name, Reason: "the block was damaged and set aside, and no other one has its samples"})
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
		m := datadir.MissingAt(bs.opts.FS, bs.dir, name, ulid.MustParseStrict(name))
		there := have.Has(m)
		if !there {
			out = append(out, m)
		}
		reason := "directory of a block is not spelt " + m.ID.String() + ", so it is not read"
		if slices.Contains(links, name) {
			reason = "it is a link and not the directory of a block, so it is not read"
		}
		report.Damages = append(report.Damages, Damage{File: name, Reason: reason, Harmless: there})
	}
	return out, nil
}
