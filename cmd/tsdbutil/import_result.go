package main

import (
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// importResult is what was done.
type importResult struct {
	Samples          int64         `json:"samples"`
	Blocks           []importBlock `json:"blocks"`
	Bytes            int64         `json:"bytes"`
	SpilledBytes     int64         `json:"spilled_bytes"`
	Seconds          float64       `json:"seconds"`
	SamplesPerSecond float64       `json:"samples_per_second"`
	SkippedLines     int64         `json:"skipped_lines"`
	Exemplars        int64         `json:"exemplars"`
	DescribedSeries  int64         `json:"described_series"` // with a type, a unit or a help text
	SkippedExemplars int64         `json:"skipped_exemplars"`
	// SkippedMetadata are lines with the type, the unit or the help text of a metric.
	SkippedMetadata int64 `json:"skipped_metadata_lines"`
	// SkippedDuplicates had another value at the time of one that was kept.
	SkippedDuplicates int64 `json:"skipped_duplicates"`
	// EarlySamples are within a year of 1970.
	EarlySamples int64 `json:"early_samples"`
	// OldSamples are others that are more than a year before the clock.
	OldSamples int64 `json:"old_samples"`

	flushing *progress
}

type importBlock struct {
	ULID       string `json:"ulid"`
	MinTime    int64  `json:"min_time"`
	MaxTime    int64  `json:"max_time"` // not included
	Samples    uint64 `json:"samples"`
	Series     uint64 `json:"series"`
	Chunks     uint64 `json:"chunks"`
	OutOfOrder bool   `json:"out_of_order"`
}

// finish fills in what is known at the end.
func (r *importResult) finish(sink *importSink, metas []tsdb.BlockMeta, took time.Duration) {
	r.SkippedLines, r.SkippedExemplars, r.SkippedMetadata = sink.BadLines, sink.Exemplars, sink.Comments
	r.EarlySamples, r.OldSamples = sink.times.early.samples, sink.times.old.samples
	r.Blocks = make([]importBlock, 0, len(metas))
	for _, m := range metas { // exact repeats are stored once
		r.Samples += int64(m.Stats.NumSamples)
		r.Blocks = append(r.Blocks, importBlock{
			ULID: m.ULID.String(), MinTime: m.MinTime, MaxTime: m.MaxTime, Samples: m.Stats.NumSamples,
			Series: m.Stats.NumSeries, Chunks: m.Stats.NumChunks, OutOfOrder: m.HasHint(lateHint),
		})
	}
	r.Seconds = took.Seconds()
	r.SamplesPerSecond = float64(r.Samples) / max(r.Seconds, 1e-9)
}

func (i *importCommand) print(c *console, r *importResult) error {
	if i.output == "json" {
		return c.printJSON(r)
	}
	if len(r.Blocks) > 0 && !i.quiet {
		rows := make([]table.Row, 0, len(r.Blocks))
		for _, b := range r.Blocks {
			rows = append(rows, table.Row{b.ULID, c.time(b.MinTime, time.Time{}), c.time(b.MaxTime, time.Time{}), count(b.Samples), count(b.Series), count(b.Chunks)})
		}
		if err := c.printTable(table.Row{"block", "from", "before", "samples", "series", "chunks"}, rows, 0, 4, 5, 6); err != nil {
			return err
		}
	}
	c.message("imported %s into %s: %s in %s, %s a second", things(r.Samples, "sample"), things(len(r.Blocks), "block"),
		c.bytes(r.Bytes), formatSeconds(r.Seconds), formatNumber(r.SamplesPerSecond))
	if r.Exemplars+r.DescribedSeries > 0 {
		c.message("gave the head %s, and what is known about %s series", things(r.Exemplars, "exemplar"), count(r.DescribedSeries))
		if r.Exemplars > headKeepsExemplars {
			c.message("warning: it keeps the newest %s of all exemplars that it was given", count(headKeepsExemplars))
		}
	}
	if r.SkippedLines > 0 {
		c.message("skipped %s", things(r.SkippedLines, "line"))
	}
	if r.SkippedDuplicates > 0 {
		c.message("left out %s with another value at the time of one that was kept (--on-duplicate)", things(r.SkippedDuplicates, "sample"))
	}
	if r.EarlySamples > 0 {
		c.message("warning: %s within a year of 1970", things(r.EarlySamples, "sample"))
	}
	if r.OldSamples > 0 {
		c.message("warning: %s more than a year before the clock", things(r.OldSamples, "sample"))
	}
	if left := r.extras(); left != "" {
		c.message("left out %s: blocks have no place for that, --extras puts it into the head", left)
	}
	return nil
}

// extras says what the input had beside samples.
func (r *importResult) extras() string {
	var parts []string
	if r.SkippedExemplars > 0 {
		parts = append(parts, things(r.SkippedExemplars, "exemplar"))
	}
	if r.SkippedMetadata > 0 {
		parts = append(parts, things(r.SkippedMetadata, "line")+" of types, units and help")
	}
	return strings.Join(parts, " and ")
}
