package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// Kinds of events.
const (
	eventReady      = "ready"      // the database is open; Seconds: what that took
	eventStart      = "start"      // samples begin to come at the given rate
	eventKill       = "kill"       // the process was killed
	eventSettle     = "settle"     // what was due at the end is done
	eventClose      = "close"      // the database is closed
	eventFlush      = "flush"      // a part of the head became a block
	eventMerge      = "merge"      // blocks were merged
	eventCheckpoint = "checkpoint" // the older part of the log was replaced
	eventSnapshot   = "snapshot"   // of the head
	eventWarning    = "warning"    // something went wrong; Text says what
)

// SustainEvent is something that happened while the workload ran. What took some time ended
// at At.
type SustainEvent struct {
	Kind    string  `json:"kind"`
	At      float64 `json:"at"`      // seconds since the run began
	Seconds float64 `json:"seconds"` // how long it took
	Text    string  `json:"text,omitempty"`
}

func (e SustainEvent) String() string {
	if e.Seconds == 0 {
		return strings.TrimSpace(e.Kind + " " + e.Text)
	}
	return fmt.Sprintf("%s, took %.2f s", e.Kind, e.Seconds)
}

// SustainReport is what Sustain found.
type SustainReport struct {
	Date    string          `json:"date"`
	System  string          `json:"system"`
	Load    float64         `json:"load_of_others"` // part of the processor time; negative: unknown
	Config  SustainConfig   `json:"config"`
	Speed   float64         `json:"speed"` // how much faster than the clock the times of samples ran
	Summary SustainSummary  `json:"summary"`
	Events  []SustainEvent  `json:"events"`
	Seconds []SustainSecond `json:"seconds"`
}

// SustainSummary is a run in some numbers. All but those of opening are of the time in which
// samples came at the given rate.
type SustainSummary struct {
	KeepsUp    bool      `json:"keeps_up"` // every process reached the rate and had no backlog in the end
	Reached    []float64 `json:"reached"`  // by process, the part of the rate
	BacklogEnd []float64 `json:"backlog_end"`
	BacklogMax float64   `json:"backlog_max"` // seconds

	Flushes     int `json:"flushes"` // those that ended before the last process began to settle
	Merges      int `json:"merges"`
	Checkpoints int `json:"checkpoints"`
	Snapshots   int `json:"snapshots"`
	Warnings    int `json:"warnings"`

	SettledFlushes int `json:"settled_flushes"` // what was due and not done at the end
	SettledMerges  int `json:"settled_merges"`

	Checked    float64 `json:"samples_checked"`
	SeriesMade float64 `json:"series_made"`

	CPU        float64 `json:"cpu"`      // seconds a second, median
	CPUMean    float64 `json:"cpu_mean"` // and mean
	GC         float64 `json:"gc"`       // part of the processor time
	GCBusy     float64 `json:"gc_busy"`  // without what nobody else wanted
	P50        float64 `json:"p50"`      // of commits, seconds: the median of the seconds'
	P99        float64 `json:"p99"`
	Max        float64 `json:"max"` // the longest of all
	PerSample  float64 `json:"written_per_sample"`
	DiskSample float64 `json:"disk_written_per_sample"`
	Ready      float64 `json:"ready"`   // seconds from the kill until the database is open again
	Settled    float64 `json:"settled"` // seconds for what was due and not done at the end
	Peak       float64 `json:"peak"`    // resident bytes
}

// keptUp: the part of the rate that must be reached, and how far behind a process may be when
// it ends: a commit that waits for a moment is no backlog.
const (
	keptUpRate    = 0.99
	keptUpBacklog = 0.5 // seconds
)

// What the database must have done meanwhile, or the workload shows less than it says.
const (
	goalFlushes = 6
	goalMerges  = 2
)

