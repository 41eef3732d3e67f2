package main

import (
	"context"
	"io/fs"
	"math"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// analyzeCommand shows which labels make series many.
type analyzeCommand struct {
	dir, block string
	limit      int
	extended   bool
	match      string
	start, end string
	output     string
}

const analyzeHelp = `Show which labels make series many, which make them come and go, and what takes room.

Everything is counted, blocks and what is in the log, each series once; with BLOCK, that block only. Names and flags are those of "promtool tsdb analyze", which takes the newest block if none is named. The database may be in use.

Churn is how many whole ranges of time the series of a label do not have samples for, taken together: a label that changes with each deployment is on top.`

func (p *program) addAnalyze() {
	a := &analyzeCommand{}
	cmd := p.app.Command("analyze", analyzeHelp)
	cmd.Arg("dir", "Data directory; data/ if none is named.").Default("data/").StringVar(&a.dir)
	cmd.Arg("block", "ULID of the only block to look at.").StringVar(&a.block)
	cmd.Flag("limit", "How many entries each list has.").Default("20").IntVar(&a.limit)
	cmd.Flag("extended", "Read all chunks, too: samples and bytes by kind of sample and by metric.").BoolVar(&a.extended)
	cmd.Flag("match", "Series selector. Default: all series.").PlaceHolder("SELECTOR").StringVar(&a.match)
	cmd.Flag("start", "Oldest time: RFC 3339, seconds since 1970, or before now (-5m). Default: all.").PlaceHolder("TIME").StringVar(&a.start)
	cmd.Flag("end", "Newest time, included.").PlaceHolder("TIME").StringVar(&a.end)
	outputFlag(cmd, &a.output, "table", "json")
	p.add(cmd, a.run)
}

// analyzeJSON is a Cardinality in JSON.
type analyzeJSON struct {
	Block        string        `json:"block,omitempty"`
	MinTime      int64         `json:"min_time"`
	MaxTime      int64         `json:"max_time"` // included
	Series       uint64        `json:"series"`
	LabelNames   int           `json:"label_names"`
	LabelPairs   int           `json:"label_pairs"`
	PairEntries  uint64        `json:"label_pair_entries"`
	Chunks       uint64        `json:"chunks"`
	Samples      *uint64       `json:"samples,omitempty"` // with --extended
	Bytes        *uint64       `json:"chunk_bytes,omitempty"`
	Metrics      []labelCount  `json:"metrics_by_series"`
	Names        []labelCount  `json:"names_by_values"`
	Pairs        []labelCount  `json:"pairs_by_series"`
	ValueBytes   []labelCount  `json:"names_by_value_bytes"`
	ChurnPairs   []labelChurn  `json:"pairs_by_churn"`
	ChurnNames   []labelChurn  `json:"names_by_churn"`
	MetricChunks []metricBytes `json:"metrics_by_bytes,omitempty"`
	Encodings    []encoded     `json:"encodings,omitempty"`
	Warnings     []string      `json:"warnings"`
}

type labelCount struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Count uint64 `json:"count"`
}

type labelChurn struct {
	Name  string  `json:"name"`
	Value string  `json:"value,omitempty"`
	Churn float64 `json:"churn"`
}

type metricBytes struct {
	Name    string `json:"name"`
	Series  uint64 `json:"series"`
	Samples uint64 `json:"samples"`
	Bytes   uint64 `json:"bytes"`
}

func (a *analyzeCommand) run(ctx context.Context, c *console) error {
	opts, err := a.options()
	if err != nil {
		return err
	}
	r, err := c.openReader(a.dir)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	bar := c.startProgress("Counting series", 0, false)
	defer bar.finish()
	var seen uint64
	opts.Progress = func(series uint64) { bar.add(int64(series - seen)); seen = series }
	found, err := r.Cardinality(ctx, opts)
	if errors.Is(err, fs.ErrNotExist) {
		return &plainError{text: "there is no block " + a.block, kind: errNoDatabase}
	}
	if err != nil {
		return err
	}
	bar.finish()
	for _, w := range found.Warnings {
		c.message("warning: %v", w)
	}
	if a.output == "json" {
		return c.printJSON(a.newJSON(&found))
	}
	return a.print(c, &found)
}

func (a *analyzeCommand) options() (opts tsdb.CardinalityOptions, err error) {
	if a.limit < 1 {
		return opts, usageError("--limit: want 1 or more")
	}
	opts = tsdb.CardinalityOptions{Limit: a.limit, Chunks: a.extended}
	if a.block != "" {
		if opts.Block, err = ulid.ParseStrict(a.block); err != nil {
			return opts, usageError("\"" + a.block + "\" is no name of a block: those have 26 letters and digits; \"tsdbutil list\" shows them")
		}
	}
	if a.match != "" {
		if opts.Matchers, err = parseSelector(a.match); err != nil {
			return opts, err
		}
	}
	opts.MinT, opts.MaxT, err = parseRange(a.start, a.end, time.Now())
	if opts.MinT == 0 && opts.MaxT == 0 {
		opts.MinT = math.MinInt64 // both 0 would be everything
	}
	return opts, err
}

