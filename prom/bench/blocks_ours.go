package bench

import (
	"context"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

func openOurIndex(name string) (func() error, error) {
	r, err := index.OpenReader(fileutil.OS, name)
	if err != nil {
		return nil, err
	}
	return r.Close, nil
}

// ourBackfill takes samples by ref, like the other one.
type ourBackfill struct {
	w    *tsdb.BlockWriter
	refs []tsdb.SeriesRef
}

// newOurBackfill makes blocks of two hours, as the other one does.
func newOurBackfill(dir string) (backfiller, error) {
	w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{MaxRange: tsdb.DefaultOptions().Blocks.Range})
	if err != nil {
		return nil, err
	}
	return &ourBackfill{w: w}, nil
}

func (b *ourBackfill) scrape(sets [][]string, t int64, vs []float64) (err error) {
	if b.refs == nil {
		b.refs = make([]tsdb.SeriesRef, len(sets))
		for i, set := range sets {
			if b.refs[i], err = b.w.AppendRef(0, labels.FromStrings(set...), t, vs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for i, ref := range b.refs {
		if _, err := b.w.AppendRef(ref, labels.Labels{}, t, vs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *ourBackfill) finish() error {
	if _, err := b.w.Flush(context.Background()); err != nil {
		return err
	}
	return b.w.Close()
}
