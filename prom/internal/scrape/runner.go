package scrape

import (
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb/prom"
)

// Runner reads targets until its context ends.
type Runner struct {
	targets []*target
	dropped []prom.Target
}

// Options are about what is stored beside the values.
type Options struct {
	// Starts: start timestamps are.
	Starts bool
	// Types: types and units are, in labels of the series.
	Types bool
	// Logger is told how scrapes go.
	Logger *slog.Logger
}

// New returns a Runner of the targets of a settled configuration.
func New(c *Config, to storage.AppendableV2, o Options) (*Runner, error) {
	r := &Runner{}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		client, err := config.NewClientFromConfig(j.Client, j.Name)
		if err != nil {
			return nil, err
		}
		kept, dropped, err := j.endpoints()
		if err != nil {
			return nil, err
		}
		for _, e := range kept {
			r.targets = append(r.targets, &target{
				endpoint: e, job: j, client: client, starts: o.Starts, types: o.Types, to: to, now: time.Now,
				logger: o.Logger.With("job", j.Name, "target", e.url), cache: map[string]*cached{},
			})
		}
		for _, found := range dropped {
			r.dropped = append(r.dropped, prom.Target{Discovered: found, Pool: j.Name, Dropped: true})
		}
	}
	return r, nil
}

// Len is how many targets there are, and how many were dropped.
func (r *Runner) Len() (kept, dropped int) { return len(r.targets), len(r.dropped) }

// Targets says how all targets were when they were last read, and which were dropped.
func (r *Runner) Targets() []prom.Target {
	all := make([]prom.Target, 0, len(r.targets)+len(r.dropped))
	for _, t := range r.targets {
		all = append(all, t.tell())
	}
	return append(all, r.dropped...)
}

// Run reads all targets at their intervals. It returns when the context has ended, and what was under
// way has ended.
func (r *Runner) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, t := range r.targets {
		group.Go(func() { t.run(ctx) })
	}
	group.Wait()
	for _, t := range r.targets {
		t.client.CloseIdleConnections()
	}
}

// run reads one target.
func (t *target) run(ctx context.Context) {
	timer := time.NewTimer(t.offset(time.Now(), t.interval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-timer.C:
			t.scrape(ctx, at)
			timer.Reset(t.offset(time.Now(), t.interval))
		}
	}
}

// offset is how long it is until the target is due: targets have times of their own within an
// interval, the same after a restart.
func (t *target) offset(now time.Time, interval time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.url))
	own := time.Duration(h.Sum64() % uint64(interval))
	wait := own - time.Duration(now.UnixNano()%int64(interval))
	if wait <= 0 {
		wait += interval
	}
	return wait
}