func (a *analyzeCommand) newJSON(f *tsdb.Cardinality) analyzeJSON {
	j := analyzeJSON{Block: a.block, MinTime: f.MinT, MaxTime: f.MaxT, Series: f.Series, LabelNames: f.LabelNames, LabelPairs: f.LabelPairs,
		PairEntries: f.LabelPairEntries, Chunks: f.Chunks, Metrics: jsonCounts(f.Metrics), Names: jsonCounts(f.Names),
		Pairs: jsonCounts(f.Pairs), ValueBytes: jsonCounts(f.ValueBytes), ChurnPairs: jsonChurn(f.ChurnPairs), ChurnNames: jsonChurn(f.ChurnNames),
		Warnings: []string{}}
	if a.extended {
		j.Samples, j.Bytes = &f.Samples, &f.Bytes
	}
	for _, m := range f.MetricChunks {
		j.MetricChunks = append(j.MetricChunks, metricBytes(m))
	}
	j.Encodings = newEncoded(f.Encodings)
	for _, w := range f.Warnings {
		j.Warnings = append(j.Warnings, w.Error())
	}
	return j
}

func jsonCounts(list []tsdb.LabelCount) []labelCount {
	out := make([]labelCount, 0, len(list))
	for _, l := range list {
		out = append(out, labelCount(l))
	}
	return out
}

func jsonChurn(list []tsdb.LabelChurn) []labelChurn {
	out := make([]labelChurn, 0, len(list))
	for _, l := range list {
		out = append(out, labelChurn(l))
	}
	return out
}

func (a *analyzeCommand) print(c *console, f *tsdb.Cardinality) error {
	if f.Series == 0 {
		c.message("no series")
		return nil
	}
	if a.block != "" {
		c.printf("Block ID: %s\n", a.block)
	}
	now := time.Now()
	c.printf("Time: %s to %s\n", c.time(f.MinT, now), c.time(f.MaxT, now))
	c.printf("Duration: %s\n", formatDuration(time.Duration(f.MaxT-f.MinT)*time.Millisecond))
	c.printf("Total Series: %s\n", count(f.Series))
	c.printf("Label names: %s\n", count(f.LabelNames))
	c.printf("Postings (unique label pairs): %s\n", count(f.LabelPairs))
	c.printf("Postings entries (total label pairs): %s\n", count(f.LabelPairEntries))
	c.printf("Chunks: %s\n", count(f.Chunks))
	if a.extended {
		c.printf("Samples: %s in %s, %s bytes a sample\n", count(f.Samples), c.bytes(int64(f.Bytes)),
			strconv.FormatFloat(float64(f.Bytes)/max(1, float64(f.Samples)), 'f', 2, 64))
	}
	for _, list := range []struct {
		title string
		rows  []table.Row
	}{
		{"Label pairs most involved in churning", churnRows(f.ChurnPairs)},
		{"Label names most involved in churning", churnRows(f.ChurnNames)},
		{"Most common label pairs", countRows(f.Pairs)},
		{"Label names with highest cumulative label value length", countRows(f.ValueBytes)},
		{"Highest cardinality labels", countRows(f.Names)},
		{"Highest cardinality metric names", countRows(f.Metrics)},
	} {
		c.printList(list.title, list.rows)
	}
	if !a.extended {
		return nil
	}
	if err := c.printEncodings(f.Encodings); err != nil {
		return err
	}
	rows := make([]table.Row, 0, len(f.MetricChunks))
	for _, m := range f.MetricChunks {
		rows = append(rows, table.Row{c.bytes(int64(m.Bytes)), count(m.Samples), count(m.Series), m.Name})
	}
	c.printf("\nMetrics with the most bytes in chunks:\n")
	return c.printTable(table.Row{"bytes", "samples", "series", "metric"}, rows, 4, 1, 2, 3)
}

// printList writes numbers and what they count.
func (c *console) printList(title string, rows []table.Row) {
	c.printf("\n%s:\n", title)
	for _, row := range rows {
		c.printf("%s %s\n", row[0], row[1])
	}
}

func countRows(list []tsdb.LabelCount) []table.Row {
	rows := make([]table.Row, 0, len(list))
	for _, l := range list {
		rows = append(rows, table.Row{strconv.FormatUint(l.Count, 10), pairText(l.Name, l.Value)})
	}
	return rows
}

// churnRows leaves out what does not churn.
func churnRows(list []tsdb.LabelChurn) []table.Row {
	rows := make([]table.Row, 0, len(list))
	for _, l := range list {
		if l.Churn >= 0.5 {
			rows = append(rows, table.Row{strconv.FormatFloat(l.Churn, 'f', 0, 64), pairText(l.Name, l.Value)})
		}
	}
	return rows
}

func pairText(name, value string) string {
	if value == "" {
		return name
	}
	return name + "=" + value
}
