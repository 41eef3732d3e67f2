package scrape

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/storage"
)

// cached is a series that was in an answer.
type cached struct {
	ref     storage.SeriesRef
	labels  labels.Labels
	dropped bool   // by the rules of the job: it has no labels
	round   uint64 // in which it was there last
	stored  bool   // a sample of it was
	ended   bool   // and then a stale marker
	timed   bool   // with a time of its own: its end is not known
	meta    metadata.Metadata
	last    exemplar.Exemplar // if it has no time of its own: it is told once
}

// series returns what is known of the series of the present sample, by its text, and whether it is
// new.
func (t *target) series(p textparse.Parser, key []byte) (c *cached, fresh bool, err error) {
	if c = t.cache[string(key)]; c != nil {
		return c, false, nil
	}
	var own labels.Labels
	p.Labels(&own)
	b := labels.NewBuilder(t.join(own))
	c = &cached{dropped: !relabel.ProcessBuilder(b, t.job.MetricRelabel...)}
	if !c.dropped {
		c.labels = b.Labels()
		if !c.labels.Has(model.MetricNameLabel) {
			return nil, false, fmt.Errorf("a series without a name: %s", own)
		}
		if err := t.job.checkLabels(c.labels); err != nil {
			return nil, false, err
		}
	}
	t.cache[string(key)] = c
	return c, true, nil
}

// checkLabels holds the labels of a series to the limits of the job.
func (j *Job) checkLabels(ls labels.Labels) error {
	if j.LabelLimit > 0 && ls.Len() > j.LabelLimit {
		return fmt.Errorf("a series has %d labels, label_limit is %d: %s", ls.Len(), j.LabelLimit, ls)
	}
	if j.LabelNameLimit == 0 && j.LabelValueLimit == 0 {
		return nil
	}
	return ls.Validate(func(l labels.Label) error {
		switch {
		case j.LabelNameLimit > 0 && len(l.Name) > j.LabelNameLimit:
			return fmt.Errorf("the name of label %q has %d bytes, label_name_length_limit is %d", l.Name, len(l.Name), j.LabelNameLimit)
		case j.LabelValueLimit > 0 && len(l.Value) > j.LabelValueLimit:
			return fmt.Errorf("the value of label %q has %d bytes, label_value_length_limit is %d", l.Name, len(l.Value), j.LabelValueLimit)
		}
		return nil
	})
}

// family is what an answer says of a metric family, in front of its series.
type family struct {
	name string
	meta metadata.Metadata
}

func (f *family) named(name []byte) *metadata.Metadata {
	if f.name != string(name) {
		*f = family{name: string(name)}
	}
	return &f.meta
}

// suffixes are what the series of a family have behind its name, by kind.
var suffixes = map[model.MetricType][]string{
	model.MetricTypeCounter:        {"_total", "_created"},
	model.MetricTypeHistogram:      {"_bucket", "_count", "_sum", "_created"},
	model.MetricTypeGaugeHistogram: {"_bucket", "_gcount", "_gsum"},
	model.MetricTypeSummary:        {"_count", "_sum", "_created"},
	model.MetricTypeInfo:           {"_info"},
}

// has reports whether a series is of the family: it has its name, and what its kind puts behind it.
func (f *family) has(series string) bool {
	behind, ok := strings.CutPrefix(series, f.name)
	return ok && f.name != "" && (behind == "" || slices.Contains(suffixes[f.meta.Type], behind))
}

// join gives a series the labels of the target.
func (t *target) join(ls labels.Labels) labels.Labels {
	b := labels.NewBuilder(ls)
	t.labels.Range(func(l labels.Label) {
		there := ls.Get(l.Name)
		switch {
		case there == "" && !(t.job.HonorLabels && ls.Has(l.Name)): // an empty one says that it wants none
			b.Set(l.Name, l.Value)
		case !t.job.HonorLabels:
			exported := model.ExportedLabelPrefix + l.Name
			for ls.Has(exported) || t.labels.Has(exported) || b.Get(exported) != "" {
				exported = model.ExportedLabelPrefix + exported
			}
			b.Set(exported, there)
			b.Set(l.Name, l.Value)
		}
	})
	return b.Labels()
}
