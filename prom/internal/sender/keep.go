package sender

import (
	"fmt"

	"github.com/prometheus/common/model"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/seed347100a3/tsdb/labels"
)

// checkRules checks write_relabel_configs. A Writer chooses series and sends their labels as they
// are, so rules that change labels are refused: series that are one to the receiver would have
// samples at one time.
func checkRules(rules []*relabel.Config) error {
	for i, rule := range rules {
		if rule == nil {
			return fmt.Errorf("write_relabel_configs: rule %d is empty", i+1)
		}
		switch rule.Action {
		case relabel.Keep, relabel.Drop, relabel.KeepEqual, relabel.DropEqual:
		default:
			return fmt.Errorf("write_relabel_configs: rule %d has action %s: here only keep, drop, keepequal and dropequal can be; "+
				"change labels by metric_relabel_configs, before they are stored", i+1, rule.Action)
		}
		if err := rule.Validate(model.UTF8Validation); err != nil {
			return fmt.Errorf("write_relabel_configs: rule %d: %w", i+1, err)
		}
	}
	return nil
}

// keep returns what chooses the series that are sent; nil: all are. Rules see the external labels,
// as they do in Prometheus.
func (r *Receiver) keep(external labels.Labels) func(labels.Labels) bool {
	if len(r.Relabel) == 0 {
		return nil
	}
	return func(ls labels.Labels) bool {
		b := promlabels.NewBuilder(promlabels.EmptyLabels())
		for l := range external.All() {
			b.Set(l.Name, l.Value)
		}
		for l := range ls.All() {
			b.Set(l.Name, l.Value)
		}
		return relabel.ProcessBuilder(b, r.Relabel...)
	}
}