// summarize fills in the summary. Processes are told apart by the kill.
func (r *SustainReport) summarize() {
	slices.SortStableFunc(r.Events, func(a, b SustainEvent) int { return cmp.Compare(a.At, b.At) })
	s := &r.Summary
	kill := r.countEvents()
	var cpu, p50, p99 []float64
	var process [2]struct{ samples, time, backlog float64 }
	var all SustainSecond
	for _, x := range r.Seconds {
		s.Peak = max(s.Peak, x.PeakSoFar)
		if x.Phase != phaseRun {
			continue
		}
		p := &process[0]
		if kill > 0 && x.At > kill {
			p = &process[1]
		}
		p.samples, p.time, p.backlog = p.samples+x.Samples*x.Took, p.time+x.Took, x.Backlog
		s.BacklogMax, s.Max = max(s.BacklogMax, x.Backlog), max(s.Max, x.Max)
		all.CPU, all.GC, all.GCIdle = all.CPU+x.CPU*x.Took, all.GC+x.GC*x.Took, all.GCIdle+x.GCIdle*x.Took
		all.Written, all.DiskWritten = all.Written+x.Written*x.Took, all.DiskWritten+x.DiskWritten*x.Took
		cpu = append(cpu, x.CPU)
		if x.Samples > 0 {
			p50, p99 = append(p50, x.P50), append(p99, x.P99)
		}
	}
	s.KeepsUp = len(p50) > 0
	for _, p := range process {
		if p.time > 0 {
			reached := p.samples / p.time / float64(r.Config.Rate)
			s.Reached, s.BacklogEnd = append(s.Reached, reached), append(s.BacklogEnd, p.backlog)
			s.KeepsUp = s.KeepsUp && reached >= keptUpRate && p.backlog < keptUpBacklog
		}
	}
	if len(p50) == 0 {
		return
	}
	samples, time := process[0].samples+process[1].samples, process[0].time+process[1].time
	s.CPU, s.P50, s.P99 = median(cpu), median(p50), median(p99)
	s.CPUMean, s.GC, s.GCBusy = all.CPU/time, all.GC/all.CPU, (all.GC-all.GCIdle)/all.CPU
	s.PerSample, s.DiskSample = all.Written/samples, all.DiskWritten/samples
}

// countEvents counts what happened, and returns when the process was killed; 0: it was not.
func (r *SustainReport) countEvents() (kill float64) {
	s, settles := &r.Summary, r.settles()
	for _, e := range r.Events {
		flushes, merges := &s.Flushes, &s.Merges
		if e.At > settles {
			flushes, merges = &s.SettledFlushes, &s.SettledMerges
		}
		switch e.Kind {
		case eventFlush:
			*flushes++
		case eventMerge:
			*merges++
		case eventCheckpoint:
			s.Checkpoints++
		case eventSnapshot:
			s.Snapshots++
		case eventWarning:
			s.Warnings++
		case eventKill:
			kill = e.At
		case eventSettle:
			s.Settled = e.Seconds
		case eventReady:
			if kill > 0 {
				s.Ready = e.At - kill
			}
		}
	}
	return kill
}

// settles returns when the last process began to do what was due and not done.
func (r *SustainReport) settles() float64 {
	for _, e := range r.Events {
		if e.Kind == eventSettle {
			return e.At - e.Seconds
		}
	}
	return math.Inf(1)
}

// lines are what the table has: a name, a figure, what is asked.
func (r SustainReport) lines() [][3]string {
	s := r.Summary
	answer := map[bool]string{true: "yes", false: "**no**"}
	var reached []string
	for i := range s.Reached {
		reached = append(reached, fmt.Sprintf("%.1f%% of the rate, %.2f s behind at its end", 100*s.Reached[i], s.BacklogEnd[i]))
	}
	gc := goalOrShort("< 3%", s.GC < goalCollect)
	work := goalOrShort(fmt.Sprintf("%d, %d", goalFlushes, goalMerges), s.Flushes >= goalFlushes && s.Merges >= goalMerges)
	lines := [][3]string{
		{"keeps up", answer[s.KeepsUp], "yes"},
		{"each process", strings.Join(reached, "; "), fmt.Sprintf("%.0f%%, less than %v s", 100*keptUpRate, keptUpBacklog)},
		{"longest backlog", fmt.Sprintf("%.2f s", s.BacklogMax), ""},
		{"flushes, merges", fmt.Sprintf("%d, %d", s.Flushes, s.Merges), work},
		{"flushes and merges that were left at the end", fmt.Sprintf("%d, %d in %.2f s", s.SettledFlushes, s.SettledMerges, s.Settled), ""},
		{"checkpoints, snapshots of the head", fmt.Sprintf("%d, %d", s.Checkpoints, s.Snapshots), ""},
		{"warnings and errors in the log", fmt.Sprint(s.Warnings), "0"},
		{"series replaced", fmt.Sprintf("%s of %s, %.1f%%", count(int(s.SeriesMade)-r.Config.Series), count(r.Config.Series), 100*(s.SeriesMade/float64(r.Config.Series)-1)), "5%"},
		{"acknowledged samples, all of them read back", fmt.Sprintf("%.1f M", s.Checked/1e6), "all"},
		{"processor seconds a second, median and mean", fmt.Sprintf("%.2f, %.2f", s.CPU, s.CPUMean), "2 processors"},
		{"garbage collection, of the processor time", fmt.Sprintf("%.2f%% (%.2f%% without what only idle processors did)", 100*s.GC, 100*s.GCBusy), gc},
		{"commit of 1,000: p50, p99, longest", fmt.Sprintf("%s, %s, %s", roundTime(s.P50), roundTime(s.P99), roundTime(s.Max)), ""},
		{"bytes written for a sample: by system calls, to the disk", fmt.Sprintf("%.1f, %.1f", s.PerSample, s.DiskSample), ""},
		{"peak resident memory", fmt.Sprintf("%.2f GB", s.Peak/1e9), ""},
	}
	if s.Ready > 0 {
		lines = append(lines, [3]string{"from the kill until the next process is ready", fmt.Sprintf("%.2f s", s.Ready), ""})
	}
	return lines
}

