package main

import (
	"bufio"
	"context"
	"math"
	"strconv"

	"github.com/alecthomas/kingpin/v2"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// dumpCommand writes all samples of a database, or those of some series.
type dumpCommand struct {
	dir              string
	matches          []string
	minTime, maxTime int64
	format, output   string
}

const dumpHelp = `Write the samples of a database as text, in the order of labels and time.

The format prom has a line a sample: labels, value, milliseconds. Of histograms it has the buckets by their bounds, which "import" cannot read. openmetrics has times in seconds, names in front of braces, start timestamps, exemplars, and of histograms all, as the draft of OpenMetrics 2.0 writes them; types, units and help that the log has stand in front of a metric; stale markers are left out. seriesjson has the labels of each series as a JSON object a line, which "bench write --labels" reads. Memory use does not depend on the number of samples.`

func (p *program) addDump() {
	d := &dumpCommand{}
	cmd := p.app.Command("dump", dumpHelp)
	d.flags(cmd)
	formats := []string{dumpProm, dumpOpenMetrics, dumpSeriesJSON}
	cmd.Flag("format", "Output format: prom, openmetrics, seriesjson.").Default(dumpProm).HintOptions(formats...).EnumVar(&d.format, formats...)
	cmd.Flag("output", "text: what --format says; json: an object a series and line, with its samples.").
		Short('o').Default("text").HintOptions("text", "json").EnumVar(&d.output, "text", "table", "json")
	p.add(cmd, d.run)
}

// addDumpOpenMetrics adds the name that other tools have for a format of dump.
func (p *program) addDumpOpenMetrics() {
	d := &dumpCommand{format: dumpOpenMetrics, output: "text"}
	cmd := p.app.Command("dump-openmetrics", "The same as dump --format=openmetrics.").Hidden()
	d.flags(cmd)
	p.add(cmd, d.run)
}

func (d *dumpCommand) flags(cmd *kingpin.CmdClause) {
	cmd.Arg("dir", "Data directory.").Required().StringVar(&d.dir)
	cmd.Flag("match", "Series selector; can be repeated, a series needs to match one. Default: all.").PlaceHolder("SELECTOR").StringsVar(&d.matches)
	cmd.Flag("min-time", "Oldest time in milliseconds since 1970.").PlaceHolder("MS").Default(strconv.FormatInt(math.MinInt64, 10)).Int64Var(&d.minTime)
	cmd.Flag("max-time", "Newest time in milliseconds since 1970, included.").PlaceHolder("MS").Default(strconv.FormatInt(math.MaxInt64, 10)).Int64Var(&d.maxTime)
}

func (d *dumpCommand) run(ctx context.Context, c *console) (err error) {
	if d.minTime > d.maxTime {
		return usageError("--min-time is after --max-time")
	}
	selectors := make([][]*labels.Matcher, 0, len(d.matches))
	for _, text := range d.matches {
		ms, err := parseSelector(text)
		if err != nil {
			return err
		}
		selectors = append(selectors, ms)
	}
	if len(selectors) == 0 {
		selectors = append(selectors, nil)
	}
	db, err := c.openReader(d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	querier, err := db.Querier(d.minTime, d.maxTime)
	if err != nil {
		return err
	}
	defer func() { _ = querier.Close() }()
	out := d.writer(c, bufio.NewWriterSize(c.out, 64<<10))
	if open, ok := out.(*dumpOpenText); ok {
		if err := open.extras.read(ctx, querier, selectors); err != nil {
			return err
		}
	}
	sets := make([]*tsdb.SeriesSet, 0, len(selectors))
	for _, ms := range selectors {
		sets = append(sets, querier.Select(ctx, nil, ms...))
	}
	return d.write(ctx, c, newUnion(sets), out)
}

func (d *dumpCommand) write(ctx context.Context, c *console, u *union, out resultWriter) error {
	bar := c.startProgress("Dumping series", 0, false)
	defer bar.finish()
	reader := newSamples(0)
	for u.next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := out.begin(u.at.Labels()); err != nil {
			return err
		}
		if d.format != dumpSeriesJSON {
			if err := reader.each(ctx, u.at, out); err != nil {
				return err
			}
		}
		if err := out.end(); err != nil {
			return err
		}
		bar.add(1)
	}
	if u.err != nil {
		return u.err
	}
	bar.finish()
	return out.close(nil)
}

// Formats of dump.
const (
	dumpProm        = "prom"
	dumpOpenMetrics = "openmetrics"
	dumpSeriesJSON  = "seriesjson"
)

// writer returns what writes the series.
func (d *dumpCommand) writer(c *console, w *bufio.Writer) resultWriter {
	switch {
	case d.format == dumpSeriesJSON:
		return &dumpLabels{c: c, w: w}
	case d.output == "json":
		return &jsonResult{c: c, w: jsonSamples{w: w}}
	case d.format == dumpOpenMetrics:
		return &dumpOpenText{c: c, w: w}
	default:
		return &dumpText{w: w}
	}
}

// union goes through several sets in the order of labels; a series that is in more
// than one comes once.
type union struct {
	sets  []*tsdb.SeriesSet
	heads []*tsdb.Series // where each set stands; nil at its end
	names []labels.Labels
	at    *tsdb.Series
	err   error
}

func newUnion(sets []*tsdb.SeriesSet) *union {
	u := &union{sets: sets, heads: make([]*tsdb.Series, len(sets)), names: make([]labels.Labels, len(sets))}
	for i := range sets {
		u.advance(i)
	}
	return u
}

func (u *union) advance(i int) {
	u.heads[i] = nil
	if u.sets[i].Next() {
		u.heads[i] = u.sets[i].At()
		u.names[i] = u.heads[i].Labels()
	} else if err := u.sets[i].Err(); err != nil && u.err == nil {
		u.err = err
	}
}

func (u *union) next() bool {
	least := -1
	for i, s := range u.heads {
		if s != nil && (least < 0 || labels.Compare(u.names[i], u.names[least]) < 0) {
			least = i
		}
	}
	if least < 0 || u.err != nil {
		return false
	}
	u.at = u.heads[least]
	name := u.names[least]
	for i, s := range u.heads {
		if s != nil && u.names[i] == name {
			u.advance(i)
		}
	}
	return true
}
