package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/hostmetrics"
	"github.com/seed347100a3/tsdb/labels"
)

// demoRecordCommand is the child of "demo": it records until somebody kills it.
type demoRecordCommand struct {
	dir      string
	interval time.Duration
}

// recorderHello is the first line that the recorder writes: what it found.
type recorderHello struct {
	Series  int    `json:"series"`
	Samples uint64 `json:"samples"`
	MinT    int64  `json:"mint"`
	MaxT    int64  `json:"maxt"`
}

// scrapeAck is the line that the recorder writes when a scrape is committed.
type scrapeAck struct {
	T       int64  `json:"t"`       // of all its samples
	Samples int    `json:"samples"` // in it
	Series  int    `json:"series"`  // in the database
	Sum     uint64 `json:"sum,string"`
}

// checksum is added up over the samples of a scrape, in any order.
func checksum(v float64) uint64 { return math.Float64bits(v) * 0x9e3779b97f4a7c15 }

func (p *program) addDemoRecord() {
	d := &demoRecordCommand{}
	cmd := p.app.Command("demo-record", "What demo runs and kills.").Hidden()
	cmd.Arg("dir", "Data directory.").Required().StringVar(&d.dir)
	cmd.Flag("interval", "Between scrapes.").Default("150ms").DurationVar(&d.interval)
	p.add(cmd, d.run)
}