// goalOrShort is what is asked, with a mark if it is not there.
func goalOrShort(goal string, reached bool) string {
	if reached {
		return goal
	}
	return "**" + goal + " SHORT**"
}

func roundTime(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func (r SustainReport) String() string {
	c := r.Config
	text := fmt.Sprintf("%s, %s; %s series, %s samples a second for %v, %.0f%% of the series replaced meanwhile, a block range in %v of wall time",
		r.Date, r.System, count(c.Series), count(c.Rate), c.Time, 100*c.Churn, c.Range)
	if r.Speed > 1 {
		text += fmt.Sprintf(" (blocks have no less than a minute, so times of samples run %.2f times as fast as the clock)", r.Speed)
	}
	if r.Load >= 0 {
		text += fmt.Sprintf("; others took %.0f%% of the machine's processor time", 100*r.Load)
	}
	return text + "."
}

// Write writes the report as a "table" for a terminal, as "markdown" or as "json".
func (r SustainReport) Write(w io.Writer, format string) error {
	return writeReport(w, format, r, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s\n\n", wrap(r.String(), terminalWidth))
		for _, l := range r.lines() {
			fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("  %-58s %s", l[0], l[1]), " "))
		}
	}, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s\n\n| what | figure | goal |\n| --- | --- | --- |\n", r)
		for _, l := range r.lines() {
			fmt.Fprintf(b, "| %s | %s | %s |\n", l[0], l[1], l[2])
		}
	})
}

// writeReport writes a report about this library alone in one of its formats.
func writeReport(w io.Writer, format string, report any, table, markdown func(*bytes.Buffer)) error {
	var b bytes.Buffer
	switch format {
	case "table":
		table(&b)
	case "markdown":
		markdown(&b)
	case "json":
		e := json.NewEncoder(&b)
		e.SetIndent("", " ")
		if err := e.Encode(report); err != nil {
			return errors.Wrap(err, "encode report")
		}
	default:
		return errors.Errorf("no format %q, there are table, markdown and json", format)
	}
	_, err := w.Write(b.Bytes())
	return errors.Wrap(err, "write report")
}

// Marks of the part of a page that WriteDocs of a SustainReport makes.
const (
	sustainBegin = "<!-- make bench-sustained writes from here -->"
	sustainEnd   = "<!-- up to here -->"
)

// WriteDocs writes a report into a directory with a page bench.md: its part between two
// marks, bench/sustained.json, and charts bench/sustained-*.svg.
func (r SustainReport) WriteDocs(dir string) error {
	var page, results bytes.Buffer
	if err := r.Write(&page, "markdown"); err != nil {
		return err
	}
	if err := r.Write(&results, "json"); err != nil {
		return err
	}
	files := map[string][]byte{"sustained.json": results.Bytes()}
	for _, c := range r.charts() {
		svg, err := c.SVG()
		if err != nil {
			return err
		}
		files[c.Name+".svg"] = svg
		fmt.Fprintf(&page, "\n![%s](bench/%s.svg)\n", c.Title, c.Name)
	}
	if err := replaceBetween(filepath.Join(dir, "bench.md"), sustainBegin, sustainEnd, page.String()); err != nil {
		return err
	}
	return writeFiles(filepath.Join(dir, "bench"), files)
}
