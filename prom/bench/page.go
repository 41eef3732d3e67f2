package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// Marks of the part of a page that is made by a program.
const (
	pageBegin = "<!-- make bench-compare writes from here -->"
	pageEnd   = "<!-- to here -->"
)

// WriteDocs writes a report into a directory with a page bench.md: its part between two
// marks, bench/results.json, and a chart bench/NAME.svg for each curve. A README.md above
// the directory gets the main lines. Groups that were not measured stay as they are there.
func (r Report) WriteDocs(dir string) error {
	if old, err := os.ReadFile(filepath.Join(dir, "bench", "results.json")); err == nil {
		var before Report
		if err := json.Unmarshal(old, &before); err != nil {
			return errors.Wrap(err, "decode older results")
		}
		r = r.over(before)
	}
	if err := replacePart(filepath.Join(dir, "bench.md"), r.page()); err != nil {
		return err
	}
	if err := replacePart(filepath.Join(dir, "..", "README.md"), r.quote()); err != nil {
		return err
	}
	var results bytes.Buffer
	if err := r.Write(&results, "json"); err != nil {
		return err
	}
	files := map[string][]byte{"results.json": results.Bytes()}
	for _, c := range r.Curves {
		svg, err := c.SVG()
		if err != nil {
			return err
		}
		files[c.Name+".svg"] = svg
	}
	return writeFiles(filepath.Join(dir, "bench"), files)
}

// writePart writes a report into a directory with a page bench.md: its part between two marks, and
// bench/NAME.json.
func writePart(dir, begin, end, name string, r interface {
	Write(w io.Writer, format string) error
}) error {
	var page, results bytes.Buffer
	if err := r.Write(&page, "markdown"); err != nil {
		return err
	}
	if err := r.Write(&results, "json"); err != nil {
		return err
	}
	if err := replaceBetween(filepath.Join(dir, "bench.md"), begin, end, page.String()); err != nil {
		return err
	}
	return writeFiles(filepath.Join(dir, "bench"), map[string][]byte{name + ".json": results.Bytes()})
}

// writeFiles writes files into a directory, which it makes.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return errors.Wrap(err, "make directory for charts")
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return errors.Wrap(err, "write page")
		}
	}
	return nil
}

// replacePart writes the part of a file that is made by Report.WriteDocs.
func replacePart(name, part string) error { return replaceBetween(name, pageBegin, pageEnd, part) }

// replaceBetween writes the part of a file between two marks.
func replaceBetween(name, from, to, part string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return errors.Wrap(err, "read page")
	}
	begin, end := bytes.Index(text, []byte(from)), bytes.Index(text, []byte(to))
	if begin < 0 || end < begin {
		return errors.Errorf("%s has no part between %q and %q", name, from, to)
	}
	text = []byte(string(text[:begin]) + from + "\n\n" + part + "\n" + string(text[end:]))
	return errors.Wrap(os.WriteFile(name, text, 0o666), "write page")
}

// quoted are the rows that the README has.
var quoted = []string{
	"append/cpu", "append/garbage", "create/cpu", "latency/p999", "replay/wall", "reopen/wall", "memory/heap", "flush/cpu", "merge/cpu", "merge/heap",
	"blocks/all/rate", "blocks/all-batch/rate", "blocks/one/time", "blocks/disk", "remote/chunks/cpu", "remote/samples/wall", "remote/samples/heap",
	"histograms5/append", "histograms5/block", "histograms160/append", "histograms160/block", "histograms20/append", "histograms20/replay", "histograms20/heap", "histograms20/block", "histograms20/flush", "histograms20/merge", "program/size",
}

// quote is what the README says.
func (r Report) quote() string {
	var b strings.Builder
	b.WriteString("| work | unit | tsdb | Prometheus | VictoriaMetrics | times better | goal |\n| --- | --- | ---: | ---: | ---: | ---: | --- |\n")
	for _, name := range quoted {
		for _, row := range r.Rows {
			if row.Name == name {
				better := times(row.Ratio)
				if row.RatioVictoria.Times > 0 {
					better += ", " + times(row.RatioVictoria)
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", row.Work, row.Unit, middle(row.Ours), middle(row.Reference), middle(row.Victoria), better, row.markedGoal())
			}
		}
	}
	return fmt.Sprintf("%s\n%s. %s\n", b.String(), r, r.quiet())
}

// page is what stands between the marks.
func (r Report) page() string {
	var goals []Row
	for _, row := range r.Rows {
		if row.HasGoal() {
			goals = append(goals, row)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n", r)
	fmt.Fprintf(&b, "P is %s, VM is %s. %s\n", r.Versions[Reference], r.Versions[Victoria], r.quiet())
	fmt.Fprintf(&b, "\n### Goals\n\n%s\n\n%s", r.verdict(), markdownRows(goals))
	if len(r.Curves) > 0 {
		b.WriteString("\n### Curves\n")
	}
	for _, c := range r.Curves {
		fmt.Fprintf(&b, "\n%s, %s:\n\n![%s](bench/%s.svg)\n\n%s", c.Title, c.Unit, c.Title, c.Name, c.markdown())
		if judged := c.judge(); judged.text != "" {
			fmt.Fprintf(&b, "\n%s\n", judged.text)
		}
	}
	fmt.Fprintf(&b, "\n### All rows\n\n%s", markdownRows(r.Rows))
	return b.String()
}

// quiet says when the rows were measured, and how much else the machine had to do.
func (r Report) quiet() string {
	var b strings.Builder
	least, most := 1.0, 0.0
	older := map[string][]string{}
	for i, row := range r.Rows {
		least, most = min(least, row.Load), max(most, row.Load)
		if name := groupName(row.Name); row.Date != r.Date && (i == 0 || name != groupName(r.Rows[i-1].Name)) {
			older[row.Date] = append(older[row.Date], name)
		}
	}
	if least >= 0 {
		fmt.Fprintf(&b, "Others took %.0f to %.0f%% of the machine's processor time meanwhile.", 100*least, 100*most)
	}
	for _, date := range slices.Sorted(maps.Keys(older)) {
		fmt.Fprintf(&b, " Of %s: %s.", date, strings.Join(older[date], ", "))
	}
	return b.String()
}

// markdown is the curve as a table.
func (c Curve) markdown() string {
	var b strings.Builder
	b.WriteString("| series |")
	for _, l := range c.Lines {
		fmt.Fprintf(&b, " %s |", l)
	}
	b.WriteString("\n| ---: |" + strings.Repeat(" ---: |", len(c.Lines)) + "\n")
	for i := range c.Lines[0].Points {
		fmt.Fprintf(&b, "| %s |", count(c.Lines[0].Points[i].Series))
		for _, l := range c.Lines {
			fmt.Fprintf(&b, " %s |", number(l.Points[i].Value))
		}
		b.WriteString("\n")
	}
	return b.String()
}
