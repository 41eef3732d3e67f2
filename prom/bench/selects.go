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
	row  string
	what string
	query
	series  int  // that it must find; -1: some
	samples int  // of each of them
	rate    bool // samples for each second of processor time are a row, too
	each    bool // the rows are about one of the series that are found
}

// Matchers of the selections.
var (
	someMatchers   = []matcher{{"=~", "__name__", "http_server_(duration|size|errors|queue).*"}, {"=", "method", "GET"}}
	fewMatchers    = []matcher{{"=", "__name__", "go_threads"}, {"=~", "pod", "service-1-.*"}}
	prefixMatchers = []matcher{{"=~", "pod", "service-1.*"}, {"=", "method", "POST"}}
)

func oneMatcher(series int) matcher { return matcher{"=", "shard", strconv.Itoa(series / 2)} }

// selections of a head with so many series and samples of each.
func selections(series, samples int) []selection {
	return []selection{
		{"select/one", "one", always(readSamples, oneMatcher(series)), 1, samples, false, false},
		{"select/prefix", "by equality and prefix", always(readLabels, fewMatchers...), -1, 0, false, false},
		{"select/labels", "by prefix and equality, again and again", always(readLabels, prefixMatchers...), -1, 0, false, true},
		{"select/labels-passing", "by prefix and equality, again and again", always(readPassing, prefixMatchers...), -1, 0, false, true},
		{"select/regex", "by regex and equality", always(readSamples, someMatchers...), -1, samples, false, false},
		{"select/regex-batch", "by regex and equality", always(readBatches, someMatchers...), -1, samples, false, false},
		{"select/all", "everything", always(readSamples), series, samples, false, false},
		{"select/all-batch", "everything", always(readBatches), series, samples, false, false},
	}
}

// matcherMix is what dashboards and alerts ask for, of a head: labels only.
func matcherMix(series int) []selection {
	name := matcher{"=", "__name__", "process_open_fds"}
	mix := []struct {
		row, what string
		ms        []matcher
	}{
		{"pair", "by two equalities", []matcher{name, {"=", "method", "GET"}}},
		{"set", "by name and one of three values", []matcher{name, {"=~", "status", "200|300|400"}}},
		{"not", "by name and not a value", []matcher{name, {"!=", "method", "GET"}}},
		{"notregex", "by name and not a prefix", []matcher{name, {"!~", "pod", "service-1.*"}}},
		{"suffix", "by name and suffix", []matcher{name, {"=~", "pod", ".*-10000"}}},
		{"contains", "by name and a part of a value", []matcher{name, {"=~", "instance", ".*[.]0[.].*"}}},
		{"absent", "by name and no label", []matcher{name, {"=", "missing", ""}}},
		{"many", "one by a regex over values that all differ", []matcher{{"=~", "shard", "0*" + strconv.Itoa(series-1)}}},
	}
	var all []selection
	for _, m := range mix {
		all = append(all, selection{row: "matchers/" + m.row, what: m.what, query: always(readLabels, m.ms...), series: -1})
	}
	return all
}

// blockSelections are those of one block.
func blockSelections(series, samples int) []selection {
	few := (samples + 9) / 10
	start := always(readSamples, oneMatcher(series))
	start.mint, start.maxt = blockStart, blockStart+int64(few-1)*blockStep
	return []selection{
		{"blocks/one", "one", always(readSamples, oneMatcher(series)), 1, samples, false, false},
		{"blocks/one-start", "one", start, 1, few, false, false},
		{"blocks/labels", "by prefix and equality", always(readLabels, prefixMatchers...), -1, 0, false, true},
		{"blocks/labels-passing", "by prefix and equality", always(readPassing, prefixMatchers...), -1, 0, false, true},
		{"blocks/regex", "by regex and equality", always(readSamples, someMatchers...), -1, samples, false, false},
		{"blocks/regex-batch", "by regex and equality", always(readBatches, someMatchers...), -1, samples, false, false},
		{"blocks/all", "everything", always(readSamples), series, samples, true, false},
		{"blocks/all-batch", "everything", always(readBatches), series, samples, true, false},
	}
}

// selects measures queries of a head that was recovered, or of a block. The time of a row
// is the median of its repetitions.
func selects(t task, of []selection) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	m = measures{}
	for _, s := range of {
		if err := s.measure(e, t, m); err != nil {
			return nil, errors.WithMessage(err, s.row)
		}
	}
	return m, nil
}

func (s selection) measure(e engine, t task, m measures) error {
	first, err := e.read(s.query)
	if err != nil {
		return err
	}
	if s.series >= 0 && first.series != s.series || first.series == 0 {
		return errors.Errorf("%d series were found, want %d", first.series, s.series)
	}
	if s.how.samples() && first.samples != first.series*s.samples {
		return errors.Errorf("%d samples of %d series were found, want %d of each", first.samples, first.series, s.samples)
	}
	// What was left by others must not be collected on this row's time.
	runtime.GC()
	var took []time.Duration
	before := now()
	for len(took) < 3 || time.Since(before.at) < t.Time {
		start := time.Now()
		again, err := e.read(s.query)
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
	of := 1.0
	if s.each {
		of = float64(first.series)
	}
	m[s.row+"/time"] = took[len(took)/2].Seconds() / of
	m[s.row+"/cpu"] = cost.cpu.Seconds() / float64(len(took)) / of
	m[s.row+"/garbage"] = float64(cost.allocBytes) / float64(len(took)) / of
	if s.rate {
		m[s.row+"/rate"] = float64(first.samples) * float64(len(took)) / cost.cpu.Seconds()
	}
	first.note(m, s.row)
	return nil
}
