package verify

import (
	stderrors "errors"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

const adviceRepair = "Repair saves what can be read of it and keeps the original in quarantine; a backup may have the rest"

// blockCheck is one look at the blocks.
type blockCheck struct {
	v      *verification
	listed []blocklist.Block // that there should be
	none   []ulid.ULID       // directories that are called after blocks and are none
}

// run verifies every block.
func (b *blockCheck) run() error {
	v := b.v
	ids, err := blockdir.List(v.fs, v.dir)
	if err != nil {
		return err
	}
	var metas []blockdir.Meta
	v.have, v.start = datadir.NewLineage(), memseries.NoTime+1
	for _, id := range ids {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		meta, err := b.block(id)
		if err != nil {
			return err
		}
		if meta != nil {
			metas = append(metas, *meta)
			v.have.Add(meta)
			if !blockdir.BesideHead(meta) && !blockdir.FromFuture(meta, v.opts.Clock, v.opts.MaxFuture) {
				v.start = max(v.start, meta.MaxTime)
			}
		}
	}
	sort.Slice(metas, func(i, k int) bool { return blockdir.CompareStart(&metas[i], &metas[k]) < 0 })
	v.report.Blocks = metas
	b.superfluous(metas)
	return nil
}

// block verifies one; meta is nil if it cannot be opened.
func (b *blockCheck) block(id ulid.ULID) (meta *blockdir.Meta, err error) {
	v := b.v
	path := blockdir.Path(v.dir, id)
	dir, err := blockdir.OpenReadOnly(v.fs, path)
	switch {
	case err == nil:
	case v.vanished(path, err):
		return nil, nil
	case errors.Is(err, blockdir.ErrNeedsRepair):
		v.find(Finding{Severity: Note, File: path, What: "it has the version numbers that Prometheus 2.1 wrote by mistake",
			Meaning: "it was not verified", Advice: "open the database, which puts them right, then verify again"})
		return nil, nil
	case errors.Is(err, blockdir.ErrUnsupportedVersion):
		v.find(Finding{Severity: Warning, File: path, What: err.Error(),
			Meaning: "this version cannot read it: who only reads goes on without it, and queries of its times warn; Open and Repair refuse the database",
			Advice:  "use a newer version"})
		return nil, nil
	default:
		if other, err := datadir.IsNested(v.fs, path); err != nil || other {
			b.nested(id)
			return nil, err
		}
		return nil, v.trouble(path, err, blockMeaning(path, err), adviceRepair)
	}
	defer func() { err = stderrors.Join(err, dir.Close()) }()
	before := v.done
	report, err := blockdir.Verify(v.ctx, dir, v.progress)
	if err != nil {
		return nil, v.trouble(path, err, "", "")
	}
	v.progress(max(0, dir.SizeBytes()-(v.done-before)))
	for _, problem := range report.Problems {
		if err := v.trouble(path, problem, blockMeaning(path, problem), adviceRepair); err != nil {
			return nil, err
		}
	}
	if more := report.Total - len(report.Problems); more > 0 {
		v.find(Finding{Severity: Damage, File: path, What: strconv.Itoa(more) + " more places like these", Advice: adviceRepair})
	}
	b.disorder(path, &report)
	v.report.BlockSamples += report.Stats.NumSamples
	b.notes(dir, &report)
	m := dir.Meta()
	return &m, b.files(path)
}

// nested tells of a database that has the name of a block.
func (b *blockCheck) nested(id ulid.ULID) {
	v := b.v
	b.none = append(b.none, id)
	v.find(Finding{Severity: Warning, File: blockdir.Path(v.dir, id), What: datadir.ErrNotBlock.Error(),
		Meaning: "it is not read here, and other programs take it for a block that is broken",
		Advice:  "move it out of the directory, or give it another name"})
}

// vanished tells of blocks that are not there any more.
func (b *blockCheck) vanished() error {
	v := b.v
	gone, err := datadir.Vanished(v.fs, v.dir, b.listed, v.have, b.none)
	if err != nil {
		return v.trouble(filepath.Join(v.dir, blocklist.FileName), err, "", "")
	}
	for _, m := range gone {
		v.find(Finding{Severity: Damage, File: filepath.Join(v.dir, m.Name), What: "the block is not there any more: " + m.Times(),
			Meaning: "its samples are missing, and queries of its times warn",
			Advice:  "bring it back, from a backup if need be; Repair makes that it is not expected any more"})
	}
	return nil
}

// adviceOrder is what to do about a block that is not in order.
const adviceOrder = "Repair writes it anew in order, and so does the next Compact that merges it; other programs may refuse it"

// disorder tells of places where a block is not in order.
func (b *blockCheck) disorder(path string, report *blockdir.Report) {
	v := b.v
	for _, place := range report.Disorder {
		f := Finding{Severity: Warning, File: path, What: place.Error(), Advice: adviceOrder,
			Meaning: "another program wrote it so; nothing is lost: queries put it right, and take more memory"}
		if c, ok := encbuf.AsCorrupt(place); ok {
			f.What, f.File, f.Offset = c.Reason, c.File, c.Offset
		}
		v.find(f)
	}
	if more := report.TotalDisorder - len(report.Disorder); more > 0 {
		v.find(Finding{Severity: Warning, File: path, What: strconv.Itoa(more) + " more places that are not in order", Advice: adviceOrder})
	}
}

// blockMeaning says what damage of a block means, by the file that it is in.
func blockMeaning(path string, err error) string {
	c, ok := encbuf.AsCorrupt(err)
	if !ok {
		return ""
	}
	rel, _ := filepath.Rel(path, c.File) // both begin with the data directory
	switch filepath.ToSlash(rel) {
	case "meta.json":
		return "the block is not to be trusted: Open sets it aside, and queries of its times warn"
	case tombstones.FileName:
		return "samples that were deleted might come back: Open sets the block aside unless every deleted one is known"
	case "index":
		return "series of the block cannot be found or read: queries that touch them fail, or Open sets the block aside"
	case ".":
		return "the block is incomplete: Open sets it aside"
	default:
		return "queries that touch these samples fail"
	}
}

func (b *blockCheck) notes(dir *blockdir.Dir, report *blockdir.Report) {
	v := b.v
	if dir.NeedsSidecar() {
		v.find(Finding{Severity: Note, File: dir.Path(), What: "the meta file has no valid checksum beside it",
			Meaning: "another program wrote it, which is fine; a bit that changed there would not be noticed", Advice: "none: Open writes the checksum"})
	}
	if report.UnusedBytes > 0 {
		v.find(Finding{Severity: Note, File: filepath.Join(dir.Path(), "chunks"), What: fmt.Sprintf("%d bytes belong to no series", report.UnusedBytes),
			Meaning: "they take room", Advice: "none: the next merge leaves them out"})
	}
	if report.UnknownChunks > 0 {
		v.find(Finding{Severity: Note, File: dir.Path(), What: fmt.Sprintf("%d chunks have an encoding that this version does not read", report.UnknownChunks),
			Meaning: "their checksums are right; what is in them was not verified"})
	}
}

// files tells of what does not belong into the directory of a block.
func (b *blockCheck) files(path string) error {
	v := b.v
	entries, err := v.fs.ReadDir(path)
	if err != nil {
		return v.gone(path, err)
	}
	for _, e := range entries {
		if !blockdir.IsFile(e.Name()) {
			v.find(Finding{Severity: Note, File: filepath.Join(path, e.Name()), What: "it is none of the files of a block",
				Meaning: "it is not read, and goes with the block"})
		}
	}
	chunks := filepath.Join(path, "chunks")
	entries, err = v.fs.ReadDir(chunks)
	if err != nil {
		return v.gone(chunks, err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			v.find(Finding{Severity: Warning, File: filepath.Join(chunks, e.Name()), What: "it is no chunk segment",
				Meaning: "it is not read here, and other programs refuse such a block", Advice: "move it out of the directory"})
		}
	}
	return nil
}

// superfluous tells of blocks that the next open removes, and of those that overlap.
func (b *blockCheck) superfluous(metas []blockdir.Meta) {
	v := b.v
	sized := make([]blockplan.SizedBlock, len(metas))
	for i, m := range metas {
		sized[i] = blockplan.SizedBlock{Meta: m}
	}
	gone := blockplan.Obsolete(blockplan.RetentionState{Blocks: sized}, blockplan.RetentionLimits{})
	var widest *blockdir.Meta
	for i := range metas {
		m := &metas[i]
		path := blockdir.Path(v.dir, m.ULID)
		if why := gone[m.ULID]; why != 0 {
			v.find(Finding{Severity: Note, File: path, What: "a leftover: " + why.String(),
				Meaning: "nothing is read twice", Advice: "none: Open removes it"})
			continue
		}
		if widest != nil && m.MinTime < widest.MaxTime {
			v.find(Finding{Severity: Note, File: path, What: "its times overlap with those of block " + widest.ULID.String(),
				Meaning: "samples that both have are read once; queries take a little longer", Advice: "none: the next Compact merges them"})
		}
		if widest == nil || m.MaxTime > widest.MaxTime {
			widest = m
		}
	}
}
