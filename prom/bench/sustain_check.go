package bench

import (
	"context"
	"math"
	"os"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// sustainCheck reads a database back that others wrote: every series must have every sample
// that was acknowledged, with its value, and nothing else.
func sustainCheck(t task) (m measures, err error) {
	o := t.Sustain
	want, err := o.wanted()
	if err != nil {
		return nil, err
	}
	opts := o.options(&teller{to: os.Stderr})
	opts.Blocks.Manual = true
	db, err := tsdb.Open(o.dataDir(), opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := db.Close(); err == nil {
			err = closeErr
		}
	}()
	got, err := want.all(db)
	if err != nil {
		return nil, err
	}
	return measures{"samples": float64(got.samples), "series": float64(got.series)}, nil
}

// all reads a whole database.
func (w wanted) all(db *tsdb.DB) (got seriesCount, err error) {
	if err := noDamage(db); err != nil {
		return got, err
	}
	if got, err = w.selected(db); err != nil {
		return got, err
	}
	if all := w.total(); got != all {
		return got, errors.Errorf("%d samples of %d series were read back, want %d of %d", got.samples, got.series, all.samples, all.series)
	}
	return got, nil
}

// some reads every so many-th of the first series of all places.
func (w wanted) some(db *tsdb.DB, step int) error {
	if err := noDamage(db); err != nil {
		return err
	}
	name := pairs(0)[shardName]
	for series := 0; series < w.parts[0].o.Series; series += step {
		got, err := w.selected(db, labels.Equal(name, strconv.Itoa(series)))
		if err == nil && got.series != 1 {
			err = errors.Errorf("series %d was found %d times", series, got.series)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func noDamage(db *tsdb.DB) error {
	if r := db.OpenReport(); !r.Clean() {
		return errors.Errorf("recovery found damage: %+v", r)
	}
	return nil
}

// selected reads some series.
func (w wanted) selected(db *tsdb.DB, ms ...*labels.Matcher) (got seriesCount, err error) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return got, err
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	return w.compare(q.Select(context.Background(), &tsdb.SelectHints{Transient: true}, ms...))
}

// wanted is what a database must have: of each writer, so many commits.
type wanted struct {
	parts   []sustainPart
	commits []int64
}

// seriesCount counts series and their samples.
type seriesCount struct{ series, samples int }

func (o *sustainOrder) wanted() (w wanted, err error) {
	acks, err := os.Open(o.ackFile())
	if err != nil {
		return w, errors.Wrap(err, "open acknowledgements")
	}
	defer acks.Close()
	w.parts = o.parts()
	for i := range w.parts {
		n, err := acknowledged(acks, i)
		if err != nil {
			return w, err
		}
		w.commits = append(w.commits, n)
	}
	return w, nil
}

// scrapes returns which scrapes of a series there are: from first up to end.
func (w wanted) scrapes(series int) (p sustainPart, first, end int) {
	o := w.parts[0].o
	place := series % o.Series
	i := 0
	for place >= w.parts[i].hi {
		i++
	}
	p = w.parts[i]
	c, at := int64(p.commits()), int64((place-p.lo)/perCommit)
	if w.commits[i] > at {
		end = int((w.commits[i]-1-at)/c) + 1
	}
	if border := p.firstOfSecond(place); series >= o.Series {
		first = min(border, end)
	} else {
		end = min(border, end)
	}
	return p, first, end
}

// total counts what there must be.
func (w wanted) total() (all seriesCount) {
	for series := range 2 * w.parts[0].o.Series {
		if _, first, end := w.scrapes(series); end > first {
			all.series++
			all.samples += end - first
		}
	}
	return all
}

// compare looks at all series of a set.
func (w wanted) compare(set *tsdb.SeriesSet) (got seriesCount, err error) {
	batch := chunkenc.NewBatch(0)
	var it chunkenc.Iterator
	name := pairs(0)[shardName]
	for set.Next() {
		s := set.At()
		series, err := strconv.Atoi(s.Labels().Get(name))
		if err != nil || series >= 2*w.parts[0].o.Series {
			return got, errors.Errorf("series %s was never made", s.Labels())
		}
		it = s.Iterator(it)
		n, err := w.compareSeries(series, it, batch)
		if err != nil {
			return got, errors.WithMessagef(err, "series %d", series)
		}
		got.series++
		got.samples += n
	}
	return got, set.Err()
}

// compareSeries looks at all samples of a series.
func (w wanted) compareSeries(series int, it chunkenc.Iterator, batch *chunkenc.Batch) (n int, err error) {
	p, k, end := w.scrapes(series)
	place := series % p.o.Series
	for it.NextBatch(batch) != chunkenc.ValNone {
		for i, t := range batch.T {
			_, _, _, at := p.commit(int64(k)*int64(p.commits()) + int64((place-p.lo)/perCommit))
			if k >= end || t != at || math.Float64bits(batch.V[i]) != math.Float64bits(sustainValue(series, k)) {
				return n, errors.Errorf("sample %d is %v at %d, want scrape %d of up to %d: %v at %d", n, batch.V[i], t, k, end, sustainValue(series, k), at)
			}
			k++
			n++
		}
	}
	if err := it.Err(); err != nil {
		return n, err
	}
	if k != end {
		return n, errors.Errorf("%d samples are there, %d more were acknowledged", n, end-k)
	}
	return n, nil
}
