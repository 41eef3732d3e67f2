package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed347100a3/tsdb/labels"
)

// Formats of imports.
const (
	formatAuto        = "auto"
	formatOpenMetrics = "openmetrics"
	formatProm        = "prom"
	formatCSV         = "csv"
	formatInflux      = "influx"
	formatJSON        = "json"
)

// importHead is how much of the beginning is looked at to find out the format.
const importHead = 64 << 10

// head is the beginning of the text.
func (s *importSource) head() []byte {
	head, _ := s.reader.Peek(importHead) // what is wrong with the input shows when it is read
	return head
}

// latestAsSeconds is up to when a time in whole numbers may be in seconds: the year 2984. As
// milliseconds it is the end of 1970.
const latestAsSeconds = 32e9

// sniffed is what a text looks like.
type sniffed struct {
	format string
	// guessed: only the size of times says that they are milliseconds.
	guessed bool
}

// sniff finds out the format of a text by its beginning and, if it can be seen, its end.
// The name of the file counts only when these say nothing.
func sniff(head, tail []byte, name string, flags *csvFlags) sniffed {
	first := firstLine(head)
	switch {
	case len(first) == 0:
		return sniffed{format: formatByName(name)}
	case isJSON(head):
		return sniffed{format: formatJSON}
	case isAnnotation(first):
		return sniffed{format: formatInflux}
	}
	if format := tableFormat(first, flags); format != "" {
		return sniffed{format: format}
	}
	return sniffText(head, tail, name)
}

// firstLine is the first one that is not empty.
func firstLine(head []byte) []byte {
	for line := range bytes.Lines(head) {
		if line = trimLineEnd(line); len(bytes.TrimSpace(line)) > 0 {
			return line
		}
	}
	return nil
}

// isJSON says whether a text begins with an object and its first key. The text formats can
// begin alike, with no colon behind the quote.
func isJSON(head []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(head), []byte("{"))
	if rest = bytes.TrimSpace(rest); !ok || !bytes.HasPrefix(rest, []byte(`"`)) {
		return false
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return bytes.HasPrefix(bytes.TrimSpace(rest[i+1:]), []byte(":"))
		}
	}
	return false
}

// isAnnotation says whether a line is one of the annotations of InfluxDB.
func isAnnotation(line []byte) bool {
	cell, _, ok := bytes.Cut(line, []byte(","))
	return ok && slices.Contains([]string{influxGroup, influxDatatype, influxDefault}, string(bytes.Trim(cell, `"`)))
}

// tableFormat says which kind of table a line is the header of; none if it is none.
func tableFormat(line []byte, flags *csvFlags) string {
	if line[0] == '#' || line[0] == '{' || isSample(line) {
		return ""
	}
	comma, ok := separatorOf(line)
	if flags.separator != "" {
		if r, err := parseSeparator(flags.separator); err == nil {
			comma, ok = r, true
		}
	}
	cells := strings.Split(string(line), string(comma))
	for i := range cells {
		cells[i] = strings.Trim(cells[i], `"`)
	}
	has := func(name string) bool { return slices.Contains(cells, name) }
	switch {
	case has(timeColumn) && has(valueColumn):
		return formatCSV // of query, whatever labels are called
	case has(influxTime) && (has(influxMeasurement) || has(influxValue) || has(influxField)):
		return formatInflux
	case flags.given(), slices.ContainsFunc(timeColumns, has):
		return formatCSV
	case ok && comma != '\t' && !bytes.Contains(line, []byte("{")):
		return formatCSV // it will be told which columns it lacks
	default:
		return ""
	}
}

// isSample says whether a line is a sample of one of the text formats.
func isSample(line []byte) bool {
	l, err := parseTextLine(bytes.TrimSpace(line), false)
	if err != nil {
		return false
	}
	var b labels.Builder
	return parseSeries(l.series, false, &b) == nil
}

// sniffText tells OpenMetrics, which has seconds and an end mark, from the Prometheus text
// format, which has milliseconds.
func sniffText(head, tail []byte, name string) sniffed {
	if hasEndMark(tail) || hasEndMark(head) {
		return sniffed{format: formatOpenMetrics}
	}
	samples := 0
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("# UNIT ")) {
			return sniffed{format: formatOpenMetrics}
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		format, ok := sniffSample(line)
		if format != "" {
			return sniffed{format: format, guessed: format == formatProm && !isDumped(string(line))}
		}
		if ok {
			samples++
		}
	}
	if samples == 0 {
		return sniffed{format: formatByName(name)}
	}
	return sniffed{format: formatOpenMetrics}
}

// sniffSample says which format a sample must be of, if it must, and whether the line is one.
func sniffSample(line []byte) (format string, ok bool) {
	l, err := parseTextLine(line, false)
	switch {
	case err == nil && (len(l.exemplars) > 0 || l.st != 0 || bytes.ContainsAny(l.at, ".eE")):
		return formatOpenMetrics, true
	case isDumped(string(line)):
		return formatProm, true
	case err != nil:
		return "", false
	case l.t > latestAsSeconds*1000 || l.t < -latestAsSeconds*1000:
		return formatProm, true
	default:
		return "", true
	}
}

// hasEndMark looks for the end mark of OpenMetrics at the beginning of a line.
func hasEndMark(text []byte) bool {
	for line := range bytes.Lines(text) {
		if isEndMark(line) {
			return true
		}
	}
	return false
}

// formatByName guesses from the name of a file.
func formatByName(name string) string {
	switch name = plainName(name); {
	case strings.HasSuffix(name, ".csv"), strings.HasSuffix(name, ".tsv"):
		return formatCSV
	case strings.HasSuffix(name, ".prom"):
		return formatProm
	case strings.HasSuffix(name, ".json"), strings.HasSuffix(name, ".jsonl"):
		return formatJSON
	default:
		return formatOpenMetrics
	}
}

// plainName is a name in lower case, without what says that it is a gzip.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".gz") }
