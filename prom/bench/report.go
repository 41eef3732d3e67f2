package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// Row is one line of a comparison.
type Row struct {
	Name  string `json:"name"` // for machines: group/figure
	Work  string `json:"work"` // for people; the rows of one piece of work share it
	Unit  string `json:"unit"`
	Worse bool   `json:"less_is_better"`

	Date string `json:"date"`
	// Load is the part of the machine's processor time that others used meanwhile; negative:
	// unknown.
	Load float64 `json:"load_of_others"`

	// A figure for each run in which there was one. Empty: the engine has no such thing, or too
	// little happened to know it.
	Ours      []float64 `json:"ours"`
	Reference []float64 `json:"reference,omitempty"`
	Victoria  []float64 `json:"victoriametrics,omitempty"`

	Ratio         Ratio `json:"ratio,omitzero"`          // to the reference
	RatioVictoria Ratio `json:"ratio_victoria,omitzero"` // to VictoriaMetrics
	Goal          Goal  `json:"goal,omitzero"`
}

// Ratio says how many times better ours is, whether more or less is better.
type Ratio struct {
	Times float64   `json:"times"` // the median; 0: not defined
	Pairs []float64 `json:"pairs"` // of runs that stood next to each other
}

// Goal is what a row of this version must reach. Zero: nothing.
type Goal struct {
	Reference float64 `json:"reference,omitempty"` // times better
	Victoria  float64 `json:"victoriametrics,omitempty"`
	Bound     float64 `json:"bound,omitempty"` // of the figure: the most where less is better, else the least
}

// Report is what Compare found.
type Report struct {
	Date     string            `json:"date"`
	System   string            `json:"system"`
	Versions map[string]string `json:"versions"` // of the engines, by their names
	// Interrupted: some rows have fewer runs, others are not there.
	Interrupted bool `json:"interrupted,omitempty"`

	Rows   []Row   `json:"rows"`
	Curves []Curve `json:"curves,omitempty"`
}

// report makes rows of what was measured.
func (c *comparison) report() (Report, error) {
	rep := Report{
		Date: time.Now().Format(time.DateOnly), Versions: versions(),
		System: system(),
	}
	if err := c.agree(); err != nil {
		return rep, err
	}
	work := ""
	for _, f := range c.figures() {
		if f.work != "" {
			work = f.work
		}
		values, g := c.all[f.name], groupOf(groupName(f.name))
		if !c.has(g, Ours) || slices.Contains(g.engines, Reference) && !c.has(g, Reference) {
			continue // not yet
		}
		r := Row{Name: f.name, Work: work, Unit: f.unit, Worse: f.worse, Goal: f.goal, Date: rep.Date, Load: c.loads[groupName(f.name)], Ours: values[Ours], Reference: values[Reference], Victoria: values[Victoria]}
		r.Ratio, r.RatioVictoria = r.ratio(r.Reference), r.ratio(r.Victoria)
		rep.Rows = append(rep.Rows, r)
	}
	return rep, nil
}

// has tells whether an engine did the work of a group. A figure may be unknown all the same.
func (c *comparison) has(g group, engine string) bool {
	for row, values := range c.all {
		if groupName(row) == g.kind && len(values[engine]) > 0 {
			return true
		}
	}
	return false
}

// groupName is the first part of the name of a row.
func groupName(row string) string {
	name, _, _ := strings.Cut(row, "/")
	return name
}

// over puts a report of some groups over an older one of all, and returns what has the
// newest of each.
func (r Report) over(old Report) Report {
	rows := map[string][]Row{}
	for _, row := range old.Rows {
		rows[groupName(row.Name)] = append(rows[groupName(row.Name)], row)
	}
	fresh := map[string]bool{}
	for _, row := range r.Rows {
		name := groupName(row.Name)
		if !fresh[name] {
			fresh[name], rows[name] = true, nil
		}
		rows[name] = append(rows[name], row)
	}
	r.Rows = nil
	for _, name := range Groups {
		r.Rows = append(r.Rows, rows[name]...)
	}
	curves := slices.Clone(old.Curves)
	for i := range curves {
		curves[i].askedNow()
	}
	for _, c := range r.Curves {
		if i := slices.IndexFunc(curves, func(o Curve) bool { return o.Name == c.Name }); i >= 0 {
			curves[i] = c
		} else {
			curves = append(curves, c)
		}
	}
	r.Curves = curves
	return r
}

