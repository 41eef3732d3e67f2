package main

import (
	"context"
	stderrors "errors"
	"math"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// Formats of imports.
const (
	formatAuto        = "auto"
	formatOpenMetrics = "openmetrics"
	formatProm        = "prom"
	formatCSV         = "csv"
)

// importCommand makes blocks of samples in a text file.
type importCommand struct {
	file, dir   string
	format      string
	labels      map[string]string
	maxBlock    time.Duration
	blockRange  time.Duration
	memory      string
	memoryBytes int64
	outOfOrder  bool
	keepGoing   bool
	quiet       bool
	output      string
	csv         csvFlags
}

const importHelp = `Import samples of any age from OpenMetrics, the Prometheus text format or CSV, as blocks.

FILE may be "-" for standard input, and may be a gzip. Series come in any order, the samples of each in the order of time. A line that cannot be read is named, and then nothing of the file is imported, unless --keep-going leaves such lines out. The database may be in use meanwhile: it finds the blocks by itself.

CSV has column names in its first row. Without any flag the output of "query --output=csv" is read: columns timestamp_ms and value, all others are labels.`

func (p *program) addImport() {
	i := &importCommand{labels: map[string]string{}}
	cmd := p.app.Command("import", importHelp)
	cmd.Arg("file", "Input file; - is standard input.").Required().StringVar(&i.file)
	cmd.Arg("dir", "Data directory; created if there is none.").Default("data/").StringVar(&i.dir)
	formats := []string{formatAuto, formatOpenMetrics, formatProm, formatCSV}
	cmd.Flag("format", "openmetrics (times in seconds, # EOF at the end), prom (times in milliseconds, as \"dump\" writes), csv; auto: by the name of the file.").
		Default(formatAuto).HintOptions(formats...).EnumVar(&i.format, formats...)
	cmd.Flag("label", "Label of every series, in place of what the input says; can be repeated.").PlaceHolder("NAME=VALUE").StringMapVar(&i.labels)
	cmd.Flag("max-block-duration", "The longest time a block may cover.").PlaceHolder("DURATION").Default("744h").DurationVar(&i.maxBlock)
	cmd.Flag("block-range", "The block range of the database.").Hidden().Default("2h").DurationVar(&i.blockRange)
	cmd.Flag("memory", "Memory for samples and series; more goes to disk for a while.").PlaceHolder("SIZE").Default("256MiB").StringVar(&i.memory)
	cmd.Flag("out-of-order", "Mark blocks as out of order, for moving them into another database that has newer samples.").BoolVar(&i.outOfOrder)
	cmd.Flag("keep-going", "Leave lines out that cannot be imported. The exit code is 1 if there were any.").Short('k').BoolVar(&i.keepGoing)
	cmd.Flag("quiet", "Do not list the blocks.").Short('q').BoolVar(&i.quiet)
	i.csvFlags(cmd)
	outputFlag(cmd, &i.output, "table", "json")
	p.add(cmd, i.run)
}

func (i *importCommand) csvFlags(cmd *kingpin.CmdClause) {
	f := &i.csv
	cmd.Flag("time-column", "CSV: column with the time. Default: timestamp_ms, timestamp or time.").PlaceHolder("COLUMN").StringVar(&f.time)
	cmd.Flag("time-format", "CSV: unix (seconds), unix_ms, unix_us, unix_ns, or a Go layout as in \"2006-01-02 15:04\", UTC if it has no zone. auto: RFC 3339 or seconds; milliseconds if the column is timestamp_ms.").
		PlaceHolder("FORMAT").Default(timeAuto).HintOptions(timeAuto, timeUnix, timeUnixMS, timeUnixUS, timeUnixNS).StringVar(&f.timeFormat)
	cmd.Flag("value-column", "CSV: column with values, named as the metric; can be repeated. Default: value.").PlaceHolder("COLUMN").StringsVar(&f.values)
	cmd.Flag("label-column", "CSV: column that is a label; can be repeated. Default: all others, if there is no --value-column.").PlaceHolder("COLUMN").StringsVar(&f.labels)
	cmd.Flag("metric-prefix", "CSV: what names of metrics begin with, before the name of the column.").PlaceHolder("TEXT").StringVar(&f.metricPrefix)
	cmd.Flag("null", "CSV: a text that stands for no value, as empty cells do; can be repeated.").PlaceHolder("TEXT").StringsVar(&f.nulls)
	cmd.Flag("separator", "CSV: the character between cells, or tab. Default: a comma; tab for files named .tsv.").PlaceHolder("CHAR").StringVar(&f.separator)
}

func (i *importCommand) run(ctx context.Context, c *console) (err error) {
	sink := &importSink{ctx: ctx, c: c, keepGoing: i.keepGoing}
	format, err := i.prepare(sink)
	if err != nil {
		return err
	}
	source, err := c.openSource(i.file)
	if err != nil {
		return err
	}
	defer source.close()
	r := &importResult{}
	started := time.Now()
	if sink.w, err = i.writer(r); err != nil {
		return err
	}
	defer func() { err = stderrors.Join(err, sink.w.Close()) }()
	if err := format.read(source); err != nil {
		return i.explain(c, source, err)
	}
	source.close()
	bar := c.startProgress("Writing blocks", sink.Samples, false)
	defer bar.finish()
	r.flushing = bar
	metas, err := sink.w.Flush(ctx)
	bar.finish()
	if err != nil {
		return err
	}
	r.finish(sink, metas, time.Since(started))
	if err := i.print(c, r); err != nil {
		return err
	}
	if r.SkippedLines > 0 {
		return errProblem
	}
	return nil
}

// prepare reads the flags.
func (i *importCommand) prepare(sink *importSink) (format interface{ read(*importSource) error }, err error) {
	if err := sink.setExtra(i.labels); err != nil {
		return nil, err
	}
	if i.format == formatAuto {
		i.format = formatByName(i.file)
	}
	if i.maxBlock < i.blockRange {
		i.maxBlock = i.blockRange // as the counterpart of other tools does
	}
	memory, err := humanize.ParseBytes(i.memory)
	if err != nil || memory > math.MaxInt64 {
		return nil, usageError("--memory: want a size such as 256MiB, not " + quoted(i.memory))
	}
	i.memoryBytes = int64(memory)
	if i.format == formatCSV {
		if i.csv.separator == "" && strings.HasSuffix(plainName(i.file), ".tsv") {
			i.csv.separator = "tab"
		}
		return newImportCSV(sink, i.csv)
	}
	return &importText{sink: sink, prometheus: i.format == formatProm}, nil
}

// writer opens the writer and has it tell how far it is.
func (i *importCommand) writer(r *importResult) (*tsdb.BlockWriter, error) {
	w, err := tsdb.NewBlockWriter(i.dir, &tsdb.BlockWriterOptions{
		Range: i.blockRange, MaxRange: i.maxBlock, MemoryBytes: i.memoryBytes, OutOfOrder: i.outOfOrder,
		Progress: func(p tsdb.BlockWriterProgress) {
			r.Bytes, r.SpilledBytes = p.BlockBytes, p.SpilledBytes
			r.flushing.set(p.Written, p.Samples)
		},
	})
	return w, errors.WithMessagef(err, "import into %s", i.dir)
}

// explain says what a bad line means for the rest.
func (i *importCommand) explain(c *console, source *importSource, err error) error {
	source.close() // its bar, too
	var line *lineError
	if !errors.As(err, &line) {
		return err
	}
	c.message("nothing was imported; --keep-going leaves out what cannot be read")
	return errors.WithMessage(err, i.file)
}

// importResult is what was done.
type importResult struct {
	Samples          int64         `json:"samples"`
	Blocks           []importBlock `json:"blocks"`
	Bytes            int64         `json:"bytes"`
	SpilledBytes     int64         `json:"spilled_bytes"`
	Seconds          float64       `json:"seconds"`
	SamplesPerSecond float64       `json:"samples_per_second"`
	SkippedLines     int64         `json:"skipped_lines"`
	SkippedExemplars int64         `json:"skipped_exemplars"`

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
	r.SkippedLines, r.SkippedExemplars = sink.BadLines, sink.Exemplars
	r.Blocks = make([]importBlock, 0, len(metas))
	for _, m := range metas { // exact repeats are stored once
		r.Samples += int64(m.Stats.NumSamples)
		r.Blocks = append(r.Blocks, importBlock{
			ULID: m.ULID.String(), MinTime: m.MinTime, MaxTime: m.MaxTime, Samples: m.Stats.NumSamples,
			Series: m.Stats.NumSeries, Chunks: m.Stats.NumChunks, OutOfOrder: m.HasHint("from-out-of-order"),
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
	if r.SkippedLines > 0 {
		c.message("skipped %s", things(r.SkippedLines, "line"))
	}
	if r.SkippedExemplars > 0 {
		c.message("left out %s: blocks have none", things(r.SkippedExemplars, "exemplar"))
	}
	return nil
}
