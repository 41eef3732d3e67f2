package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// listCommand lists the blocks of a database.
type listCommand struct {
	dir      string
	human    bool
	metadata bool
	output   string
}

const listHelp = `List the blocks of a database.

Names, flags and columns are those of "promtool tsdb list"; the end of a block's time is exclusive. The database may be in use. What is in the log and in no block yet is not listed: "analyze" counts it.

With --metadata, the type, unit and help of each series in the log that has them, in place of blocks, which have none.`

func (p *program) addList() {
	l := &listCommand{}
	cmd := p.app.Command("list", listHelp)
	cmd.Arg("dir", "Data directory; data/ if none is named.").Default("data/").StringVar(&l.dir)
	cmd.Flag("human-readable", "Times, durations and sizes for people, also where the output is no terminal.").Short('r').BoolVar(&l.human)
	cmd.Flag("metadata", "List type, unit and help of series.").BoolVar(&l.metadata)
	outputFlag(cmd, &l.output, "table", "json")
	p.add(cmd, l.run)
}

// listedBlock is a block in JSON.
type listedBlock struct {
	ULID       string   `json:"ulid"`
	MinTime    int64    `json:"min_time"`
	MaxTime    int64    `json:"max_time"` // exclusive
	Samples    uint64   `json:"num_samples"`
	Floats     uint64   `json:"num_float_samples"` // old blocks do not say: 0
	Histograms uint64   `json:"num_histogram_samples"`
	Chunks     uint64   `json:"num_chunks"`
	Series     uint64   `json:"num_series"`
	Tombstones uint64   `json:"num_tombstones"`
	Bytes      int64    `json:"size_bytes"`
	Level      int      `json:"level"`
	Sources    int      `json:"sources"`
	Hints      []string `json:"hints"`
}

func (l *listCommand) run(ctx context.Context, c *console) (err error) {
	r, err := c.openReader(l.dir)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if l.metadata {
		return listMetadata(ctx, c, r, l.output)
	}
	blocks, err := l.blocks(r.Blocks())
	if err != nil {
		return err
	}
	if l.output == "json" {
		return c.printJSON(map[string]any{"blocks": blocks})
	}
	if len(blocks) == 0 {
		c.message("there are no blocks")
		return nil
	}
	return l.print(c, blocks)
}

// lateHint is what blocks say of themselves that have late samples.
const lateHint = "from-out-of-order"

// Widths of a terminal for tables of blocks, in characters.
const (
	listWidth  = 127 // as promtool has it
	shortWidth = 118 // with shorter names of columns; on less, columns are left out
)

func (l *listCommand) print(c *console, blocks []listedBlock) error {
	header := table.Row{"BLOCK ULID", "MIN TIME", "MAX TIME", "DURATION", "NUM SAMPLES", "NUM CHUNKS", "NUM SERIES", "SIZE"}
	narrow := c.terminal && c.width < shortWidth
	switch {
	case narrow:
		header = table.Row{"BLOCK ULID", "MIN TIME", "DURATION", "SAMPLES", "SIZE"}
	case c.terminal && c.width < listWidth:
		header = table.Row{"BLOCK ULID", "MIN TIME", "MAX TIME", "DURATION", "SAMPLES", "CHUNKS", "SERIES", "SIZE"}
	}
	rows := make([]table.Row, 0, len(blocks))
	for _, b := range blocks {
		row := l.row(c, b)
		if narrow {
			row = table.Row{row[0], row[1], row[3], row[4], row[7]}
		}
		rows = append(rows, row)
	}
	defer l.tellOfSamples(c, blocks)
	if narrow {
		return c.printTable(header, rows, 0, 3, 4, 5)
	}
	return c.printTable(header, rows, 0, 4, 5, 6, 7, 8)
}

// tellOfSamples says how many are no floats, and how many blocks have late ones, which the columns
// of promtool do not.
func (l *listCommand) tellOfSamples(c *console, blocks []listedBlock) {
	n, late := uint64(0), 0
	for _, b := range blocks {
		n += b.Histograms
		if slices.Contains(b.Hints, lateHint) {
			late++
		}
	}
	if n > 0 {
		c.message("%s of the samples are native histograms", count(n))
	}
	if late > 0 {
		c.message("%s of samples that came late", things(late, "block"))
	}
}

// blocks adds sizes to what blocks say of themselves.
func (l *listCommand) blocks(metas []tsdb.BlockMeta) ([]listedBlock, error) {
	_, entries, err := diskUsage(l.dir)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, e := range entries {
		sizes[strings.TrimSuffix(e.Name, "/")] = e.Bytes
	}
	blocks := make([]listedBlock, 0, len(metas))
	for _, m := range metas {
		blocks = append(blocks, listedBlock{
			ULID: m.ULID.String(), MinTime: m.MinTime, MaxTime: m.MaxTime,
			Samples: m.Stats.NumSamples, Floats: m.Stats.NumFloatSamples, Histograms: m.Stats.NumHistogramSamples, Chunks: m.Stats.NumChunks, Series: m.Stats.NumSeries, Tombstones: m.Stats.NumTombstones,
			Bytes: sizes[m.ULID.String()], Level: m.Compaction.Level, Sources: len(m.Compaction.Sources),
			Hints: append([]string{}, m.Compaction.Hints...),
		})
	}
	return blocks, nil
}

func (l *listCommand) row(c *console, b listedBlock) table.Row {
	length := (time.Duration(b.MaxTime-b.MinTime) * time.Millisecond).String()
	if l.human || c.terminal {
		if b.MaxTime-b.MinTime >= time.Minute.Milliseconds() {
			length = formatDuration(time.Duration(b.MaxTime-b.MinTime) * time.Millisecond)
		}
		return table.Row{b.ULID, formatTime(b.MinTime), formatTime(b.MaxTime), length,
			count(b.Samples), count(b.Chunks), count(b.Series), formatBytes(float64(b.Bytes))}
	}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return table.Row{b.ULID, strconv.FormatInt(b.MinTime, 10), strconv.FormatInt(b.MaxTime, 10), length,
		number(b.Samples), number(b.Chunks), number(b.Series), strconv.FormatInt(b.Bytes, 10)}
}
