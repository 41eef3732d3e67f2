package main

import (
	"context"
	"time"

	"github.com/seed347100a3/tsdb"
)

// repairCommand saves what can be read of damaged blocks, and mends the log.
type repairCommand struct {
	dir        string
	undelete   bool
	blockRange time.Duration
	output     string
}

const repairHelp = `Save what can be read of a damaged database.

Every block is verified; what is readable of a damaged one goes chunk by chunk into a new block, and the original into quarantine/, from where it is never deleted. Blocks that were set aside before are tried, too. A block of another program that is not in order is written anew in order. Then log and head chunks are mended as opening does. The database must be closed. "verify" tells before what would be done. Exit code 1 if something was lost.`

func (p *program) addRepair() {
	r := &repairCommand{}
	cmd := p.app.Command("repair", repairHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&r.dir)
	cmd.Flag("undelete", "Save blocks also when it is lost which of their samples were deleted: those come back.").BoolVar(&r.undelete)
	cmd.Flag("block-range", "The block range of the database.").Hidden().Default("2h").DurationVar(&r.blockRange)
	outputFlag(cmd, &r.output, "table", "json")
	p.add(cmd, r.run)
}

// repairJSON is a RepairReport in JSON.
type repairJSON struct {
	Clean   bool              `json:"clean"`
	Seconds float64           `json:"seconds"`
	Blocks  []blockRepairJSON `json:"blocks"`
	Renamed []string          `json:"renamed"`
	Filled  []string          `json:"filled_segments"`
	// Forgotten are blocks that had vanished.
	Forgotten []string     `json:"forgotten"`
	Log       recoveryJSON `json:"log"`
}

type blockRepairJSON struct {
	Original    string       `json:"original"`
	Saved       string       `json:"saved"` // empty: nothing
	Error       string       `json:"error"`
	Beside      []string     `json:"beside"` // blocks of samples outside of the original's bounds
	Samples     uint64       `json:"samples"`
	Repeated    uint64       `json:"repeated"`
	LostSeries  uint64       `json:"lost_series"`
	LostChunks  uint64       `json:"lost_chunks"`
	LostSamples uint64       `json:"lost_samples"`
	MetaLost    bool         `json:"meta_lost"`
	DeletedLost bool         `json:"deleted_lost"`
	Damages     []damageJSON `json:"damages"`
}

func (r *repairCommand) run(ctx context.Context, c *console) error {
	if err := checkDatabase(r.dir); err != nil {
		return err
	}
	bar := c.startProgress("Repairing", 0, true)
	defer bar.finish()
	set := bar.set
	opts := &tsdb.Options{Progress: func(p tsdb.RecoveryProgress) { set(p.Done, p.Total) }}
	opts.Blocks.Range = r.blockRange
	report, failed := tsdb.Repair(ctx, r.dir, &tsdb.RepairOptions{Options: opts, Undelete: r.undelete, Progress: set})
	if report == nil {
		return failed
	}
	bar.finish()
	var err error
	if r.output == "json" {
		err = c.printJSON(newRepairJSON(report))
	} else {
		err = r.print(c, report)
	}
	switch {
	case failed != nil: // what was done is told all the same
		return failed
	case err == nil && !report.Clean():
		return errProblem
	}
	return err
}

func newRepairJSON(r *tsdb.RepairReport) repairJSON {
	j := repairJSON{Clean: r.Clean(), Seconds: r.Duration.Seconds(), Blocks: []blockRepairJSON{},
		Renamed: append([]string{}, r.Renamed...), Filled: append([]string{}, r.Filled...), Forgotten: append([]string{}, r.Forgotten...), Log: newRecoveryJSON(&r.Log)}
	for _, b := range r.Blocks {
		out := blockRepairJSON{Original: b.Original, LostSeries: b.LostSeries, LostChunks: b.LostChunks, LostSamples: b.LostSamples,
			MetaLost: b.MetaLost, DeletedLost: b.DeletedLost, Damages: []damageJSON{}, Beside: []string{}, Repeated: b.Repeated, Samples: savedSamples(&b)}
		if b.Saved != nil {
			out.Saved = b.Saved.ULID.String()
		}
		for _, m := range b.Beside {
			out.Beside = append(out.Beside, m.ULID.String())
		}
		if b.Err != nil {
			out.Error = b.Err.Error()
		}
		for _, d := range b.Damages {
			out.Damages = append(out.Damages, damageJSON{File: d.File, Offset: d.Offset, Reason: d.Reason})
		}
		j.Blocks = append(j.Blocks, out)
	}
	return j
}

// savedSamples counts those of all blocks that came of one.
func savedSamples(b *tsdb.BlockRepair) (n uint64) {
	if b.Saved != nil {
		n = b.Saved.Stats.NumSamples
	}
	for _, m := range b.Beside {
		n += m.Stats.NumSamples
	}
	return n
}

func (r *repairCommand) print(c *console, report *tsdb.RepairReport) error {
	for _, b := range report.Blocks {
		c.printBlockRepair(&b)
	}
	for _, name := range report.Renamed {
		c.printf("renamed to %s\n", name)
	}
	for _, name := range report.Forgotten {
		c.printf("%s: the block is not there any more, and is not missed from now on\n", c.paint(sgrBold, name))
	}
	for _, name := range report.Filled {
		c.printf("missing: %s; the log goes on behind it\n", name)
	}
	c.printf("%s damaged or not in order; log and head chunks:\n\n", things(len(report.Blocks), "block"))
	if err := c.printRecovery(&report.Log); err != nil {
		return err
	}
	switch {
	case report.Clean():
		c.printf("\n%s\n", c.paint(sgrGreen, "nothing is lost"))
	case len(report.Blocks)+len(report.Log.Quarantined) > 0:
		c.printf("\n%s; originals are in quarantine/\n", c.paint(sgrRed, "something is lost"))
	default:
		c.printf("\n%s; nothing was moved to quarantine/\n", c.paint(sgrRed, "something is lost"))
	}
	return nil
}

func wasWere(n uint64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func (c *console) printBlockRepair(b *tsdb.BlockRepair) {
	if b.Saved == nil {
		c.printf("%s: nothing saved: %v\n", c.paint(sgrBold, b.Original), b.Err)
	} else {
		c.printf("%s: saved %s as block %s", c.paint(sgrBold, b.Original), things(savedSamples(b), "sample"), b.Saved.ULID)
		for _, m := range b.Beside {
			c.printf(" and %s", m.ULID)
		}
		if b.Repeated > 0 {
			c.printf("; %s left out that %s there twice", things(b.Repeated, "sample"), wasWere(b.Repeated))
		}
		switch {
		case b.LostSeries+b.LostChunks+b.LostSamples == 0:
			c.printf("; nothing lost")
		default:
			c.printf("; lost %s in %s", things(b.LostSamples, "sample"), things(b.LostChunks, "chunk"))
			if b.LostSeries > 0 {
				c.printf(" and of %s", things(b.LostSeries, "unreadable entry"))
			}
		}
		if b.DeletedLost {
			c.printf("; deleted samples are back")
		}
		c.printf("\n")
	}
	const shown = 5
	for i, d := range b.Damages {
		if i == shown {
			c.printf("    and %s\n", things(len(b.Damages)-shown, "more place"))
			break
		}
		c.printf("    %s at offset %s: %s\n", d.File, count(d.Offset), d.Reason)
	}
}
