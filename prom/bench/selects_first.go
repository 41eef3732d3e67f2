package bench

import (
	"fmt"

	"github.com/pkg/errors"
)

// firstLabels is the row about labels of series that nobody asked for before: what an engine
// keeps of an answer, for the next time, is not there yet. The rows of the selections ask for
// the same series again and again.
const firstLabels = "select/labels-first"

// firstMatchers are queries like the one of select/labels. Each finds as many series as that
// one, and no two find the same.
func firstMatchers() (all [][]matcher) {
	for tens := 1; tens <= 4; tens++ { // service-1 and service-10 to service-19, and so on
		for _, method := range methods {
			all = append(all, []matcher{{"=~", "pod", fmt.Sprintf("service-%d.*", tens)}, {"=", "method", method}})
		}
	}
	return all
}

// headSelects measures queries of a head that was recovered: before all others those that may
// be asked only once.
func headSelects(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	m = measures{}
	if err := measureFirst(e, m); err != nil {
		return nil, errors.WithMessage(err, firstLabels)
	}
	for _, s := range selections(t.Series, t.Samples) {
		if err := s.measure(e, t, m); err != nil {
			return nil, errors.WithMessage(err, s.row)
		}
	}
	return m, nil
}

func measureFirst(e engine, m measures) error {
	var all result
	before := nowCollected()
	for _, ms := range firstMatchers() {
		found, err := e.read(always(readLabels, ms...))
		if err != nil {
			return err
		}
		all.series, all.sum = all.series+found.series, all.sum+found.sum
	}
	cost := now().since(before)
	if all.series == 0 {
		return errors.New("no series were found")
	}
	m[firstLabels+"/time"] = cost.wall.Seconds() / float64(all.series)
	m[firstLabels+"/cpu"] = cost.cpu.Seconds() / float64(all.series)
	m[firstLabels+"/garbage"] = float64(cost.allocBytes) / float64(all.series)
	all.note(m, firstLabels)
	return nil
}

// firstFigures are the rows about that. The goal is that of select/labels.
func (c *comparison) firstFigures() []figure {
	found := 0.0
	if ns := c.all[firstLabels+"/series"][Ours]; len(ns) > 0 {
		found = ns[0]
	}
	queries := len(firstMatchers())
	work := fmt.Sprintf("in the head, select by prefix and equality, series that nobody asked for before: %d queries find %s of %s series, labels only", queries, count(int(found)), count(c.Many))
	return section(work, less(firstLabels+"/time", "s/series"), less(firstLabels+"/cpu", "CPU s/series").than(1), less(firstLabels+"/garbage", "garbage B/series").than(1))
}
