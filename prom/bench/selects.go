package bench

import (
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// selection is one query of the select rows.
type selection struct {
	row      string
	what     string
	how      readMode
	matchers []matcher
	series   int // that it must find; -1: some
}

// selections of a head with so many series.
func selections(series int) []selection {
	one := []matcher{{"=", "shard", strconv.Itoa(series / 2)}}
	some := []matcher{{"=~", "__name__", "http_server_(duration|size|errors|queue).*"}, {"=", "method", "GET"}}
	prefix := []matcher{{"=~", "pod", "service-1.*"}, {"=", "method", "POST"}}
	return []selection{
		{"select/one", "one", readSamples, one, 1},
		{"select/labels", "by prefix and equality", readLabels, prefix, -1},
		{"select/regex", "by regex and equality", readSamples, some, -1},
		{"select/regex-batch", "by regex and equality", readBatches, some, -1},
		{"select/all", "everything", readSamples, nil, series},
		{"select/all-batch", "everything", readBatches, nil, series},
	}
}

// selects measures queries of a head that was recovered. The time of a row is the
// median of its repetitions.
func selects(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	m = measures{}
	for _, s := range selections(t.Series) {
		if err := s.measure(e, t, m); err != nil {
			return nil, errors.WithMessage(err, s.row)
		}
	}
	return m, nil
}

func (s selection) measure(e engine, t task, m measures) error {
	first, err := e.read(s.how, s.matchers)
	if err != nil {
		return err
	}
	if s.series >= 0 && first.series != s.series || first.series == 0 {
		return errors.Errorf("%d series were found, want %d", first.series, s.series)
	}
	if s.how != readLabels && first.samples != first.series*t.Samples {
		return errors.Errorf("%d samples of %d series were found, want %d of each", first.samples, first.series, t.Samples)
	}
	// What was left by others must not be collected on this row's time.
	runtime.GC()
	var took []time.Duration
	before := now()
	for len(took) < 3 || time.Since(before.at) < t.Time {
		start := time.Now()
		again, err := e.read(s.how, s.matchers)
		took = append(took, time.Since(start))
		if err != nil {
			return err
		}
		if again != first {
			return errors.New("the same query gave something else")
		}
	}
	cost := now().since(before)
	slices.Sort(took)
	m[s.row+"/time"] = took[len(took)/2].Seconds()
	m[s.row+"/cpu"] = cost.cpu.Seconds() / float64(len(took))
	m[s.row+"/garbage"] = float64(cost.allocBytes) / float64(len(took))
	// Not rows: both engines must agree on them.
	m[s.row+"/series"] = float64(first.series)
	m[s.row+"/check"] = float64(first.sum >> 11) // as much as a float64 holds
	return nil
}
