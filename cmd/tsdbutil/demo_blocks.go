package main

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// demoRange is the block range of the demo: so short that a few runs within some minutes
// leave blocks that are merged.
const demoRange = time.Minute

// demoBlocks is what became of the head, and how what is in blocks reads.
type demoBlocks struct {
	FlushSeconds float64     `json:"flush_seconds"`
	Flushed      uint64      `json:"flushed"` // blocks made of the head
	Merged       uint64      `json:"merged"`  // merges of blocks
	Blocks       []demoBlock `json:"blocks"`
	Check        demoCheck   `json:"check"` // of the scrapes, once more
}

type demoBlock struct {
	ULID    string `json:"ulid"`
	MinTime int64  `json:"min_time"`
	MaxTime int64  `json:"max_time"` // exclusive
	Level   int    `json:"level"`
	Series  uint64 `json:"series"`
	Chunks  uint64 `json:"chunks"`
	Samples uint64 `json:"samples"`
	Bytes   int64  `json:"bytes"`
}

// makeBlocks turns the head into blocks, merges those that are due, and looks for every
// scrape again, now in blocks.
func makeBlocks(ctx context.Context, db *tsdb.DB, rec *recording) (d demoBlocks, err error) {
	start := time.Now()
	if err := db.Flush(ctx); err != nil {
		return d, err
	}
	if err := db.Compact(ctx); err != nil {
		return d, err
	}
	d.FlushSeconds = time.Since(start).Seconds()
	st := db.Stats()
	d.Flushed, d.Merged = st.Flushes, st.Merges
	for _, m := range db.Blocks() {
		b := demoBlock{ULID: m.ULID.String(), MinTime: m.MinTime, MaxTime: m.MaxTime, Level: m.Compaction.Level,
			Series: m.Stats.NumSeries, Chunks: m.Stats.NumChunks, Samples: m.Stats.NumSamples}
		if b.Bytes, _, err = diskUsage(filepath.Join(db.Dir(), b.ULID)); err != nil {
			return d, err
		}
		d.Blocks = append(d.Blocks, b)
	}
	querier, err := db.Querier(rec.acks[0].T, rec.maxT())
	if err != nil {
		return d, err
	}
	defer func() { _ = querier.Close() }()
	d.Check, err = checkScrapes(ctx, querier, rec.acks)
	return d, err
}

// blockSamples counts what blocks hold.
func blockSamples(db *tsdb.DB) (samples uint64) {
	for _, m := range db.Blocks() {
		samples += m.Stats.NumSamples
	}
	return samples
}

func (s *demoText) blocks(d *demoBlocks) error {
	if s == nil {
		return nil
	}
	merged := ""
	if d.Merged > 0 {
		merged = ", " + things(d.Merged, "merge")
	}
	s.heading("Compacted", "the head into %s%s, in %s", things(d.Flushed, "block"), merged, formatSeconds(d.FlushSeconds))
	if err := s.blockTable(d.Blocks); err != nil {
		return err
	}
	s.checked(d.Check)
	return nil
}

// blockTable shows less of each block on a terminal that has no room for everything.
func (s *demoText) blockTable(blocks []demoBlock) error {
	narrow := s.c.terminal && s.c.width < shortWidth
	rows, now := make([]table.Row, 0, len(blocks)), time.Now()
	for _, b := range blocks {
		perSample := float64(b.Bytes) / float64(max(b.Samples, 1))
		length := formatDuration(time.Duration(b.MaxTime-b.MinTime) * time.Millisecond)
		if narrow {
			rows = append(rows, table.Row{b.ULID, s.c.time(b.MinTime, now), length, b.Level, count(b.Series), count(b.Samples), s.c.bytes(b.Bytes)})
			continue
		}
		rows = append(rows, table.Row{b.ULID, formatTime(b.MinTime), length,
			b.Level, count(b.Series), count(b.Chunks), count(b.Samples), s.c.bytes(b.Bytes), strconv.FormatFloat(perSample, 'f', 2, 64)})
	}
	if narrow {
		return s.c.printTable(table.Row{"block", "from", "for", "level", "series", "samples", "size"}, rows, 0, 4, 5, 6, 7)
	}
	return s.c.printTable(table.Row{"block", "from", "for", "level", "series", "chunks", "samples", "size", "bytes/sample"}, rows, 0, 4, 5, 6, 7, 8, 9)
}