func (d *demoRecordCommand) run(ctx context.Context, c *console) (err error) {
	signal.Ignore(os.Interrupt) // the parent decides when this ends
	db, err := tsdb.Open(d.dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Range: demoRange}})
	if err != nil {
		return err
	}
	defer closeDB(db, &err)
	acks := json.NewEncoder(c.out)
	st, opened := db.Stats(), db.OpenReport()
	hello := recorderHello{Series: st.Series, Samples: samplesOf(&opened), MinT: st.MinT, MaxT: st.MaxT}
	for _, m := range db.Blocks() {
		hello.Series = max(hello.Series, int(m.Stats.NumSeries))
		hello.Samples += m.Stats.NumSamples
		hello.MinT, hello.MaxT = min(hello.MinT, m.MinTime), max(hello.MaxT, m.MaxTime-1)
	}
	if err := acks.Encode(hello); err != nil {
		return errors.Wrap(err, "tell the parent")
	}
	if now := time.Now(); hello.MinT <= hello.MaxT && hello.MaxT >= now.UnixMilli() {
		return errors.Errorf("the newest sample in %s is of %s, and it is only %s: has the clock been set back?",
			d.dir, formatTime(hello.MaxT), formatTime(now.UnixMilli()))
	}
	r := &recorder{db: db, host: hostmetrics.NewReader(), series: map[string]*recordedSeries{}}
	tick := time.NewTicker(d.interval)
	defer tick.Stop()
	for {
		ack, err := r.scrape(ctx)
		if err != nil {
			return err
		}
		if err := acks.Encode(ack); err != nil {
			return errors.Wrap(err, "tell the parent")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// demoDocs lists what a scrape has besides what it reads of the machine.
var demoDocs = []hostmetrics.Doc{
	{Name: "demo_scrape_number", Help: "counts the scrapes of a run"},
	{Name: "demo_scrape_seconds", Help: "what reading all of this took"},
	{Name: commitSeconds, Help: "what commits took, as a native histogram"},
}

// recorder appends scrapes: new series by their labels, known ones by their refs in
// one batch.
type recorder struct {
	db      *tsdb.DB
	host    *hostmetrics.Reader
	number  int                        // of the scrape
	series  map[string]*recordedSeries // by name and labels
	key     []byte
	batch   []*recordedSeries // what this scrape has, known series
	fresh   []*recordedSeries // and new ones
	refs    []tsdb.SeriesRef
	vs      []float64
	rejects []tsdb.Reject
	lastT   int64

	commits    durations // of scrapes before this one
	commitsRef tsdb.SeriesRef
}

type recordedSeries struct {
	labels labels.Labels
	ref    tsdb.SeriesRef // 0: not committed yet
	seen   int            // in which scrape
	v      float64
}

// take is the hostmetrics.Add of a scrape. A system may list a thing twice; it counts once.
func (r *recorder) take(metric string, v float64, nameValuePairs ...string) {
	r.key = append(append(r.key[:0], metric...), 0)
	for _, s := range nameValuePairs {
		r.key = append(append(r.key, s...), 0)
	}
	s := r.series[string(r.key)]
	if s == nil {
		pairs := make([]string, 0, 2+len(nameValuePairs))
		pairs = append(pairs, labels.MetricName, metric)
		for _, text := range nameValuePairs {
			pairs = append(pairs, strings.ToValidUTF8(text, "?"))
		}
		s = &recordedSeries{labels: labels.New(labelsOf(pairs)...)}
		r.series[string(r.key)] = s
	}
	if s.seen == r.number {
		return
	}
	s.seen, s.v = r.number, v
	if s.ref == 0 {
		r.fresh = append(r.fresh, s)
	} else {
		r.batch = append(r.batch, s)
	}
}

// labelsOf pairs names and values; labels.New drops those without a value.
func labelsOf(pairs []string) []labels.Label {
	ls := make([]labels.Label, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		ls = append(ls, labels.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return ls
}

// describe says what a new series is. What was said before costs nothing.
func describe(a *tsdb.Appender, ls labels.Labels) error {
	name := ls.Get(labels.MetricName)
	kind, help := hostmetrics.About(name)
	for _, d := range demoDocs {
		if d.Name == name {
			help = d.Help
		}
	}
	if name == commitSeconds {
		kind = "histogram"
	}
	_, err := a.SetMetadata(0, ls, tsdb.Metadata{Type: tsdb.MetricTypeOf(kind), Help: help})
	return err
}

// scrape reads the machine and commits what it read.
func (r *recorder) scrape(ctx context.Context) (scrapeAck, error) {
	r.number++
	r.batch, r.fresh = r.batch[:0], r.fresh[:0]
	begin := time.Now()
	r.host.Read(ctx, begin, r.take)
	r.take("demo_scrape_number", float64(r.number))
	r.take("demo_scrape_seconds", time.Since(begin).Seconds())
	t := max(begin.UnixMilli(), r.lastT+1) // a clock that is set back by a little does no harm
	a := r.db.Appender()
	if err := r.appendKnown(a, t); err != nil {
		return scrapeAck{}, err
	}
	for _, s := range r.fresh {
		if err := describe(a, s.labels); err != nil {
			return scrapeAck{}, err
		}
		ref, err := a.Append(0, s.labels, t, s.v)
		if err != nil {
			return scrapeAck{}, errors.WithMessagef(err, "append to %s", s.labels)
		}
		s.ref = ref
	}
	sum, err := r.appendCommits(a, t)
	if err != nil {
		return scrapeAck{}, errors.WithMessagef(err, "append to %s", commitSeconds)
	}
	begin = time.Now()
	res, err := a.Commit(ctx)
	if err != nil {
		return scrapeAck{}, err
	}
	r.commits.observe(time.Since(begin))
	if len(res.Rejected) > 0 {
		return scrapeAck{}, errors.WithMessage(res.Rejected[0].Err, "commit")
	}
	r.lastT = t
	ack := scrapeAck{T: t, Samples: res.Samples, Series: r.db.Stats().Series, Sum: sum}
	for _, list := range [][]*recordedSeries{r.batch, r.fresh} {
		for _, s := range list {
			ack.Sum += checksum(s.v)
		}
	}
	return ack, nil
}

// appendKnown appends to the series that have a ref. A ref that is not known any
// more sends its series back among the new ones.
func (r *recorder) appendKnown(a *tsdb.Appender, t int64) error {
	r.refs, r.vs = r.refs[:0], r.vs[:0]
	for _, s := range r.batch {
		r.refs, r.vs = append(r.refs, s.ref), append(r.vs, s.v)
	}
	var err error
	if r.rejects, err = a.AppendBatch(t, r.refs, r.vs, r.rejects[:0]); err != nil {
		return err
	}
	for i := len(r.rejects) - 1; i >= 0; i-- {
		reject := r.rejects[i]
		s := r.batch[reject.Index]
		if !errors.Is(reject.Err, tsdb.ErrNotFound) {
			return errors.WithMessagef(reject.Err, "append to %s", s.labels)
		}
		r.fresh = append(r.fresh, s)
		last := len(r.batch) - 1
		r.batch[reject.Index] = r.batch[last]
		r.batch = r.batch[:last]
	}
	return nil
}
