package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// labelNames answers with the names of labels of matching series.
func (a *API) labelNames(r *http.Request) answer {
	return a.listLabels(r, func(ctx context.Context, q storage.Querier, hints *storage.LabelHints, ms []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(ctx, hints, ms...)
	})
}

// labelValues answers with the values of one label of matching series. A name with a slash is asked
// for in its escaped form.
func (a *API) labelValues(r *http.Request) answer {
	name := r.PathValue("name")
	if strings.Contains(name, "/") {
		return answer{status: http.StatusNotFound}
	}
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !utf8.ValidString(name) || name == "" {
		return badData(fmt.Errorf("invalid label name: %q", name))
	}
	return a.listLabels(r, func(ctx context.Context, q storage.Querier, hints *storage.LabelHints, ms []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(ctx, name, hints, ms...)
	})
}

func (a *API) listLabels(r *http.Request, list func(context.Context, storage.Querier, *storage.LabelHints, []*labels.Matcher) ([]string, annotations.Annotations, error)) answer {
	limit, err := limitParam(r)
	if err != nil {
		return badParam("limit", err)
	}
	mint, maxt, ans := rangeParams(r)
	if ans != nil {
		return *ans
	}
	sets, err := a.matchParams(r)
	if err != nil {
		return badData(err)
	}
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	q, err := a.Storage.Querier(mint, maxt)
	if err != nil {
		return notDone(err)
	}
	defer q.Close()
	var all []string
	warnings := annotations.Annotations{}
	for _, ms := range sets {
		found, ws, err := list(r.Context(), q, &storage.LabelHints{Limit: limit}, ms)
		if err != nil {
			return notDone(err)
		}
		warnings.Merge(ws)
		all = append(all, found...)
	}
	if len(sets) > 1 {
		slices.Sort(all)
		all = slices.Compact(all)
	}
	if limit > 0 && len(all) > limit {
		all = all[:limit]
		warnings.Add(errTruncated)
	}
	return answer{data: all, warnings: warnings}
}

// selected returns the times and the matchers by which series are asked for; an answer if one is
// wrong.
func (a *API) selected(r *http.Request) (mint, maxt int64, sets [][]*labels.Matcher, ans *answer) {
	if mint, maxt, ans = rangeParams(r); ans != nil {
		return 0, 0, nil, ans
	}
	sets, err := a.matchParams(r)
	if err != nil {
		bad := badParam("match[]", err)
		return 0, 0, nil, &bad
	}
	return mint, maxt, sets, nil
}

// series answers with the labels of matching series.
func (a *API) series(r *http.Request) answer {
	if len(r.Form["match[]"]) == 0 {
		return badData(errNoMatch)
	}
	limit, err := limitParam(r)
	if err != nil {
		return badParam("limit", err)
	}
	mint, maxt, sets, ans := a.selected(r)
	if ans != nil {
		return *ans
	}
	q, err := a.Storage.Querier(mint, maxt)
	if err != nil {
		return notDone(err)
	}
	hints := &storage.SelectHints{Start: mint, End: maxt, Func: "series"}
	if limit > 0 {
		hints.Limit = limit + 1 // to know that there is more
	}
	var found []storage.SeriesSet
	for _, ms := range sets {
		found = append(found, q.Select(r.Context(), true, hints, ms...))
	}
	all := &seriesList{set: found[0], limit: limit}
	if len(found) > 1 {
		all.set = storage.NewMergeSeriesSet(found, 0, storage.ChainedSeriesMerge)
	}
	if err := all.read(r.Context()); err != nil {
		return failedWith(q, err)
	}
	warnings := all.set.Warnings()
	if all.cut {
		warnings.Add(errTruncated)
	}
	if err := q.Close(); err != nil {
		return notDone(err)
	}
	return answer{data: all, warnings: warnings}
}

func failedWith(q storage.Querier, err error) answer { return notDone(errors.Join(err, q.Close())) }

// seriesList is label sets.
type seriesList struct {
	set   storage.SeriesSet
	limit int
	all   []labels.Labels
	cut   bool // there was more
}

func (l *seriesList) read(ctx context.Context) error {
	for l.set.Next() {
		if l.limit > 0 && len(l.all) == l.limit {
			l.cut = true
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		l.all = append(l.all, l.set.At().Labels())
	}
	return l.set.Err()
}

func (l *seriesList) write(e *encoder) {
	e.raw("[")
	for i, ls := range l.all {
		if i > 0 {
			e.raw(",")
		}
		e.labels(ls)
	}
	e.raw("]")
}
