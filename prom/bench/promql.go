package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// PromQLConfig says what the engine is asked, and for how long.
type PromQLConfig struct {
	Series   int           `json:"series"`  // of the metrics of many, and of each bucket of histograms
	Samples  int           `json:"samples"` // of each series, ten seconds apart
	Steps    []int         `json:"steps"`   // of queries
	Time     time.Duration `json:"time"`    // that each case takes at least, of both storages together
	Pairs    int           `json:"pairs"`   // the fewest runs of each storage
	Dir      string        `json:"-"`
	Only     string        `json:"-"` // a part of the text of expressions
	Progress func(string)  `json:"-"`
}

// DefaultPromQLConfig is a day of samples, and of the metrics of many a hundred series.
func DefaultPromQLConfig() PromQLConfig {
	return PromQLConfig{Series: 100, Samples: 8640, Steps: []int{1, 1000}, Time: 600 * time.Millisecond, Pairs: 5}
}

const promQLInterval = 10 * time.Second

// promQLShapes are those of the engine's own benchmarks of range queries: metrics of one series and
// of many, classic histograms, and a metric with a sample now and then. X is how many.
var promQLShapes = []string{
	"a_X",
	"-a_X",
	"abs(a_X)",
	"timestamp(a_X)",
	"rate(a_X[1m])",
	"rate(a_X[1d])",
	"rate(sparse[1m])",
	"changes(a_X[1d])",
	"absent_over_time(a_X[1d])",
	"a_X - b_X",
	`a_X and b_X{l=~".*[0-4]$"}`,
	`a_X or b_X{l=~".*[0-4]$"}`,
	`a_X unless b_X{l=~".*[0-4]$"}`,
	`a_X and b_X{l="notfound"}`,
	`label_replace(a_X, 'l2', '$1', 'l', '(.*)')`,
	"sum(a_X)",
	"sum without (l) (h_X)",
	"sum without (le) (h_X)",
	"sum by (l) (h_X)",
	"sum by (le) (h_X)",
	"sum without (le) (rate(h_X[1m]))",
	"sum without (l) (rate(a_X[1m]))",
	"sum without (l) (rate(a_X[1m])) / sum without (l) (rate(b_X[1m]))",
	"avg(a_X)",
	"a_X + on (l) group_right a_one",
	`label_join(a_X, 'l2', '-', 'l', 'l')`,
	"double_exponential_smoothing(a_X[1h], 0.3, 0.3)",
	"limit_ratio(0.2, a_X)",
	"rate(a_X[1m] smoothed)",
	"rate(sparse[1m] smoothed)",
	"count_values('value', h_X)",
	"topk(1, a_X)",
	"topk(5, a_X)",
	"rate(a_X[1m]) + rate(b_X[1m])",
	"sum by (le) (rate(h_X[1m])) / on () group_left sum(rate(a_X[1m]))",
	"histogram_quantile(0.9, rate(h_X[5m]))",
	`count({__name__!=""})`,
	`count({__name__!="",l=""})`,
}

