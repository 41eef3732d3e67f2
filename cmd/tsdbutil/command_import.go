package main

import (
	"context"
	stderrors "errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/dustin/go-humanize"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
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
	onDuplicate string
	limits      limitFlags
	allowFuture bool
	outOfOrder  bool
	extras      bool
	keepGoing   bool
	quiet       bool
	output      string
	csv         csvFlags
}

const importHelp = `Import samples of any age from OpenMetrics, the Prometheus text format, CSV, tables of InfluxDB or JSON, as blocks.

FILE may be "-" for standard input, and may be a gzip. Series and samples come in any order. A line that cannot be read is named, and then nothing of the file is imported, unless --keep-going leaves such lines out. The database may be in use meanwhile: it finds the blocks by itself.

CSV has column names in its first row. Without any flag the output of "query --output=csv" is read: columns timestamp_ms and value, all others are labels. What "query" and "dump" write is read back bit for bit; of native histograms, exemplars, types, units and help what "dump --format=openmetrics" writes.`

func (p *program) addImport() {
	i := &importCommand{labels: map[string]string{}}
	cmd := p.app.Command("import", importHelp)
	cmd.Arg("file", "Input file; - is standard input.").Required().StringVar(&i.file)
	cmd.Arg("dir", "Data directory, data/ if none is named; created if there is none.").Default("data/").StringVar(&i.dir)
	formats := []string{formatAuto, formatOpenMetrics, formatProm, formatCSV, formatInflux, formatJSON}
	cmd.Flag("format", "openmetrics (times in seconds, # EOF at the end), prom (times in milliseconds, as \"dump\" writes), csv, influx (tables of InfluxDB), json (as \"query\" writes); auto: by the content.").
		Default(formatAuto).HintOptions(formats...).EnumVar(&i.format, formats...)
	cmd.Flag("label", "Label of every series, in place of what the input says; can be repeated.").PlaceHolder("NAME=VALUE").StringMapVar(&i.labels)
	cmd.Flag("max-block-duration", "The longest time a block may cover.").PlaceHolder("744h").Default("744h").DurationVar(&i.maxBlock)
	cmd.Flag("block-range", "The block range of the database.").Hidden().Default("2h").DurationVar(&i.blockRange)
	cmd.Flag("memory", "Memory for samples and series; more goes to disk for a while.").PlaceHolder("256MiB").Default("256MiB").StringVar(&i.memory)
	policies := slices.Sorted(maps.Keys(duplicatePolicies))
	cmd.Flag("on-duplicate", "Samples of a series with one time and different values: error, or the first or the last of them is kept.").
		Default("error").HintOptions(policies...).EnumVar(&i.onDuplicate, policies...)
	cmd.Flag("allow-future", "Take times that are more than a year ahead of the clock.").BoolVar(&i.allowFuture)
	i.limits.flags(cmd)
	cmd.Flag("out-of-order", "Mark blocks as out of order, for moving them into another database that has newer samples.").BoolVar(&i.outOfOrder)
	cmd.Flag("extras", "OpenMetrics and prom: put exemplars, types, units and help into the head of the database, which must not be in use then.").BoolVar(&i.extras)
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
	cmd.Flag("separator", "CSV: the character between cells, or tab. Default: a comma, a tab or a semicolon, whichever comes first in the first row.").PlaceHolder("CHAR").StringVar(&f.separator)
}

func (i *importCommand) run(ctx context.Context, c *console) (err error) {
	sink := &importSink{ctx: ctx, c: c, keepGoing: i.keepGoing, refuse: i.keepGoing && i.onDuplicate == "error"}
	if err := i.prepare(sink); err != nil {
		return err
	}
	source, err := c.openSource(i.file)
	if err != nil {
		return err
	}
	defer source.close()
	format := i.reader(c, sink, source)
	r := &importResult{}
	started := time.Now()
	extras, err := i.openExtras(format)
	if err != nil {
		return err
	}
	if extras != nil {
		defer func() { err = stderrors.Join(err, extras.close()) }()
	}
	w, err := i.writer(r)
	if err != nil {
		return err
	}
	sink.w = w
	defer func() { err = stderrors.Join(err, w.Close()) }()
	if err := format.read(source); err != nil {
		return i.explain(c, source, err)
	}
	source.close()
	bar := c.startProgress("Writing blocks", sink.Samples, false)
	defer bar.finish()
	r.flushing = bar
	metas, err := w.Flush(ctx)
	bar.finish()
	if errors.Is(err, tsdb.ErrDuplicateSample) {
		c.message(chooseOne)
	}
	if err == nil && extras != nil {
		err = extras.write(ctx)
		r.Exemplars, r.DescribedSeries = extras.exemplars, extras.described
	}
	if err != nil {
		return err
	}
	r.finish(sink, metas, time.Since(started))
	if err := i.print(c, r); err != nil {
		return err
	}
	if r.SkippedLines > 0 || sink.refuse && r.SkippedDuplicates > 0 {
		return errProblem
	}
	return nil
}

