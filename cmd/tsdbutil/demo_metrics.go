package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// demoSelection is a question to the database, with its answer.
type demoSelection struct {
	Question string       `json:"question"`
	Selector string       `json:"selector"`
	Series   int          `json:"series"`
	Samples  int          `json:"samples"`
	Seconds  float64      `json:"seconds"` // that it took
	Answer   []demoAnswer `json:"answer"`
	selects  []*labels.Matcher
	answer   func(lines []namedLine) []demoAnswer
}

// demoAnswer is one number. The unit is that of the JSON: bytes or percent.
type demoAnswer struct {
	Name  string    `json:"name"`
	Value jsonFloat `json:"value"`
	Unit  string    `json:"unit"`
}

// namedLine is a whole series.
type namedLine struct {
	labels labels.Labels
	line
}

// runSelections asks one question by equality, one by a regular expression, and one
// that is summed up by a label.
func runSelections(ctx context.Context, q *tsdb.Querier) ([]demoSelection, error) {
	byName, err := labels.Regexp(labels.MetricName, "host_(disk|network)_bytes_total")
	if err != nil {
		return nil, err
	}
	selections := []demoSelection{
		{
			Question: "How much memory was in use?", answer: lastAndPeak,
			selects: []*labels.Matcher{labels.Equal(labels.MetricName, "host_memory_bytes"), labels.Equal("state", "used")},
		},
		{
			Question: "How much went through disks and networks?", answer: increaseByDirection,
			selects: []*labels.Matcher{byName, labels.NotEqual("interface", "lo")},
		},
		{
			Question: "What did the CPUs do, by mode?", answer: shareByMode,
			selects: []*labels.Matcher{labels.Equal(labels.MetricName, "host_cpu_seconds_total")},
		},
	}
	for i := range selections {
		s := &selections[i]
		s.Selector = labels.FormatSelector(s.selects)
		begin := time.Now()
		lines, err := readLines(ctx, q, s.selects)
		if err != nil {
			return nil, err
		}
		s.Answer = append([]demoAnswer{}, s.answer(lines)...)
		s.Seconds = time.Since(begin).Seconds()
		s.Series = len(lines)
		for _, l := range lines {
			s.Samples += len(l.t)
		}
	}
	return selections, nil
}

