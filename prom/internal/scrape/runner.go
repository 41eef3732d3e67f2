package scrape

import (
	"context"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb/prom"
)

// Runner reads targets until its context ends.
type Runner struct {
	targets []*target
}

// New returns a Runner of the targets of a settled configuration. starts says whether the start
// timestamps of samples are stored.
func New(c *Config, to storage.AppendableV2, starts bool, logger *slog.Logger) (*Runner, error) {
	r := &Runner{}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		client, err := config.NewClientFromConfig(j.client(), j.Name)
		if err != nil {
			return nil, err
		}
		for _, s := range j.Static {
			for _, address := range s.Targets {
				u, err := j.url(address)
				if err != nil {
					return nil, err
				}
				b := labels.NewBuilder(labels.FromMap(s.Labels))
				b.Set("job", j.Name)
				b.Set("instance", address)
				for name, value := range s.Labels {
					if value != "" {
						b.Set(name, value) // these win
					}
				}
				own := b.Labels()
				if slices.ContainsFunc(r.targets, func(t *target) bool { return t.url == u.String() && labels.Equal(t.labels, own) }) {
					continue // it is listed twice
				}
				r.targets = append(r.targets, &target{
					job: j, url: u.String(), client: client, labels: own, discovered: j.discovered(address, s.Labels), starts: starts, to: to, now: time.Now,
					logger: logger.With("job", j.Name, "target", u.String()), cache: map[string]*cached{},
				})
			}
		}
	}
	return r, nil
}

// Len is how many targets there are.
func (r *Runner) Len() int { return len(r.targets) }

// Targets says how all targets were when they were last read.
func (r *Runner) Targets() []prom.Target {
	all := make([]prom.Target, len(r.targets))
	for i, t := range r.targets {
		all[i] = t.tell()
	}
	return all
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
	interval := time.Duration(t.job.Interval)
	timer := time.NewTimer(t.offset(time.Now(), interval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-timer.C:
			t.scrape(ctx, at)
			timer.Reset(t.offset(time.Now(), interval))
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
