package main

import (
	"context"
	"fmt"

	"github.com/seed347100a3/tsdb"
)

// verifyCommand reads everything and says what is wrong.
type verifyCommand struct {
	dir    string
	limit  int
	output string
}

const verifyHelp = `Read everything in a data directory and say what is wrong with it.

Blocks are held against their checksums, sort rules and counts, the log and the head chunks against each other, and names that do not belong are told. Nothing is changed, and the database may be in use: a torn end of the log is then a write that is under way. Each finding has its file and offset, what it means, and what to do. Exit code 1 if samples are lost or cannot be read.`

func (p *program) addVerify() {
	v := &verifyCommand{}
	cmd := p.app.Command("verify", verifyHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&v.dir)
	cmd.Flag("limit", "Show at most so many findings, the worst ones first; 0 shows all. JSON has all.").Default("50").IntVar(&v.limit)
	outputFlag(cmd, &v.output, "table", "json")
	p.add(cmd, v.run)
}

// verifyJSON is a VerifyReport in JSON.
type verifyJSON struct {
	Clean        bool          `json:"clean"`
	Seconds      float64       `json:"seconds"`
	Bytes        int64         `json:"bytes"`
	InUse        bool          `json:"in_use"`
	Blocks       int           `json:"blocks"`
	BlockSamples uint64        `json:"block_samples"`
	Histograms   uint64        `json:"block_histogram_samples"` // as the blocks say
	LogSegments  int           `json:"log_segments"`
	LogRecords   int           `json:"log_records"`
	LogSeries    int           `json:"log_series"`
	LogSamples   uint64        `json:"log_samples"`
	LateSegments int           `json:"out_of_order_segments"`
	LateSamples  uint64        `json:"out_of_order_samples"`
	HeadChunks   int           `json:"head_chunks"`
	HeadSamples  uint64        `json:"head_samples"`
	Findings     []findingJSON `json:"findings"`
	Omitted      int           `json:"omitted_findings"`
}

type findingJSON struct {
	Severity string `json:"severity"`
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	What     string `json:"what"`
	Meaning  string `json:"meaning"`
	Advice   string `json:"advice"`
}

func (v *verifyCommand) run(ctx context.Context, c *console) error {
	if v.limit < 0 {
		return usageError("--limit: want 0 or more findings")
	}
	if err := checkDatabase(v.dir); err != nil {
		return err
	}
	bar := c.startProgress("Verifying", 0, true)
	defer bar.finish()
	r, err := tsdb.Verify(ctx, v.dir, &tsdb.VerifyOptions{Progress: bar.set})
	if err != nil {
		return err
	}
	bar.finish()
	if v.output == "json" {
		err = c.printJSON(newVerifyJSON(r))
	} else {
		v.print(c, r)
	}
	if err == nil && !r.Clean() {
		err = errProblem
	}
	return err
}

func newVerifyJSON(r *tsdb.VerifyReport) verifyJSON {
	j := verifyJSON{
		Clean: r.Clean(), Seconds: r.Duration.Seconds(), Bytes: r.Bytes, InUse: r.InUse,
		Blocks: len(r.Blocks), BlockSamples: r.BlockSamples,
		LogSegments: r.LogSegments, LogRecords: r.LogRecords, LogSeries: r.LogSeries, LogSamples: r.LogSamples,
		LateSegments: r.LateSegments, LateSamples: r.LateSamples,
		HeadChunks: r.HeadChunks, HeadSamples: r.HeadSamples, Findings: []findingJSON{}, Omitted: r.OmittedFinds,
	}
	j.Histograms = histogramsOf(r.Blocks)
	for _, f := range r.Findings {
		j.Findings = append(j.Findings, findingJSON{f.Severity.String(), f.File, f.Offset, f.What, f.Meaning, f.Advice})
	}
	return j
}

// histogramsOf counts samples that are histograms, as blocks say of themselves.
func histogramsOf(blocks []tsdb.BlockMeta) (n uint64) {
	for _, b := range blocks {
		n += b.Stats.NumHistogramSamples
	}
	return n
}

// print shows each finding in a few lines; what it means and what to do stands under the
// last one of those that agree about it.
func (v *verifyCommand) print(c *console, r *tsdb.VerifyReport) {
	shown := r.Findings
	if v.limit > 0 && len(shown) > v.limit {
		shown = shown[:v.limit]
	}
	for i, f := range shown {
		severity := f.Severity.String()
		if f.Severity == tsdb.SeverityDamage {
			severity = c.paint(sgrRed, severity)
		}
		place := ""
		if f.Offset > 0 {
			place = " at offset " + count(f.Offset)
		}
		c.printf("%s: %s%s: %s\n", severity, c.paint(sgrBold, f.File), place, f.What)
		if i+1 < len(shown) && shown[i+1].Meaning == f.Meaning && shown[i+1].Advice == f.Advice {
			continue
		}
		if f.Meaning != "" {
			c.printf("    means: %s\n", f.Meaning)
		}
		if f.Advice != "" {
			c.printf("    to do: %s\n", f.Advice)
		}
	}
	if more := len(r.Findings) - len(shown) + r.OmittedFinds; more > 0 {
		c.printf("and %s; --limit=0 shows all\n", things(more, "more finding"))
	}
	if len(shown) > 0 {
		c.printf("\n")
	}
	kinds := ""
	if n := histogramsOf(r.Blocks); n > 0 {
		kinds = " (" + things(n, "histogram") + ")"
	}
	late := ""
	if r.LateSegments > 0 {
		late = fmt.Sprintf("out-of-order log of %s with %s; ", things(r.LateSegments, "segment"), things(r.LateSamples, "late sample"))
	}
	c.printf("%s with %s%s; log of %s with %s; %s%s with %s; %s in %s\n",
		things(len(r.Blocks), "block"), things(r.BlockSamples, "sample"), kinds, things(r.LogSegments, "segment"), things(r.LogSamples, "sample"), late,
		things(r.HeadChunks, "head chunk"), things(r.HeadSamples, "sample"), c.bytes(r.Bytes), formatDuration(r.Duration))
	var n [3]int
	for _, f := range r.Findings {
		n[f.Severity]++
	}
	switch {
	case len(r.Findings) == 0:
		c.printf("%s\n", c.paint(sgrGreen, "nothing is wrong"))
	case r.Clean():
		c.printf("no damage; %s, %s\n", things(n[tsdb.SeverityWarning], "warning"), things(n[tsdb.SeverityNote], "note"))
	default:
		c.printf("%s, %s, %s; \"tsdbutil repair\" saves what can be read\n",
			things(n[tsdb.SeverityDamage], "damage"), things(n[tsdb.SeverityWarning], "warning"), things(n[tsdb.SeverityNote], "note"))
	}
}
