package bench

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// RecoverDatabase is a database that was written by a process which was killed, and how it opened.
type RecoverDatabase struct {
	Series  int       `json:"series"`
	Samples int       `json:"samples"` // that were acknowledged
	Checked []float64 `json:"checked"` // of them, and of the commit that the next process made, read back: with defaults, by the log alone

	Writing    float64 `json:"writing"`     // seconds until there were as many as were asked for
	Blocks     int     `json:"blocks"`      // that were left
	BlockBytes int64   `json:"block_bytes"` // of them
	LogBytes   int64   `json:"log_bytes"`   // that were left
	Peak       float64 `json:"peak"`        // most resident bytes of the process, mapped files included
	Own        float64 `json:"own"`         // the most that it was seen with without them
	Limit      float64 `json:"limit"`       // bytes that its runtime needed when garbage was just collected, and a tenth

	Opened []RecoverOpened `json:"opened"` // one for each way
}

// RecoverOpened is how a database opened in one way, a figure for each run.
type RecoverOpened struct {
	Way     string    `json:"way"`
	Limited bool      `json:"limited"` // GOMEMLIMIT was the Limit of the process that was killed
	CPU     []float64 `json:"cpu"`     // seconds
	Wall    []float64 `json:"wall"`    // seconds
	Peak    []float64 `json:"peak"`    // most resident bytes, mapped files included
	Own     []float64 `json:"own"`     // the most that were seen without them
	Log     []float64 `json:"log"`     // bytes of log that were read
}

// note takes down what opening in one way took.
func (d *RecoverDatabase) note(way int, m measures) {
	if d.Opened == nil {
		d.Opened = make([]RecoverOpened, len(recoverWays))
	}
	o := &d.Opened[way]
	o.Way, o.Limited = recoverWays[way].name, recoverWays[way].limited
	for name, to := range map[string]*[]float64{"cpu": &o.CPU, "wall": &o.Wall, "peak": &o.Peak, "own": &o.Own, "log": &o.Log} {
		*to = append(*to, m[name])
	}
}

// RecoverReport is what Recover found.
type RecoverReport struct {
	Date      string            `json:"date"`
	System    string            `json:"system"`
	Load      float64           `json:"load_of_others"` // part of the processor time; negative: unknown
	Config    RecoverConfig     `json:"config"`
	Databases []RecoverDatabase `json:"databases"`
}

func (r RecoverReport) String() string {
	text := fmt.Sprintf("%s, %s; %s series, sampled each second, written by a process that was killed while it appended; medians of %d",
		r.Date, r.System, count(r.Config.Series), r.Config.Runs)
	if r.Load >= 0 {
		text += fmt.Sprintf("; others took %.0f%% of the machine's processor time", 100*r.Load)
	}
	return text + "."
}

// promise says what was promised.
func promise() string {
	return fmt.Sprintf("Promised, and judged by the worst run: at most %.0f us of processor time a series and %.0f ms for each MiB of log that is read; at most %.1f times the memory of the process that was killed.",
		promisedSeries*1e6, promisedLog*1e3, goalGrown)
}

// recoverColumns are those of lines.
var recoverColumns = []string{"samples", "opened", "log read", "CPU s", "at most", "time s", "peak MB", "of the writer's", "without files"}

// lines are the cells of the table, a line for each way to open each database.
func (r RecoverReport) lines() (lines [][]string) {
	for _, d := range r.Databases {
		for _, o := range d.Opened {
			most := promised(d.Series, slices.Min(o.Log))
			way := o.Way
			if o.Limited {
				way += fmt.Sprintf(" to %.0f MB", d.Limit/1e6)
			}
			lines = append(lines, []string{
				number(float64(d.Samples)), way, fmt.Sprintf("%.1f MiB", median(o.Log)/(1<<20)),
				fmt.Sprintf("%.2f", median(o.CPU)), goalOrShort(fmt.Sprintf("%.2f", most), slices.Max(o.CPU) <= most), fmt.Sprintf("%.2f", median(o.Wall)),
				fmt.Sprintf("%.0f", median(o.Peak)/1e6), goalOrShort(fmt.Sprintf("%.2f", median(o.Peak)/d.Peak), slices.Max(o.Peak) <= goalGrown*d.Peak), fmt.Sprintf("%.0f", median(o.Own)/1e6),
			})
		}
	}
	return lines
}

// writers say what the processes did that were killed.
func (r RecoverReport) writers() (lines []string) {
	for _, d := range r.Databases {
		lines = append(lines, fmt.Sprintf("%s samples were written in %.0f s. The process had %.0f MB at most, %.0f without mapped files, and needed %.0f when garbage was just collected; it left %.2f GB of blocks (%d) and %.0f MiB of log. All of its %d acknowledged samples were read back, with what there was and by the log alone.",
			number(float64(d.Samples)), d.Writing, d.Peak/1e6, d.Own/1e6, d.Limit/limitOver/1e6, float64(d.BlockBytes)/1e9, d.Blocks, float64(d.LogBytes)/(1<<20), d.Samples))
	}
	return lines
}

// Write writes the report as a "table" for a terminal, as "markdown" or as "json".
func (r RecoverReport) Write(w io.Writer, format string) error {
	lines := r.lines()
	return writeReport(w, format, r, func(b *bytes.Buffer) {
		cells := append([][]string{recoverColumns}, lines...)
		align(cells)
		fmt.Fprintf(b, "%s\n%s\n\n", wrap(r.String(), terminalWidth), wrap(promise(), terminalWidth))
		for _, l := range cells {
			fmt.Fprintf(b, "  %s\n", strings.TrimRight(strings.Join(l, "  "), " "))
		}
		for _, text := range r.writers() {
			fmt.Fprintf(b, "\n%s\n", wrap(text, terminalWidth))
		}
	}, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s %s\n\n| %s |\n| ---: | --- |%s\n", r, promise(), strings.Join(recoverColumns, " | "), strings.Repeat(" ---: |", len(recoverColumns)-2))
		for _, l := range lines {
			fmt.Fprintf(b, "| %s |\n", strings.Join(l, " | "))
		}
		for _, text := range r.writers() {
			fmt.Fprintf(b, "\n%s\n", text)
		}
	})
}

// Marks of the part of a page that WriteDocs of a RecoverReport makes.
const (
	recoverBegin = "<!-- make bench-recovery writes from here -->"
	recoverEnd   = "<!-- as far as here -->"
)

// WriteDocs writes a report into a directory with a page bench.md: its part between two marks,
// and bench/recovery.json.
func (r RecoverReport) WriteDocs(dir string) error {
	return writePart(dir, recoverBegin, recoverEnd, "recovery", r)
}