// readLines reads whole series.
func readLines(ctx context.Context, q *tsdb.Querier, ms []*labels.Matcher) ([]namedLine, error) {
	set := q.Select(ctx, nil, ms...)
	reader := newSamples(0)
	var lines []namedLine
	for s, err := range set.All() {
		if err != nil {
			return nil, err
		}
		l := namedLine{labels: s.Labels()}
		err := reader.each(ctx, s, floatsOnly(func(t []int64, v []float64) error {
			l.t, l.v = append(l.t, t...), append(l.v, v...)
			return nil
		}))
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, set.Err()
}

func lastAndPeak(lines []namedLine) []demoAnswer {
	if len(lines) == 0 {
		return nil
	}
	v := lines[0].v
	return []demoAnswer{
		{"at the end", jsonFloat(v[len(v)-1]), "bytes"}, {"at most", jsonFloat(slices.Max(v)), "bytes"}, {"at least", jsonFloat(slices.Min(v)), "bytes"},
	}
}

// increase is how much a counter grew; one that begins again at 0 grew from there.
func increase(v []float64) float64 {
	sum := 0.0
	for i := 1; i < len(v); i++ {
		if v[i] >= v[i-1] {
			sum += v[i] - v[i-1]
		} else {
			sum += v[i]
		}
	}
	return sum
}

// sumBy adds up the increase of counters by the value of a label.
func sumBy(lines []namedLine, label string) (names []string, sums map[string]float64) {
	sums = map[string]float64{}
	for _, l := range lines {
		name := l.labels.Get(label)
		if _, ok := sums[name]; !ok {
			names = append(names, name)
		}
		sums[name] += increase(l.v)
	}
	slices.Sort(names)
	return names, sums
}

func increaseByDirection(lines []namedLine) []demoAnswer {
	names, sums := sumBy(lines, "direction")
	answers := make([]demoAnswer, 0, len(names))
	for _, name := range names {
		answers = append(answers, demoAnswer{name, jsonFloat(sums[name]), "bytes"})
	}
	return answers
}

// maxShares is how many modes are shown: what fits a line.
const maxShares = 5

// shareByMode shows what took at least a thousandth of the time, most first.
func shareByMode(lines []namedLine) []demoAnswer {
	names, sums := sumBy(lines, "mode")
	all := 0.0
	for _, sum := range sums {
		all += sum
	}
	var answers []demoAnswer
	for _, name := range names {
		if sums[name] > all/1000 {
			answers = append(answers, demoAnswer{name, jsonFloat(100 * sums[name] / all), "percent"})
		}
	}
	slices.SortStableFunc(answers, func(a, b demoAnswer) int { return cmp.Compare(b.Value, a.Value) })
	return answers[:min(len(answers), maxShares)]
}

// demoMetric is one line of the table at the end. Counters are shown as rates.
type demoMetric struct {
	Name   string    `json:"name"`
	Of     string    `json:"of"` // which part of it
	Series int       `json:"series"`
	Rate   bool      `json:"rate"` // values are per second; percent of the CPUs for CPU time
	Last   jsonFloat `json:"last"`
	Min    jsonFloat `json:"min"`
	Max    jsonFloat `json:"max"`
	unit   unit
	line   line
}

// busy is the name of the line that the demo draws.
const busy = "busy"

// readMetrics reads the lines of the table; metrics that this machine does not have
// are left out.
func readMetrics(ctx context.Context, q *tsdb.Querier) ([]demoMetric, error) {
	wanted := []struct {
		name, of, label string
		rate            unit // unitNone: a gauge
	}{
		{"host_cpu_seconds_total", busy, "mode", unitPercent},
		{"host_load_average", "1m", "window", unitNone},
		{"host_memory_bytes", "used", "state", unitNone},
		{"host_memory_bytes", "available", "state", unitNone},
		{"host_disk_bytes_total", "read", "direction", unitBytesPerSecond},
		{"host_disk_bytes_total", "write", "direction", unitBytesPerSecond},
		{"host_network_bytes_total", "receive", "direction", unitBytesPerSecond},
		{"host_network_bytes_total", "transmit", "direction", unitBytesPerSecond},
		{"host_processes", "total", "state", unitNone},
		{"host_context_switches_total", "", "", unitPerSecond},
		{"go_gc_heap_live_bytes", "", "", unitNone},
		{"go_gc_heap_allocs_bytes_total", "", "", unitBytesPerSecond},
		{"demo_scrape_seconds", "", "", unitNone},
	}
	metrics := make([]demoMetric, 0, len(wanted))
	for _, w := range wanted {
		ms := []*labels.Matcher{labels.Equal(labels.MetricName, w.name)}
		if w.label != "" && w.of != busy {
			ms = append(ms, labels.Equal(w.label, w.of))
		}
		lines, err := readLines(ctx, q, ms)
		if err != nil {
			return nil, err
		}
		m := demoMetric{Name: w.name, Of: w.of, Series: len(lines), Rate: w.rate != unitNone, unit: unitOf(w.name)}
		switch {
		case w.of == busy:
			m.unit, m.line = unitPercent, busyLine(lines)
		case m.Rate:
			m.unit, m.line = w.rate, rateOf(sumLines(lines, nil))
		default:
			m.line = sumLines(lines, nil)
		}
		if len(m.line.v) == 0 {
			continue
		}
		m.Last = jsonFloat(m.line.v[len(m.line.v)-1])
		m.Min, m.Max = jsonFloat(slices.Min(m.line.v)), jsonFloat(slices.Max(m.line.v))
		metrics = append(metrics, m)
	}
	return metrics, nil
}

// sumLines adds up lines that have their samples at the same times; keep chooses
// among them, nil keeps all.
func sumLines(lines []namedLine, keep func(labels.Labels) bool) line {
	sums := map[int64]float64{}
	for _, l := range lines {
		if keep != nil && !keep(l.labels) {
			continue
		}
		for i, t := range l.t {
			sums[t] += l.v[i]
		}
	}
	var sum line
	for t := range sums {
		sum.t = append(sum.t, t)
	}
	slices.Sort(sum.t)
	for _, t := range sum.t {
		sum.v = append(sum.v, sums[t])
	}
	return sum
}

// busyLine is the share of CPU time that was not idle, in percent. Time that does not
// pass by the second, as when a virtual machine stands still, is left out.
func busyLine(lines []namedLine) line {
	all := sumLines(lines, nil)
	busy := sumLines(lines, func(ls labels.Labels) bool {
		mode := ls.Get("mode")
		return mode != "idle" && mode != "iowait"
	})
	var share line
	for i, from := range windows(all.t) {
		if total := all.v[i] - all.v[max(from, 0)]; from >= 0 && total > 0 {
			share.t = append(share.t, all.t[i])
			share.v = append(share.v, min(max(100*(busy.v[i]-busy.v[from])/total, 0), 100))
		}
	}
	return share
}

// rateOf turns a counter into its increase per second.
func rateOf(l line) line {
	var rate line
	for i, from := range windows(l.t) {
		if from >= 0 {
			rate.t = append(rate.t, l.t[i])
			rate.v = append(rate.v, max(l.v[i]-l.v[from], 0)/(float64(l.t[i]-l.t[from])/1000))
		}
	}
	return rate
}

// rateWindow is what a rate is taken over, in milliseconds: long enough for counters
// that systems keep in hundredths of a second.
const rateWindow = 1000

// windows returns for each time the index of the time where its rate begins, or -1:
// the oldest within rateWindow, if there is one at least half as old.
func windows(t []int64) []int {
	from := make([]int, len(t))
	first := 0
	for i := range t {
		for t[i]-t[first] > rateWindow {
			first++
		}
		from[i] = first
		if t[i]-t[first] < rateWindow/2 && i < len(t)-1 || first == i {
			from[i] = -1
		}
	}
	return from
}
