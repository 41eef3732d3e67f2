package bench

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/index"
)

func openReferenceIndex(name string) (func() error, error) {
	r, err := index.NewFileReader(name, index.DecodePostingsRaw)
	if err != nil {
		return nil, errors.Wrap(err, "open index")
	}
	return r.Close, nil
}

// referenceBackfill makes a block of two hours after the other, each with a writer of its
// own that holds all of it in memory: what the reference's own tool for imports does. It
// is only possible because samples come in order of time over all series.
type referenceBackfill struct {
	dir  string
	end  int64 // of the block that is being made
	w    *tsdb.BlockWriter
	refs []storage.SeriesRef
}

func newReferenceBackfill(dir string) (backfiller, error) {
	return &referenceBackfill{dir: dir}, nil
}

func (b *referenceBackfill) scrape(sets [][]string, t int64, vs []float64) (err error) {
	if t >= b.end {
		if err := b.finish(); err != nil {
			return err
		}
		if b.w, err = tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), b.dir, blockRange); err != nil {
			return errors.Wrap(err, "new block writer")
		}
		b.end = t - t%blockRange + blockRange
		b.refs = make([]storage.SeriesRef, len(sets))
	}
	for from := 0; from < len(vs); from += perCommit {
		app := b.w.Appender(context.Background())
		for i := from; i < min(from+perCommit, len(vs)); i++ {
			ls := labels.EmptyLabels()
			if b.refs[i] == 0 {
				ls = labels.FromStrings(sets[i]...)
			}
			if b.refs[i], err = app.Append(b.refs[i], ls, t, vs[i]); err != nil {
				return errors.Wrap(err, "append")
			}
		}
		if err := app.Commit(); err != nil {
			return errors.Wrap(err, "commit")
		}
	}
	return nil
}

func (b *referenceBackfill) finish() error {
	if b.w == nil {
		return nil
	}
	if _, err := b.w.Flush(context.Background()); err != nil {
		return errors.Wrap(err, "flush block")
	}
	return errors.Wrap(b.w.Close(), "close block writer")
}
