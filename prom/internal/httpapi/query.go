package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"
)

// maxPoints is how many steps of a range query may have, so that a graph of 60 s over a week, and
// one of an hour over a year, are possible.
const maxPoints = 11000

// query answers one expression at one time.
func (a *API) query(r *http.Request) answer {
	at, err := timeParam(r, "time", a.Now())
	if err != nil {
		return badParam("time", err)
	}
	at = near(at)
	return a.run(r, evaluation{start: at, end: at}, func(ctx context.Context, opts promql.QueryOpts, text string) (promql.Query, error) {
		return a.Engine.NewInstantQuery(ctx, a.Storage, opts, text, at)
	})
}

// near takes times that are too far for the engine, which counts nanoseconds, for the last one that
// is not.
func near(t time.Time) time.Time {
	const last = (math.MaxInt64 - int64(365*24*time.Hour)) / int64(time.Second) // a year for lookback and ranges
	return time.UnixMilli(min(max(t.UnixMilli(), -last*1000), last*1000)).UTC()
}

// queryRange answers one expression at each step of a range of times.
func (a *API) queryRange(r *http.Request) answer {
	start, err := parseTime(r.Form.Get("start"))
	if err != nil {
		return badParam("start", err)
	}
	end, err := parseTime(r.Form.Get("end"))
	if err != nil {
		return badParam("end", err)
	}
	if end.Before(start) {
		return badParam("end", errors.New("end timestamp must not be before start time"))
	}
	step, err := parseDuration(r.Form.Get("step"))
	if err != nil {
		return badParam("step", err)
	}
	if step <= 0 {
		return badParam("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	at := evaluation{start: near(start), end: near(end), step: step.Truncate(time.Millisecond)}
	if float64(end.Unix()-start.Unix())/step.Seconds() > maxPoints { // in seconds, as a duration ends after 292 years
		return badData(errTooManyPoints)
	}
	if at.step == 0 { // the engine counts milliseconds, and divides by them
		return badParam("step", errors.New("it is shorter than a millisecond"))
	}
	if at.steps() > maxPoints+1 {
		return badData(errTooManyPoints)
	}
	return a.run(r, at, func(ctx context.Context, opts promql.QueryOpts, text string) (promql.Query, error) {
		return a.Engine.NewRangeQuery(ctx, a.Storage, opts, text, at.start, at.end, at.step)
	})
}

var errTooManyPoints = errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")

// run has a query answered.
func (a *API) run(r *http.Request, at evaluation, prepare func(context.Context, promql.QueryOpts, string) (promql.Query, error)) answer {
	limit, err := limitParam(r)
	if err != nil {
		return badParam("limit", err)
	}
	timeout := a.QueryTimeout
	if s := r.Form.Get("timeout"); s != "" {
		asked, err := parseDuration(s)
		if err != nil {
			return badParam("timeout", err)
		}
		timeout = min(timeout, asked)
	}
	opts, err := queryOpts(r)
	if err != nil {
		return badData(err)
	}
	text := r.Form.Get("query")
	if err := a.checkLength(text); err != nil {
		return badParam("query", err)
	}
	w := a.workOf(text, &at)
	if err := w.tooMuch(a.MaxSubqueryPoints); err != nil {
		return failed(http.StatusUnprocessableEntity, "execution", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	leave, err := a.lanes.enter(ctx, &w, at.step == 0 && w.light(text))
	if err != nil {
		cancel()
		return stillQueued(err)
	}
	q, res, err := func() (promql.Query, *promql.Result, error) {
		defer leave() // whatever happens, or the place would be lost
		q, err := prepare(ctx, opts, text)
		if err != nil {
			return nil, nil, err
		}
		return q, q.Exec(ctx), nil
	}()
	if err != nil {
		cancel()
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return stillQueued(err)
		}
		return badParam("query", err)
	}
	done := func() { q.Close(); cancel() }
	if res.Err != nil {
		done()
		return notDone(res.Err)
	}
	data, cut := truncated(res.Value, limit)
	warnings := res.Warnings
	if cut {
		warnings.Add(errTruncated)
	}
	out := &result{value: data}
	if r.Form.Get("stats") != "" {
		out.stats = stats.NewQueryStats(q.Stats())
	}
	return answer{data: out, query: text, warnings: warnings, done: done}
}

// stillQueued answers a query whose time was over before its turn came.
func stillQueued(err error) answer {
	if errors.Is(err, context.DeadlineExceeded) {
		return notDone(promql.ErrQueryTimeout("the queue of queries"))
	}
	return notDone(promql.ErrQueryCanceled("the queue of queries"))
}

var errTruncated = errors.New("results truncated due to limit")

func queryOpts(r *http.Request) (promql.QueryOpts, error) {
	var lookback time.Duration
	if s := r.Form.Get("lookback_delta"); s != "" {
		var err error
		if lookback, err = parseDuration(s); err != nil {
			return nil, fmt.Errorf("error parsing lookback delta duration: %w", err)
		}
	}
	return promql.NewPrometheusQueryOpts(r.Form.Get("stats") == "all", lookback), nil
}

// truncated cuts a result to so many series; 0: to any number.
func truncated(v parser.Value, limit int) (parser.Value, bool) {
	switch v := v.(type) {
	case promql.Vector:
		if limit > 0 && len(v) > limit {
			return v[:limit], true
		}
	case promql.Matrix:
		if limit > 0 && len(v) > limit {
			return v[:limit], true
		}
	}
	return v, false
}

// result is the answer to a query.
type result struct {
	value parser.Value
	stats stats.QueryStats // nil: not asked for
}

func (res *result) write(e *encoder) {
	e.raw(`{"resultType":`)
	e.text(string(res.value.Type()))
	e.raw(`,"result":`)
	switch v := res.value.(type) {
	case promql.Vector:
		writeVector(e, v)
	case promql.Matrix:
		writeMatrix(e, v)
	case promql.Scalar:
		e.raw("[")
		e.buf = appendTime(e.buf, v.T)
		e.raw(`,"`)
		e.buf = appendFloat(e.buf, v.V, 'f')
		e.raw(`"]`)
	case promql.String:
		e.raw("[")
		e.buf = appendTime(e.buf, v.T)
		e.raw(",")
		e.value(v.V)
		e.raw("]")
	}
	if res.stats != nil {
		e.raw(`,"stats":`)
		e.value(res.stats)
	}
	e.raw("}")
}

func writeVector(e *encoder, v promql.Vector) {
	e.raw("[")
	for i, s := range v {
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"metric":`)
		e.labels(s.Metric)
		if s.H != nil {
			e.raw(`,"histogram":`)
			e.histogramPoint(s.T, s.H)
		} else {
			e.raw(`,"value":`)
			e.point(s.T, s.F)
		}
		e.raw("}")
	}
	e.raw("]")
}

// writeMatrix writes values and histograms of a series side by side; of those that it has none of
// there is no list.
func writeMatrix(e *encoder, m promql.Matrix) {
	e.raw("[")
	for i, s := range m {
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"metric":`)
		e.labels(s.Metric)
		if len(s.Floats) > 0 {
			e.raw(`,"values":`)
			e.points(s.Floats)
		}
		if len(s.Histograms) > 0 {
			e.raw(`,"histograms":`)
			e.histogramPoints(s.Histograms)
		}
		e.raw("}")
	}
	e.raw("]")
}

// formatQuery answers with an expression in its usual form.
func (a *API) formatQuery(r *http.Request) answer {
	expr, ans := a.expression(r)
	if ans != nil {
		return *ans
	}
	return answer{data: plainText(expr.Pretty(0))}
}

func (a *API) expression(r *http.Request) (parser.Expr, *answer) {
	text := r.Form.Get("query")
	err := a.checkLength(text)
	if err == nil {
		var expr parser.Expr
		if expr, err = a.Parser.ParseExpr(text); err == nil {
			return expr, nil
		}
	}
	ans := badParam("query", err)
	return nil, &ans
}

// plainText is a string of which nothing is escaped that need not be.
type plainText string

func (s plainText) write(e *encoder) { e.text(string(s)) }

// queryExemplars answers with the exemplars of all series that an expression selects.
func (a *API) queryExemplars(r *http.Request) answer {
	mint, maxt, ans := rangeParams(r)
	if ans != nil {
		return *ans
	}
	if maxt < mint {
		return badData(errors.New("end timestamp must not be before start timestamp"))
	}
	text := r.Form.Get("query")
	if err := a.checkLength(text); err != nil {
		return badData(err)
	}
	expr, err := a.Parser.ParseExpr(text)
	if err != nil {
		return badData(err)
	}
	selectors := parser.ExtractSelectors(expr)
	if len(selectors) == 0 {
		return answer{status: http.StatusNoContent}
	}
	q, err := a.Storage.ExemplarQuerier(r.Context())
	if err != nil {
		return notDone(err)
	}
	found, err := q.Select(mint, maxt, selectors...)
	if err != nil {
		return notDone(err)
	}
	if found == nil {
		return answer{data: empty}
	}
	return answer{data: exemplarResults(found)}
}
