package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// columns of a row behind its work. P is the reference, VM VictoriaMetrics; xP and xVM say
// how many times better ours is.
var columns = []string{"unit", "ours", "P", "VM", "xP", "xVM", "goal", "spread"}

// terminalWidth is what a table has room for.
const terminalWidth = 100

// Write writes the report as a "table" for a terminal, as "markdown" or as "json".
func (r Report) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return r.writeTable(w)
	case "markdown":
		_, err := io.WriteString(w, r.String()+"\n\n"+markdownRows(r.Rows))
		return errors.Wrap(err, "write table")
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return errors.Wrap(e.Encode(r), "write report")
	default:
		return errors.Errorf("no format %q, there are table, markdown and json", format)
	}
}

func (r Report) writeTable(w io.Writer) error {
	cells := [][]string{slices.Clone(columns)}
	for _, row := range r.Rows {
		cells = append(cells, row.cells())
	}
	align(cells)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n  %s\n", wrap(r.String(), terminalWidth), strings.Join(cells[0], "  "))
	for i, row := range r.Rows {
		if i == 0 || row.Work != r.Rows[i-1].Work {
			fmt.Fprintf(&b, "%s\n", wrap(row.Work, terminalWidth))
		}
		fmt.Fprintf(&b, "  %s\n", strings.TrimRight(strings.Join(cells[i+1], "  "), " "))
	}
	for _, c := range r.Curves {
		fmt.Fprintf(&b, "\n%s, %s\n%s%s\n", c.Title, c.Unit, c.markdown(), wrap(c.judge().text, terminalWidth))
	}
	fmt.Fprintf(&b, "\n%s\n", r.verdict())
	_, err := io.WriteString(w, b.String())
	return errors.Wrap(err, "write table")
}

// align makes the cells of each column equally wide.
func align(lines [][]string) {
	for column := range lines[0] {
		width := 0
		for _, cells := range lines {
			width = max(width, utf8.RuneCountInString(cells[column]))
		}
		for _, cells := range lines {
			cells[column] += strings.Repeat(" ", width-utf8.RuneCountInString(cells[column]))
		}
	}
}

// verdict says how many goals are reached, those of curves included.
func (r Report) verdict() string {
	goals := 0
	for _, row := range r.Rows {
		if row.HasGoal() {
			goals++
		}
	}
	missed := r.Missed()
	for _, c := range r.Curves {
		j := c.judge()
		if j.text == "" {
			continue
		}
		goals++
		if !j.reached {
			missed = append(missed, "curve "+c.Name)
		}
	}
	if goals == 0 {
		return "No row of these has a goal."
	}
	text := fmt.Sprintf("%d of %d goals are reached", goals-len(missed), goals)
	if len(missed) > 0 {
		text += "; short: " + strings.Join(missed, ", ")
	}
	return wrap(text+".", terminalWidth)
}

// wrap breaks a line at spaces.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// markdownRows writes rows as a table.
func markdownRows(rows []Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| work | %s |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n", strings.Join(columns, " | "))
	for i, row := range rows {
		work := row.Work
		if i > 0 && work == rows[i-1].Work {
			work = ""
		}
		cells := row.cells()
		cells[6] = row.markedGoal()
		fmt.Fprintf(&b, "| %s | %s |\n", work, strings.Join(cells, " | "))
	}
	return b.String()
}

// cells are the columns of a row behind its work.
func (r Row) cells() []string {
	return []string{
		r.Unit, middle(r.Ours), middle(r.Reference), middle(r.Victoria), times(r.Ratio), times(r.RatioVictoria), r.goalText(),
		strings.TrimSpace(spreadText(r.Ours) + " " + spreadText(r.Reference) + " " + spreadText(r.Victoria)),
	}
}

func middle(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return number(median(values))
}

func times(r Ratio) string {
	if r.Times == 0 {
		return "-"
	}
	return factor(r.Times)
}

// factor writes how many times better something is: three digits, or all of a large number.
func factor(v float64) string { return strconv.FormatFloat(v, 'f', decimals(v), 64) }

// spreadText is in percent, without the sign.
func spreadText(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return strconv.FormatFloat(100*spread(values), 'f', 0, 64)
}

// markedGoal is goalText as markdown: who falls short of it stands out.
func (r Row) markedGoal() string {
	if r.HasGoal() && !r.Reached() {
		return "**" + r.goalText() + "**"
	}
	return r.goalText()
}

func (r Row) goalText() string {
	if !r.HasGoal() {
		return "-"
	}
	var parts []string
	if r.Goal.Reference > 0 {
		parts = append(parts, factor(r.Goal.Reference)+"xP")
	}
	if r.Goal.Victoria > 0 {
		parts = append(parts, factor(r.Goal.Victoria)+"xVM")
	}
	if r.Goal.Bound > 0 && r.Worse {
		parts = append(parts, "<= "+number(r.Goal.Bound))
	} else if r.Goal.Bound > 0 {
		parts = append(parts, ">= "+number(r.Goal.Bound))
	}
	mark := " PASS"
	switch {
	case len(r.Ours) == 0:
		mark = " SHORT (not known)"
	case !r.Reached():
		mark = " SHORT"
	}
	return strings.Join(parts, " ") + mark
}

// number writes three digits and a prefix of the unit.
func number(v float64) string {
	for _, p := range []struct {
		by     float64
		prefix string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}, {1e-3, " m"}, {1e-6, " µ"}, {1e-9, " n"}} {
		if v >= 0.9995*p.by { // or rounding would give 1000
			v /= p.by
			return strconv.FormatFloat(v, 'f', decimals(v), 64) + p.prefix
		}
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func decimals(v float64) int {
	switch {
	case v < 9.995:
		return 2
	case v < 99.95:
		return 1
	default:
		return 0
	}
}

// count writes a whole number shortly.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%100_000 == 0:
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + "M"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	default:
		return strconv.Itoa(n)
	}
}
