package main

import (
	"bufio"
	"context"
	"encoding/json"
	"math"
	"strconv"

	"github.com/pkg/errors"

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

The format prom has a line a sample: labels, value, milliseconds. seriesjson has the labels of each series as a JSON object a line, which "bench write --labels" reads. Memory use does not depend on the number of samples.`

func (p *program) addDump() {
	d := &dumpCommand{}
	cmd := p.app.Command("dump", dumpHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&d.dir)
	cmd.Flag("match", "Series selector; can be repeated, a series needs to match one. Default: all.").PlaceHolder("SELECTOR").StringsVar(&d.matches)
	cmd.Flag("min-time", "Oldest time in milliseconds since 1970.").PlaceHolder("MS").Default(strconv.FormatInt(math.MinInt64, 10)).Int64Var(&d.minTime)
	cmd.Flag("max-time", "Newest time in milliseconds since 1970, included.").PlaceHolder("MS").Default(strconv.FormatInt(math.MaxInt64, 10)).Int64Var(&d.maxTime)
	cmd.Flag("format", "Output format: prom, seriesjson.").Default("prom").HintOptions("prom", "seriesjson").EnumVar(&d.format, "prom", "seriesjson")
	cmd.Flag("output", "text: what --format says; json: an object a series and line, with its samples.").
		Short('o').Default("text").HintOptions("text", "json").EnumVar(&d.output, "text", "table", "json")
	p.add(cmd, d.run)
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
	sets := make([]*tsdb.SeriesSet, 0, len(selectors))
	for _, ms := range selectors {
		sets = append(sets, querier.Select(ctx, nil, ms...))
	}
	return d.write(ctx, c, newUnion(sets), bufio.NewWriterSize(c.out, 64<<10))
}

func (d *dumpCommand) write(ctx context.Context, c *console, u *union, w *bufio.Writer) error {
	bar := c.startProgress("Dumping series", 0, false)
	defer bar.finish()
	reader := newSamples(0)
	js := &jsonSamples{w: w}
	one := d.writer(w, js)
	for u.next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := one(ctx, reader, u.at); err != nil {
			return err
		}
		bar.add(1)
	}
	if u.err != nil {
		return u.err
	}
	if err := w.Flush(); err != nil {
		return errors.Wrap(err, "write output")
	}
	return c.tellReplaced(js.replaced)
}

// writer returns what writes one series.
func (d *dumpCommand) writer(w *bufio.Writer, js *jsonSamples) func(context.Context, *samples, *tsdb.Series) error {
	switch {
	case d.format == "seriesjson":
		return func(_ context.Context, _ *samples, s *tsdb.Series) error {
			if !isUTF8(s.Labels()) {
				js.replaced++
			}
			return writeLabels(w, s.Labels())
		}
	case d.output == "json":
		return func(ctx context.Context, r *samples, s *tsdb.Series) error {
			if err := js.begin(s.Labels()); err != nil {
				return err
			}
			if err := r.each(ctx, s, js.samples); err != nil {
				return err
			}
			if err := js.end(); err != nil {
				return err
			}
			return errors.Wrap(w.WriteByte('\n'), "write output")
		}
	default:
		var text []byte
		return func(ctx context.Context, r *samples, s *tsdb.Series) error {
			name := s.Labels().String()
			return r.each(ctx, s, func(t []int64, v []float64) error {
				text = text[:0]
				for i := range t {
					text = append(append(text, name...), ' ')
					text = append(appendSample(text, v[i]), ' ')
					text = append(strconv.AppendInt(text, t[i], 10), '\n')
				}
				_, err := w.Write(text)
				return errors.Wrap(err, "write output")
			})
		}
	}
}

func writeLabels(w *bufio.Writer, ls labels.Labels) error {
	encoded, err := json.Marshal(ls)
	if err != nil {
		return errors.Wrap(err, "encode labels")
	}
	_, err = w.Write(append(encoded, '\n'))
	return errors.Wrap(err, "write output")
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
