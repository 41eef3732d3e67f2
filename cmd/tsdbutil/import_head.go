package main

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// headExtras puts what OpenMetrics has beside samples into the head of a database: all of it at
// once, when the blocks are there.
type headExtras struct {
	db    *tsdb.DB // open from the beginning, so that nobody else has it when it is written to
	stage []func(*tsdb.Appender) error

	exemplars, described int64 // that are staged; series with metadata
}

// headKeepsExemplars is how many a head keeps, the oldest of all insertions go.
const headKeepsExemplars = 100_000

// openHeadExtras opens a database, which is left to itself: no block is made or merged meanwhile.
func openHeadExtras(dir string, limits tsdb.Limits) (*headExtras, error) {
	db, err := tsdb.Open(dir, &tsdb.Options{
		Limits: limits, Blocks: tsdb.BlockOptions{Manual: true}, Head: tsdb.HeadOptions{MaxExemplars: headKeepsExemplars},
	})
	if errors.Is(err, tsdb.ErrLocked) {
		return nil, errors.WithMessage(err, "--extras writes into the head, so nobody else may have the database open")
	}
	if err != nil {
		return nil, err
	}
	return &headExtras{db: db}, nil
}

// exemplar implements importExtras.
func (h *headExtras) exemplar(ls labels.Labels, e exemplar.Exemplar) error {
	if err := e.Validate(); err != nil && !errors.Is(err, exemplar.ErrNoLabels) { // OpenMetrics allows those
		return err
	}
	h.exemplars++
	h.stage = append(h.stage, func(a *tsdb.Appender) error {
		_, err := a.AppendExemplar(0, ls, e)
		return err
	})
	return nil
}

// metadata implements importExtras.
func (h *headExtras) metadata(ls labels.Labels, f family) error {
	h.described++
	h.stage = append(h.stage, func(a *tsdb.Appender) error {
		_, err := a.SetMetadata(0, ls, tsdb.Metadata{Type: tsdb.MetricTypeOf(f.kind), Unit: f.unit, Help: f.help})
		return err
	})
	return nil
}

const withoutExtras = "the samples are imported, exemplars and metadata are not"

// write commits what was staged.
func (h *headExtras) write(ctx context.Context) error {
	a := h.db.Appender()
	a.AllowExemplarsWithoutLabels(true)
	for _, stage := range h.stage {
		if err := stage(a); err != nil {
			_ = a.Rollback() // the error that ended it counts
			return errors.WithMessage(err, withoutExtras)
		}
	}
	_, err := a.Commit(ctx)
	return errors.WithMessage(err, withoutExtras)
}

func (h *headExtras) close() error { return h.db.Close() }