// promQLExpressions names the metrics of one series and of many.
func promQLExpressions() (all []string) {
	for _, shape := range promQLShapes {
		for _, size := range []string{"one", "many"} {
			if text := strings.ReplaceAll(shape, "_X", "_"+size); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// promQL is one run of PromQL.
type promQL struct {
	PromQLConfig
	engine *promql.Engine
	dir    string
	rep    PromQLReport
}

// PromQL runs range queries with one engine over this storage and the reference's, in turns, with
// all samples in the head and with all of them in a block.
func PromQL(ctx context.Context, c PromQLConfig) (rep PromQLReport, err error) {
	if c.Series < 1 || c.Samples < 1 || c.Pairs < 1 || len(c.Steps) == 0 {
		return rep, errors.New("series, samples, pairs and steps must be more than 0")
	}
	dir, remove, err := scratch(c.Dir)
	if err != nil {
		return rep, err
	}
	defer remove(&err)
	p := &promQL{PromQLConfig: c, engine: prom.NewEngine(&prom.EngineOptions{Experimental: true}), dir: dir}
	p.rep = PromQLReport{Date: time.Now().Format(time.DateOnly), System: system(), Config: c}
	load := watchLoad()
	for _, place := range []string{"head", "block"} {
		if err := p.place(ctx, place); err != nil {
			return rep, errors.WithMessage(err, place)
		}
	}
	p.rep.Load = load.others()
	return p.rep, nil
}

// place asks everything of samples in one place.
func (p *promQL) place(ctx context.Context, place string) (err error) {
	ours, theirs, err := p.open(ctx, place)
	if err != nil {
		return err
	}
	defer func() { err = closeBoth(err, ours, theirs) }()
	for _, text := range promQLExpressions() {
		if !strings.Contains(text, p.Only) {
			continue
		}
		for _, steps := range p.Steps {
			one := PromQLCase{Place: place, Expression: text, Steps: steps}
			if err := p.measure(ctx, &one, ours, theirs); err != nil {
				return errors.WithMessagef(err, "%s at %d steps", text, steps)
			}
			p.rep.Cases = append(p.rep.Cases, one)
			if p.Progress != nil {
				p.Progress(fmt.Sprintf("%-5s %4d steps  %5.2f  %s", place, steps, one.TimeRatio, text))
			}
		}
	}
	return nil
}

func closeBoth(err error, all ...storage.Storage) error {
	for _, s := range all {
		if failed := s.Close(); err == nil {
			err = failed
		}
	}
	return err
}

// measure asks both storages in turns, whichever is first. The first answers are compared; they are
// not timed.
func (p *promQL) measure(ctx context.Context, c *PromQLCase, ours, theirs storage.Storage) error {
	want, err := p.ask(ctx, theirs, c, true)
	if err != nil {
		return err
	}
	got, err := p.ask(ctx, ours, c, true)
	if err != nil {
		return err
	}
	if got != want {
		return errors.New("the answers differ")
	}
	if c.Queries, err = p.queries(ctx, c, theirs); err != nil {
		return err
	}
	both, begin := [2]storage.Storage{ours, theirs}, time.Now()
	for i := 0; i < p.Pairs || time.Since(begin) < p.Time; i++ {
		var of [2]spent
		for turn := range 2 {
			which := (i + turn) % 2
			before := now()
			for range c.Queries {
				if _, err = p.ask(ctx, both[which], c, false); err != nil {
					return err
				}
			}
			of[which] = now().since(before)
		}
		c.note(of[0], of[1])
	}
	c.finish()
	return nil
}

// queries returns how many make up a run: one, or more if that is over too soon to be timed alone.
func (p *promQL) queries(ctx context.Context, c *PromQLCase, s storage.Storage) (int, error) {
	const run = 3 * time.Millisecond
	begin := time.Now()
	if _, err := p.ask(ctx, s, c, false); err != nil {
		return 0, err
	}
	return 1 + int(run/(1+time.Since(begin))), nil
}

// ask runs one query to its end, and returns its answer if that is wanted.
func (p *promQL) ask(ctx context.Context, s storage.Storage, c *PromQLCase, want bool) (answer string, err error) {
	end := time.UnixMilli(int64(p.Samples) * promQLInterval.Milliseconds()).Add(-time.Minute)
	q, err := p.engine.NewRangeQuery(ctx, s, nil, c.Expression, end.Add(-time.Duration(c.Steps-1)*promQLInterval), end, promQLInterval)
	if err != nil {
		return "", err
	}
	res := q.Exec(ctx)
	if res.Err == nil && want {
		answer = res.String()
	}
	q.Close()
	return answer, res.Err
}

// open makes both storages with the same samples.
func (p *promQL) open(ctx context.Context, place string) (ours, theirs storage.Storage, err error) {
	db, err := tsdb.Open(filepath.Join(p.dir, place, "ours"), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true, Range: 48 * time.Hour}})
	if err != nil {
		return nil, nil, err
	}
	opts := promtsdb.DefaultOptions()
	opts.RetentionDuration = 0
	opts.MinBlockDuration, opts.MaxBlockDuration = 48*3_600_000, 48*3_600_000
	other, err := promtsdb.Open(filepath.Join(p.dir, place, "reference"), nil, nil, opts, nil)
	if err != nil {
		return nil, nil, errors.WithMessage(closeBoth(err, prom.NewStorage(db)), "open")
	}
	other.DisableCompactions()
	ours, theirs = prom.NewStorage(db), other
	for _, s := range []storage.Storage{ours, theirs} {
		if err := p.fill(ctx, s); err != nil {
			return nil, nil, closeBoth(err, ours, theirs)
		}
	}
	if place == "block" {
		err = db.Flush(ctx)
		if err == nil {
			err = other.CompactHead(promtsdb.NewRangeHead(other.Head(), other.Head().MinTime(), other.Head().MaxTime()))
		}
		if err != nil {
			return nil, nil, closeBoth(err, ours, theirs)
		}
	}
	return ours, theirs, nil
}

// series are all series but the sparse one.
func (p *promQL) series() (all []labels.Labels) {
	add := func(name string, with ...string) {
		all = append(all, labels.FromStrings(append([]string{"__name__", name + "_one"}, with...)...))
		for l := range p.Series {
			all = append(all, labels.FromStrings(append([]string{"__name__", name + "_many", "l", fmt.Sprint(l)}, with...)...))
		}
	}
	add("a")
	add("b")
	for _, le := range []string{"0.1", "0.5", "1", "2", "5", "+Inf"} {
		add("h", "le", le)
	}
	return all
}

// fill commits a sample of each series at a time.
func (p *promQL) fill(ctx context.Context, s storage.Storage) error {
	r := rand.New(rand.NewPCG(1, 2))
	all := p.series()
	values, refs := make([]float64, len(all)), make([]storage.SeriesRef, len(all))
	for s := range values {
		values[s] = float64(s) / 1024 // no two are ever the same: of those topk may take any
	}
	sparse := labels.FromStrings("__name__", "sparse")
	for i := range p.Samples {
		app, t := s.Appender(ctx), int64(i)*promQLInterval.Milliseconds()
		var err error
		for s, ls := range all {
			values[s] += math.Round(r.Float64() * 10)
			if refs[s], err = app.Append(refs[s], ls, t, values[s]); err != nil {
				return err
			}
		}
		if i%1000 == 0 {
			if _, err := app.Append(0, sparse, t, 1); err != nil {
				return err
			}
		}
		if err := app.Commit(); err != nil {
			return err
		}
	}
	return nil
}
