package prom

import (
	"context"
	"sort"

	"github.com/prometheus/prometheus/model/exemplar"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb"
	tsdbexemplar "github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// ExemplarQuerier implements storage.ExemplarQueryable. The context is that of its Selects.
func (s *Storage) ExemplarQuerier(ctx context.Context) (storage.ExemplarQuerier, error) {
	return &exemplarQuerier{ctx: ctx, store: s}, nil
}

type exemplarQuerier struct {
	ctx   context.Context
	store *Storage
}

// Select implements storage.ExemplarQuerier: the exemplars of the closed range [start, end], in
// milliseconds, of series that all matchers of any list match, sorted by labels; none without a
// list.
func (q *exemplarQuerier) Select(start, end int64, lists ...[]*promlabels.Matcher) ([]exemplar.QueryResult, error) {
	r, err := q.store.db.Querier(start, end)
	if err != nil {
		return nil, err
	}
	var all []tsdbexemplar.Series
	for _, list := range lists {
		found, err := q.selectOne(r, list)
		if err != nil {
			return nil, closing(r, err)
		}
		all = append(all, found...)
	}
	if len(lists) > 1 {
		all = united(all)
	}
	return theirExemplars(all), r.Close()
}

func closing(r *tsdb.Querier, err error) error {
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (q *exemplarQuerier) selectOne(r *tsdb.Querier, list []*promlabels.Matcher) ([]tsdbexemplar.Series, error) {
	ours, err := q.store.matchers.translate(list)
	if err != nil {
		return nil, err
	}
	return r.Exemplars(q.ctx, ours...)
}

// united sorts series of several results, and leaves one of each.
func united(all []tsdbexemplar.Series) []tsdbexemplar.Series {
	sort.SliceStable(all, func(i, k int) bool { return labels.Compare(all[i].Labels, all[k].Labels) < 0 })
	kept := all[:0]
	for _, s := range all {
		if n := len(kept); n == 0 || !kept[n-1].Labels.Equal(s.Labels) {
			kept = append(kept, s)
		}
	}
	return kept
}

func theirExemplars(all []tsdbexemplar.Series) []exemplar.QueryResult {
	var results []exemplar.QueryResult
	for _, s := range all {
		r := exemplar.QueryResult{SeriesLabels: toTheirs(s.Labels)}
		for _, e := range s.Exemplars {
			r.Exemplars = append(r.Exemplars, exemplar.Exemplar{Labels: toTheirs(e.Labels), Value: e.Value, Ts: e.T, HasTs: true})
		}
		results = append(results, r)
	}
	return results
}

// exemplar appends one exemplar. As with a storage of Prometheus it is no error if none are kept.
func (a *transaction) exemplar(ref storage.SeriesRef, ls promlabels.Labels, e *exemplar.Exemplar) (storage.SeriesRef, error) {
	ours := tsdbexemplar.Exemplar{Labels: toOurs(e.Labels), Value: e.Value, T: e.Ts, HasT: true}
	if ref != 0 {
		if r, err := a.app.AppendExemplar(tsdb.SeriesRef(ref), noLabels, ours); err == tsdb.ErrExemplarsOff {
			return ref, nil
		} else if err != tsdb.ErrNotFound {
			return accepted(r, err)
		}
	}
	r, err := a.app.AppendExemplar(0, toOurs(ls), ours)
	if err == tsdb.ErrExemplarsOff {
		return ref, nil
	}
	return accepted(r, err)
}

// AppendExemplar implements storage.Appender. The series need not have a sample. Late exemplars are
// taken, and repeats left out, both without an error.
func (a *appender) AppendExemplar(ref storage.SeriesRef, ls promlabels.Labels, e exemplar.Exemplar) (storage.SeriesRef, error) {
	return a.exemplar(ref, ls, &e)
}

// withExemplars appends the exemplars of a sample that is accepted. Those that are refused are in
// the error, which is a *storage.AppendPartialError.
func (a *appenderV2) withExemplars(ref storage.SeriesRef, list []exemplar.Exemplar) (storage.SeriesRef, error) {
	var refused []error
	for i := range list {
		if _, err := a.exemplar(ref, promlabels.EmptyLabels(), &list[i]); err != nil {
			refused = append(refused, err)
		}
	}
	if refused == nil {
		return ref, nil
	}
	return ref, &storage.AppendPartialError{ExemplarErrors: refused}
}
