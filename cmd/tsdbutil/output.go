package main

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/pkg/errors"
)

// printTable writes rows under a header. Columns named in right stand flush right,
// counted from 1; widest, if not 0, is the column of selectors that is cut or folded when
// lines are too long for a terminal.
func (c *console) printTable(header table.Row, rows []table.Row, widest int, right ...int) error {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.HeaderAlign = text.AlignDefault
	if c.colour {
		text.EnableColors()
		style.Color.Header = text.Colors{text.Bold}
		style.Color.Separator = text.Colors{text.Faint}
	}
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	w.AppendHeader(header)
	w.AppendRows(rows)
	configs := make([]table.ColumnConfig, 0, len(right)+1)
	for _, n := range right {
		configs = append(configs, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	if widest > 0 && c.terminal {
		room := c.roomFor(widest, header, rows)
		configs = append(configs, table.ColumnConfig{
			Number: widest, WidthMax: room, WidthMaxEnforcer: fitting(widest, rows, room),
		})
	}
	w.SetColumnConfigs(configs)
	_, err := io.WriteString(c.out, w.Render()+"\n")
	return errors.Wrap(err, "write table")
}

// minColumn is what the cut column keeps in any case.
const minColumn = 16

// roomFor returns how wide one column may be so that a line fits the console.
func (c *console) roomFor(column int, header table.Row, rows []table.Row) int {
	used := 0
	for i := range header {
		if i+1 == column {
			continue
		}
		width := text.StringWidthWithoutEscSequences(cell(header[i]))
		for _, row := range rows {
			if i < len(row) {
				width = max(width, text.StringWidthWithoutEscSequences(cell(row[i])))
			}
		}
		used += width + 2
	}
	return max(c.width-used-2, minColumn)
}

// fitting is how the cells of a column are made to fit: cut, unless two that differ would
// then look the same.
func fitting(column int, rows []table.Row, width int) func(string, int) string {
	seen := make(map[string]string, len(rows))
	for _, row := range rows {
		name := cell(row[column-1])
		cut := shorten(name, width)
		if other, ok := seen[cut]; ok && other != name {
			return fold
		}
		seen[cut] = name
	}
	return shorten
}

// fold breaks a selector into lines, behind its brace and its commas. What is too long for
// a line is cut.
func fold(s string, width int) string {
	metric, rest, ok := strings.Cut(s, "{")
	if !ok || utf8.RuneCountInString(s) <= width {
		return shorten(s, width)
	}
	const indent = "  "
	lines := []string{shorten(metric+"{", width)}
	for label := range strings.SplitAfterSeq(rest, ", ") {
		label = strings.TrimSuffix(label, " ")
		last := &lines[len(lines)-1]
		if joined := *last + " " + label; len(lines) > 1 && utf8.RuneCountInString(joined) <= width {
			*last = joined
			continue
		}
		lines = append(lines, indent+shorten(label, width-len(indent)))
	}
	return strings.Join(lines, "\n")
}

func cell(v any) string {
	s, _ := v.(string)
	return s
}

// shorten cuts a text in the middle, where names differ least.
func shorten(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width || width < 3 {
		return s
	}
	head := (width - 1) * 2 / 3
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}

// printJSON writes one document, indented.
func (c *console) printJSON(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return errors.Wrap(enc.Encode(v), "write output")
}

// jsonFloat is a value in JSON: a number, or the strings "NaN", "+Inf" and "-Inf",
// for which JSON has no number.
type jsonFloat float64

// MarshalJSON implements json.Marshaler.
func (f jsonFloat) MarshalJSON() ([]byte, error) { return appendJSONFloat(nil, float64(f)), nil }

func appendJSONFloat(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(append(append(dst, '"'), rawFloat(v)...), '"')
	}
	return appendFloat(dst, v)
}

// printFacts writes pairs of a name and a value, two pairs a line.
func (c *console) printFacts(rows []table.Row) error {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	configs := make([]table.ColumnConfig, 0, 2)
	if c.colour {
		configs = append(configs,
			table.ColumnConfig{Number: 1, Colors: text.Colors{text.Faint}},
			table.ColumnConfig{Number: 3, Colors: text.Colors{text.Faint}})
	}
	w.SetColumnConfigs(configs)
	for _, row := range rows {
		w.AppendRow(row)
	}
	_, err := io.WriteString(c.out, indent(w.Render(), "  ")+"\n")
	return errors.Wrap(err, "write table")
}

// joinLines puts commas between parts, and begins a new line where one would be wider than width.
func joinLines(parts []string, width int) (lines []string) {
	line := ""
	for i, part := range parts {
		if i < len(parts)-1 {
			part += ","
		}
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(part) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += part
	}
	return append(lines, line)
}

func indent(text, by string) string { return by + strings.ReplaceAll(text, "\n", "\n"+by) }

func appendFloat(dst []byte, v float64) []byte { return strconv.AppendFloat(dst, v, 'g', -1, 64) }

// bytes writes a size: for people on a terminal, exact elsewhere.
func (c *console) bytes(n int64) string {
	if c.terminal {
		return humanize.IBytes(uint64(max(n, 0)))
	}
	return count(n) + " B"
}

// time writes a time: short and local for people on a terminal, exact elsewhere.
func (c *console) time(t int64, now time.Time) string {
	at := time.UnixMilli(t)
	switch {
	case !c.terminal:
		return at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	case c.width >= wideTable:
		return formatTime(t)
	case now.Sub(at).Abs() < 12*time.Hour:
		return at.Format("15:04:05")
	default:
		return at.Format("2006-01-02")
	}
}

// value writes a value: for people on a terminal, exact elsewhere.
func (c *console) value(u unit, v float64) string {
	if c.terminal {
		return u.format(v)
	}
	return rawFloat(v)
}
