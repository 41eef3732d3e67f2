package scrape

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
)

// endpoint is what is read: a target of a job, as its labels say after they were relabeled.
type endpoint struct {
	url               string
	labels            labels.Labels     // of its series
	discovered        map[string]string // those from which the others were made, as Prometheus tells them
	interval, timeout time.Duration
}

// endpoints are the targets of a settled job, each once, and the labels of those that its rules
// drop.
func (j *Job) endpoints() (kept []endpoint, dropped []map[string]string, err error) {
	for _, s := range j.Static {
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			if !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel || name == model.AddressLabel {
				return nil, nil, fmt.Errorf("label %q cannot be given to a target", name)
			}
		}
		for _, address := range s.Targets {
			found := j.discovered(address, s.Labels)
			b := labels.NewBuilder(labels.FromMap(found))
			if !relabel.ProcessBuilder(b, j.Relabel...) {
				dropped = append(dropped, found)
				continue
			}
			e, err := j.endpoint(b)
			if err != nil {
				return nil, nil, err
			}
			if e.discovered = found; !slices.ContainsFunc(kept, func(o endpoint) bool { return o.url == e.url && labels.Equal(o.labels, e.labels) }) {
				kept = append(kept, e)
			}
		}
	}
	return kept, dropped, nil
}

// discovered are the labels that a target has before any are changed. Its own win, if they say
// something.
func (j *Job) discovered(address string, own map[string]string) map[string]string {
	all := map[string]string{
		model.AddressLabel: address, model.MetricsPathLabel: j.Path, model.SchemeLabel: j.Scheme, model.JobLabel: j.Name,
		model.ScrapeIntervalLabel: j.Interval.String(), model.ScrapeTimeoutLabel: j.Timeout.String(),
	}
	for name, values := range j.Params {
		if len(values) > 0 {
			all[model.ParamLabelPrefix+name] = values[0]
		}
	}
	for name, value := range own {
		if value != "" {
			all[name] = value
		}
	}
	return all
}

// endpoint is what labels say. Those that begin with __ are of the scrape, and not of the series.
func (j *Job) endpoint(b *labels.Builder) (endpoint, error) {
	address := b.Get(model.AddressLabel)
	u, err := j.url(b, address)
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{url: u.String()}
	if e.interval, err = duration(b, model.ScrapeIntervalLabel); err != nil {
		return endpoint{}, fmt.Errorf("target %q: %w", address, err)
	}
	if e.timeout, err = duration(b, model.ScrapeTimeoutLabel); err != nil {
		return endpoint{}, fmt.Errorf("target %q: %w", address, err)
	}
	if e.timeout > e.interval {
		return endpoint{}, fmt.Errorf("target %q: %s is longer than %s", address, model.ScrapeTimeoutLabel, model.ScrapeIntervalLabel)
	}
	if b.Get(model.InstanceLabel) == "" {
		b.Set(model.InstanceLabel, address)
	}
	b.Range(func(l labels.Label) {
		if strings.HasPrefix(l.Name, model.ReservedLabelPrefix) {
			b.Del(l.Name)
		}
	})
	e.labels = b.Labels()
	return e, nil
}

func duration(b *labels.Builder, name string) (time.Duration, error) {
	d, err := model.ParseDuration(b.Get(name))
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s %q: want a duration above 0", name, b.Get(name))
	}
	return time.Duration(d), nil
}

// url is where a target is read.
func (j *Job) url(b *labels.Builder, address string) (*url.URL, error) {
	scheme := b.Get(model.SchemeLabel)
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("scheme %q: want http or https", scheme)
	}
	u, err := url.Parse(scheme + "://" + address + b.Get(model.MetricsPathLabel))
	if err != nil || u.Host != address || address == "" {
		return nil, fmt.Errorf("target %q: want host:port", address)
	}
	params := url.Values{}
	for name, values := range j.Params {
		params[name] = slices.Clone(values)
	}
	b.Range(func(l labels.Label) {
		if name, is := strings.CutPrefix(l.Name, model.ParamLabelPrefix); is {
			params[name] = append([]string{l.Value}, params[name][min(1, len(params[name])):]...)
		}
	})
	if len(params) > 0 {
		u.RawQuery = params.Encode()
	}
	return u, nil
}