// openExtras returns who takes what a text has beside samples; nil: nobody does.
func (i *importCommand) openExtras(format importFormat) (*headExtras, error) {
	if !i.extras {
		return nil, nil
	}
	text, ok := format.(*importText)
	if !ok {
		return nil, usageError("--extras: only OpenMetrics and the Prometheus text format have exemplars, types, units and help")
	}
	extras, err := openHeadExtras(i.dir, i.limits.options())
	if err != nil {
		return nil, errors.WithMessagef(err, "import into %s", i.dir)
	}
	text.extras = extras
	return extras, nil
}

// prepare reads the flags.
func (i *importCommand) prepare(sink *importSink) error {
	if err := sink.setExtra(i.labels); err != nil {
		return err
	}
	if i.maxBlock < i.blockRange {
		i.maxBlock = i.blockRange // as the counterpart of other tools does
	}
	memory, err := humanize.ParseBytes(i.memory)
	if err != nil || memory > math.MaxInt64 {
		return usageError("--memory: want a size such as 256MiB, not " + quoted(i.memory))
	}
	i.memoryBytes = int64(memory)
	if i.csv.separator != "" {
		if _, err := parseSeparator(i.csv.separator); err != nil {
			return err
		}
	}
	sink.times = timeCheck{now: time.Now().UnixMilli(), allowFuture: i.allowFuture}
	sink.longest, err = i.limits.longestLine()
	return err
}

// importFormat reads one format.
type importFormat interface{ read(*importSource) error }

// reader returns what reads the format that the flag or the content says.
func (i *importCommand) reader(c *console, sink *importSink, source *importSource) importFormat {
	format := i.format
	if format == formatAuto {
		found := sniff(source.head(), source.tail, i.file, &i.csv)
		format = found.format
		if named := formatByName(i.file); found.guessed || format != named && named != formatOpenMetrics {
			c.message("reading %s as %s, by its content; --format says otherwise", i.file, formatNames[format])
		}
	}
	const otherUnit = "if that is not meant, --time-format says in what unit times are"
	sink.times.ifAhead, sink.times.ifEarly = otherUnit, otherUnit
	switch format {
	case formatCSV:
		return &importCSV{sink: sink, flags: i.csv}
	case formatInflux:
		return &importInflux{sink: sink, flags: i.csv}
	case formatJSON:
		sink.times.ifAhead, sink.times.ifEarly = "times of JSON are milliseconds", "times of JSON are milliseconds, check that they are not seconds"
		return &importJSON{sink: sink}
	case formatProm:
		sink.times.ifAhead = "times of this format are milliseconds"
		sink.times.ifEarly = "times of this format are milliseconds; if they are seconds, --format=openmetrics reads them"
		return &importText{sink: sink, prometheus: true}
	default:
		sink.times.ifAhead = "times of OpenMetrics are seconds; if they are milliseconds, --format=prom reads them"
		sink.times.ifEarly = "times of OpenMetrics are seconds since 1970"
		return &importText{sink: sink}
	}
}

// formatNames are for people.
var formatNames = map[string]string{
	formatOpenMetrics: "OpenMetrics, times in seconds", formatProm: "the Prometheus text format, times in milliseconds",
	formatCSV: "a table", formatInflux: "tables of InfluxDB", formatJSON: "JSON",
}

// duplicatePolicies are the values of --on-duplicate.
var duplicatePolicies = map[string]tsdb.DuplicatePolicy{
	"error": tsdb.DuplicatesError, "first": tsdb.DuplicatesFirst, "last": tsdb.DuplicatesLast,
}

// writer opens the writer and has it tell how far it is. With --keep-going nothing that a line
// has may end the import, so values that turn up later than others of their time are left out.
func (i *importCommand) writer(r *importResult) (*tsdb.BlockWriter, error) {
	policy := duplicatePolicies[i.onDuplicate]
	if i.keepGoing && policy == tsdb.DuplicatesError {
		policy = tsdb.DuplicatesFirst
	}
	w, err := tsdb.NewBlockWriter(i.dir, &tsdb.BlockWriterOptions{
		Range: i.blockRange, MaxRange: i.maxBlock, MemoryBytes: i.memoryBytes, OutOfOrder: i.outOfOrder,
		OnDuplicate: policy, Limits: i.limits.options(),
		Progress: func(p tsdb.BlockWriterProgress) {
			r.Bytes, r.SpilledBytes, r.SkippedDuplicates = p.BlockBytes, p.SpilledBytes, p.Duplicates
			r.flushing.set(p.Written, p.Samples)
		},
	})
	return w, errors.WithMessagef(err, "import into %s", i.dir)
}

const chooseOne = "nothing was imported; --on-duplicate=first or last chooses between values of one time"

// explain says what a bad line means for the rest.
func (i *importCommand) explain(c *console, source *importSource, err error) error {
	source.close() // its bar, too
	var line *lineError
	if !errors.As(err, &line) {
		return err
	}
	switch {
	case errors.Is(err, tsdb.ErrDuplicateSample):
		c.message(chooseOne)
	case errors.Is(err, tsdb.ErrLimit):
		c.message("nothing was imported; --label-limit and its like move the limits, --keep-going leaves such lines out")
	case errors.Is(err, tsdb.ErrOutOfBounds):
		c.message("nothing was imported; --keep-going leaves such lines out")
	default:
		c.message("nothing was imported; --keep-going leaves out what cannot be read")
	}
	return errors.WithMessage(err, i.file)
}
