package blockset

import (
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
)

// unreadable returns the blocks in quarantine, those whose directories are misspelt, and those that
// links lead to, as far as no other block has the samples of them, as Repair and a merge make
// them. Each is reported, also one that an earlier Open has set aside.
func (l *blockLoad) unreadable(have *datadir.Lineage) ([]datadir.Missing, error) {
	out, err := datadir.Quarantined(l.s.cfg.FS, l.s.cfg.Dir, have)
	if err != nil {
		return nil, err
	}
	for _, m := range out {
		if !slices.Contains(l.report.Quarantined, m.Name) {
			l.report.Damages = append(l.report.Damages, datadir.Damage{File: m.Name, Reason: "the block was damaged and set aside, and no other one has its samples"})
		}
	}
	misspelt, err := blockdir.Misspelt(l.s.cfg.FS, l.s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	links, err := blockdir.Links(l.s.cfg.FS, l.s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range append(misspelt, links...) {
		m := datadir.MissingAt(l.s.cfg.FS, l.s.cfg.Dir, name, ulid.MustParseStrict(name))
		there := have.Has(m)
		if !there {
			out = append(out, m)
		}
		reason := "directory of a block is not spelt " + m.ID.String() + ", so it is not read"
		if slices.Contains(links, name) {
			reason = "it is a link and not the directory of a block, so it is not read"
		}
		l.report.Damages = append(l.report.Damages, datadir.Damage{File: name, Reason: reason, Harmless: there})
	}
	return out, nil
}

// reportVanished tells of blocks that are gone.
func (l *blockLoad) reportVanished(gone []datadir.Missing) {
	for _, m := range gone {
		l.report.Damages = append(l.report.Damages, datadir.Damage{File: m.Name, Reason: "the block is not there any more: " + m.Times()})
		l.report.Vanished++
		l.s.cfg.Logger.Error("block has vanished", "block", m.Name, "mint", m.Mint, "maxt", m.Maxt)
	}
}