// versions returns what this program was built with.
func versions() map[string]string {
	found := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, dep := range info.Deps {
		switch dep.Path {
		case "github.com/prometheus/prometheus":
			found[Reference] = "Prometheus " + dep.Version
		case "github.com/VictoriaMetrics/VictoriaMetrics":
			found[Victoria] = "VictoriaMetrics " + dep.Version
		}
	}
	return found
}

// system names machine and compiler.
func system() string {
	return fmt.Sprintf("%s/%s, %d processors%s, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), processor(), runtime.Version())
}

// processor names the model, with a comma before it, where the system says so.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return ", " + strings.TrimSpace(value)
		}
	}
	return ""
}

// agree checks that all engines found the same series, and those with the same files the
// same values, in every run.
func (c *comparison) agree() error {
	var rows []string
	for _, s := range slices.Concat(selections(c.Many, c.Chunks), matcherMix(c.Many), blockSelections(c.Blocks, c.Points)) {
		rows = append(rows, s.row)
	}
	for _, r := range slices.Concat(remoteReads(false), remoteReads(true)) {
		rows = append(rows, r.row)
	}
	for _, a := range c.task("queries").asked() {
		rows = append(rows, a.row, a.row+"/over")
	}
	for _, buckets := range histogramBuckets {
		rows = append(rows, histogramRow(buckets)+"/head", histogramRow(buckets)+"/block")
	}
	for _, row := range warmRows {
		rows = append(rows, row, row+"/scan")
	}
	for _, f := range aggregated {
		rows = append(rows, aggregateRow(f))
	}
	rows = append(rows, firstLabels)
	for _, row := range rows {
		for what, engines := range map[string][]string{"/series": everybody, "/samples": everybody, "/check": files} {
			values := c.all[row+what]
			var all []float64
			for _, engine := range engines {
				all = append(all, values[engine]...)
			}
			if len(all) > 0 && slices.Min(all) != slices.Max(all) {
				return errors.Errorf("the engines do not agree: %s%s is %v", row, what, values)
			}
		}
	}
	return nil
}

// ratio compares ours with what another engine had in the same runs.
func (r Row) ratio(theirs []float64) (of Ratio) {
	for i := range min(len(r.Ours), len(theirs)) {
		over, under := r.Ours[i], theirs[i]
		if r.Worse {
			over, under = under, over
		}
		if under == 0 {
			return Ratio{}
		}
		of.Pairs = append(of.Pairs, over/under)
	}
	if len(of.Pairs) > 0 {
		of.Times = median(of.Pairs)
	}
	return of
}

// median returns the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread returns how far the outermost values are apart, as a part of the median.
func spread(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	m := median(values)
	if m == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / m
}

// HasGoal tells whether something is asked of the row.
func (r Row) HasGoal() bool { return r.Goal != Goal{} }

// Reached tells whether all that is asked of the row is there. What is not known is not.
func (r Row) Reached() bool {
	if len(r.Ours) == 0 {
		return false
	}
	ours := median(r.Ours)
	bounded := r.Goal.Bound == 0 || r.Worse && ours <= r.Goal.Bound || !r.Worse && ours >= r.Goal.Bound
	return bounded && r.Ratio.Times >= r.Goal.Reference && r.RatioVictoria.Times >= r.Goal.Victoria
}

// Missed returns the rows that do not reach their goal.
func (r Report) Missed() (names []string) {
	for _, row := range r.Rows {
		if row.HasGoal() && !row.Reached() {
			names = append(names, row.Name)
		}
	}
	return names
}

func (r Report) String() string {
	least, most := r.runs()
	runs := fmt.Sprintf("medians of %d to %d runs in turns", least, most)
	switch {
	case most <= 1:
		runs = "one run"
	case least == most:
		runs = fmt.Sprintf("medians of %d runs in turns", most)
	}
	if r.Interrupted {
		runs += ", interrupted"
	}
	return fmt.Sprintf("%s, %s; %s", r.Date, r.System, runs)
}

// runs returns how many runs a row with figures has of ours, at least and at most.
func (r Report) runs() (least, most int) {
	for _, row := range r.Rows {
		n := len(row.Ours)
		if n > 0 && (n < least || least == 0) {
			least = n
		}
		most = max(most, n)
	}
	return least, most
}
