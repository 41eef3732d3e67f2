package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pkg/errors"
)

var columns = []string{"unit", "ours", "reference", "times better", "goal", "spread"}

// Write writes the report as a "table" for a terminal, as "markdown" or as "json".
func (r Report) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return r.writeTable(w)
	case "markdown":
		return r.writeMarkdown(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return errors.Wrap(e.Encode(r), "write report")
	default:
		return errors.Errorf("no format %q, there are table, markdown and json", format)
	}
}

func (r Report) writeTable(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  %s\n", strings.Join(columns, "\t"))
	for i, row := range r.Rows {
		if i == 0 || row.Work != r.Rows[i-1].Work {
			// A line without a tab is in no column, so its length does not matter.
			fmt.Fprintf(t, "%s\n", row.Work)
		}
		fmt.Fprintf(t, "  %s\n", strings.Join(row.cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return errors.Wrap(err, "align table")
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s", r, b.String())
	return errors.Wrap(err, "write table")
}

func (r Report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| work | %s |\n| --- | --- | ---: | ---: | ---: | --- | ---: |\n", r, strings.Join(columns, " | "))
	for i, row := range r.Rows {
		work := row.Work
		if i > 0 && work == r.Rows[i-1].Work {
			work = ""
		}
		fmt.Fprintf(&b, "| %s | %s |\n", work, strings.Join(row.cells(), " | "))
	}
	_, err := io.WriteString(w, b.String())
	return errors.Wrap(err, "write table")
}

// number writes three digits and a prefix of the unit.
func number(v float64) string {
	for _, p := range []struct {
		by     float64
		prefix string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}, {1e-3, " m"}, {1e-6, " µ"}} {
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

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) + "%" }

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
