package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/seed347100a3/tsdb"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
)

// described is what is known of a metric.
type described struct {
	Type string `json:"type"`
	Unit string `json:"unit"`
	Help string `json:"help"`
}

// metadata answers with what the head knows of metrics, by their names: each thing once that some
// series says of it.
func (a *API) metadata(r *http.Request) answer {
	limit, perMetric, ans := metadataLimits(r)
	if ans != nil {
		return *ans
	}
	metrics := map[string][]described{}
	only := r.Form.Get("metric")
	err := a.eachMetadata(r.Context(), func(family string, _ tsdblabels.Labels, d described) {
		if only != "" && family != only {
			return
		}
		ds, known := metrics[family]
		if !known && limit >= 0 && len(metrics) >= limit || slices.Contains(ds, d) || perMetric > 0 && len(ds) >= perMetric {
			return
		}
		metrics[family] = append(ds, d)
	})
	if err != nil {
		return notDone(err)
	}
	return answer{data: metrics}
}

func metadataLimits(r *http.Request) (limit, perMetric int, ans *answer) {
	of := func(name string) int {
		s := r.Form.Get(name)
		if s == "" {
			return -1
		}
		n, err := strconv.Atoi(s)
		if err != nil && ans == nil {
			bad := badData(fmt.Errorf("%s must be a number", name))
			ans = &bad
		}
		return n
	}
	limit, perMetric = of("limit"), of("limit_per_metric")
	return limit, perMetric, ans
}

// eachMetadata calls fn with the family and the labels of each series that has metadata, in the
// order of their labels.
func (a *API) eachMetadata(ctx context.Context, fn func(family string, ls tsdblabels.Labels, d described)) (err error) {
	q, err := a.DB.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	all, err := q.Metadata(ctx)
	for _, m := range all {
		if name := m.Labels.Get(tsdblabels.MetricName); name != "" {
			fn(family(name, m.Metadata.Type), m.Labels, described{m.Metadata.Type.String(), m.Metadata.Unit, m.Metadata.Help})
		}
	}
	return err
}

// family returns the name of a metric that has several series names.
func family(name string, typ tsdb.MetricType) string {
	var ends []string
	switch typ {
	case tsdb.MetricHistogram:
		ends = []string{"_bucket", "_count", "_sum"}
	case tsdb.MetricGaugeHistogram:
		ends = []string{"_bucket", "_gcount", "_gsum"}
	case tsdb.MetricSummary:
		ends = []string{"_count", "_sum"}
	}
	for _, end := range ends {
		if short, ok := strings.CutSuffix(name, end); ok && short != "" {
			return short
		}
	}
	return name
}

// targetDescribed is what a target says of a metric.
type targetDescribed struct {
	Target map[string]string `json:"target"`
	Metric string            `json:"metric,omitempty"`
	described
}

// targetsMetadata answers with what is known of metrics by the targets that series come from, which
// are their jobs and instances.
func (a *API) targetsMetadata(r *http.Request) answer {
	limit, _, ans := metadataLimits(r)
	if ans != nil {
		return *ans
	}
	var ms []*labels.Matcher
	if s := r.Form.Get("match_target"); s != "" {
		err := a.checkLength(s)
		if err == nil {
			ms, err = a.Parser.ParseMetricSelector(s)
		}
		if err != nil {
			return badData(err)
		}
	}
	type entry struct {
		job, instance, family string
		described
	}
	seen, targets, only := map[entry]bool{}, map[[2]string]bool{}, r.Form.Get("metric")
	out := []targetDescribed{}
	err := a.eachMetadata(r.Context(), func(family string, ls tsdblabels.Labels, d described) {
		e := entry{ls.Get("job"), ls.Get("instance"), family, d}
		target := [2]string{e.job, e.instance}
		if only != "" && family != only || seen[e] || !isTarget(ms, e.job, e.instance) {
			return
		}
		if !targets[target] && limit >= 0 && len(targets) >= limit {
			return
		}
		seen[e], targets[target] = true, true
		t := targetDescribed{map[string]string{"instance": e.instance, "job": e.job}, family, d}
		if only != "" {
			t.Metric = ""
		}
		out = append(out, t)
	})
	if err != nil {
		return notDone(err)
	}
	return answer{data: out}
}

func isTarget(ms []*labels.Matcher, job, instance string) bool {
	of := labels.FromStrings("instance", instance, "job", job)
	for _, m := range ms {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}
