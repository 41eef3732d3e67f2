package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/hostmetrics"
	"github.com/seed347100a3/tsdb/labels"
)

// recorder appends what it reads of this machine. A series is found by its labels once, and by its
// ref from then on.
type recorder struct {
	db   *tsdb.DB
	host *hostmetrics.Reader
	refs map[string]tsdb.SeriesRef // by name and labels
	key  []byte
}

// record records until the context ends or the database is closed. When a scrape cannot be kept, on
// a full disk say, the server still answers: the first failure is logged, and when it goes on.
func (c *config) record(ctx context.Context, db *tsdb.DB, logger *slog.Logger, ended chan error) error {
	r := &recorder{db: db, host: hostmetrics.NewReader(), refs: map[string]tsdb.SeriesRef{}}
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for lost := 0; ; {
		switch err := r.scrape(ctx); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, tsdb.ErrClosed):
			return fmt.Errorf("record: %w", err)
		case err != nil:
			if lost++; lost == 1 {
				logger.Error("the demo cannot record, and tries again", "error", err.Error())
			}
		case lost > 0:
			logger.Info("the demo records again", "scrapes_lost", lost)
			lost = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- err // for stop
			return fmt.Errorf("serve: %w", err)
		case <-tick.C:
		}
	}
}

// scrape commits what the machine says now, all at one time.
func (r *recorder) scrape(ctx context.Context) error {
	now := time.Now()
	app := r.db.Appender()
	var failed error
	r.host.Read(ctx, now, func(metric string, v float64, pairs ...string) {
		if err := r.append(app, now.UnixMilli(), v, metric, pairs); err != nil {
			failed = errors.Join(failed, err)
		}
	})
	if failed != nil {
		return errors.Join(failed, app.Rollback())
	}
	_, err := app.Commit(ctx)
	return err
}

// append appends one sample. What a system lists twice counts once.
func (r *recorder) append(app *tsdb.Appender, t int64, v float64, metric string, pairs []string) error {
	r.key = append(append(r.key[:0], metric...), 0)
	for _, s := range pairs {
		r.key = append(append(r.key, s...), 0)
	}
	ref := r.refs[string(r.key)]
	got, err := app.Append(ref, labels.Labels{}, t, v)
	if errors.Is(err, tsdb.ErrNotFound) {
		if got, err = app.Append(0, labelsOf(metric, pairs), t, v); err == nil {
			kind, help := hostmetrics.About(metric)
			_, err = app.SetMetadata(got, labels.Labels{}, tsdb.Metadata{Type: tsdb.MetricTypeOf(kind), Help: help})
		}
	}
	if err != nil && !errors.Is(err, tsdb.ErrDuplicateSample) && !errors.Is(err, tsdb.ErrOutOfOrder) {
		return err
	}
	if got != ref && got != 0 {
		r.refs[string(r.key)] = got
	}
	return nil
}

func labelsOf(metric string, pairs []string) labels.Labels {
	ls := []labels.Label{{Name: labels.MetricName, Value: metric}}
	for i := 0; i+1 < len(pairs); i += 2 {
		ls = append(ls, labels.Label{Name: pairs[i], Value: strings.ToValidUTF8(pairs[i+1], "?")})
	}
	return labels.New(ls...)
}
