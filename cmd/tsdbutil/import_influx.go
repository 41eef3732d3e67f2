package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// Columns of annotated tables that are no tags.
const (
	influxTime        = "_time"
	influxValue       = "_value"
	influxField       = "_field"
	influxMeasurement = "_measurement"
)

// influxOther are columns about the query that wrote the table.
var influxOther = []string{"", "result", "table", "_start", "_stop"}

// Annotations: rows in front of a header.
const (
	influxGroup    = "#group"
	influxDatatype = "#datatype"
	influxDefault  = "#default"
)

// importInflux reads what InfluxDB answers to queries: tables of CSV, one behind the other,
// each with a row of column names, and with or without annotations. The name of a metric is
// that of the measurement and of the field, with an underscore between them. All other
// columns that are not about the query are labels.
type importInflux struct {
	sink  *importSink
	flags csvFlags
	rows  *rowReader

	types, defaults []string // of each column; none without annotations
	header          []string // none: the next row is one
	time            int
	values          []csvValue
	name            []csvLabel // columns that the name is made of
	labels          []csvLabel
	cells           []string // of the row, with defaults
	key, text       []byte
}

func (i *importInflux) read(source *importSource) (err error) {
	if i.rows, err = tableRows(source, &i.flags, i.sink.longest); err != nil {
		return err
	}
	err = eachRow(i.rows, i.sink, func(row []string) error {
		if done, err := i.structure(row); done {
			return err
		}
		return i.row(row)
	})
	if err == nil && i.header == nil {
		return errors.New("the table is empty: it needs a row of column names")
	}
	return err
}

// structure takes a row that is no data; done says that it was one.
func (i *importInflux) structure(row []string) (done bool, err error) {
	if strings.HasPrefix(row[0], "#") {
		if i.header != nil {
			i.header, i.types, i.defaults = nil, nil, nil
		}
		switch row[0] {
		case influxDatatype:
			i.types = slices.Clone(row)
		case influxDefault:
			i.defaults = slices.Clone(row)
		}
		return true, nil
	}
	if i.header != nil && slices.Equal(row, i.header) {
		return true, nil
	}
	if i.header == nil || i.rows.gap && slices.Contains(row, i.timeColumn()) {
		if i.header != nil {
			i.types, i.defaults = nil, nil
		}
		i.header = slices.Clone(row)
		return true, i.columns()
	}
	return false, nil
}

func (i *importInflux) timeColumn() string {
	if i.flags.time != "" {
		return i.flags.time
	}
	return influxTime
}

// columns finds the columns by their names.
func (i *importInflux) columns() (err error) {
	i.values, i.name, i.labels = nil, nil, nil
	for n, name := range i.header {
		if name != "" && slices.Contains(i.header[:n], name) {
			return errors.Errorf("two columns are named %s", quoted(name))
		}
	}
	if i.time = slices.Index(i.header, i.timeColumn()); i.time < 0 {
		if slices.Contains(i.header, "error") {
			return errors.New("the table is the error of a query: " + strings.Join(i.header, ", "))
		}
		return errors.Errorf("there is no column %s; there are: %s", quoted(i.timeColumn()), strings.Join(i.header, ", "))
	}
	values := i.flags.values
	if len(values) == 0 {
		values = []string{influxValue}
	}
	for _, name := range values {
		n := slices.Index(i.header, name)
		if n < 0 {
			return errors.Errorf("there is no column %s, so say with --value-column which have values; there are: %s", quoted(name), strings.Join(i.header, ", "))
		}
		i.values = append(i.values, csvValue{n, name, ""})
	}
	for _, name := range []string{influxMeasurement, influxField} {
		if n := slices.Index(i.header, name); n >= 0 {
			i.name = append(i.name, csvLabel{n, name})
		}
	}
	i.tags(values)
	return nil
}

// tags are the columns that become labels.
func (i *importInflux) tags(values []string) {
	for n, name := range i.header {
		isTag := n != i.time && !slices.Contains(influxOther, name) && !slices.Contains(values, name) &&
			name != influxMeasurement && name != influxField
		if len(i.flags.labels) > 0 {
			isTag = slices.Contains(i.flags.labels, name)
		}
		if isTag {
			i.labels = append(i.labels, csvLabel{n, name})
		}
	}
}

// row appends the samples of a row. One that is wrong does not keep the others out.
func (i *importInflux) row(row []string) (first error) {
	if len(i.values) == 0 {
		return errors.New("the row is of a table that cannot be read")
	}
	if len(row) != len(i.header) {
		return errors.Errorf("wrong number of cells: there are %d, and %d columns", len(row), len(i.header))
	}
	i.cells = append(i.cells[:0], row...)
	for n := range i.cells {
		if i.cells[n] == "" && n < len(i.defaults) && i.defaults[n] != influxDefault {
			i.cells[n] = i.defaults[n]
		}
	}
	t, err := i.parseTime(i.cells[i.time])
	if err != nil {
		return err
	}
	for n := range i.values {
		text := i.cells[i.values[n].column]
		if text == "" || slices.Contains(i.flags.nulls, text) {
			continue
		}
		if err := i.cell(n, t, text); err != nil && first == nil {
			first = errors.WithMessagef(err, "column %s", i.values[n].name)
		}
	}
	return first
}

// cell appends one sample.
func (i *importInflux) cell(n int, t int64, text string) error {
	v, err := i.parseValue(i.values[n].column, text)
	if err != nil {
		return err
	}
	i.key = strconv.AppendInt(i.key[:0], int64(n), 10)
	for _, l := range i.name {
		i.key = appendKey(append(i.key, l.name...), i.cells[l.column])
	}
	for _, l := range i.labels {
		i.key = appendKey(append(i.key, l.name...), i.cells[l.column])
	}
	one, err := i.sink.series(i.key, func(b *labels.Builder) error {
		name, err := i.metric(n)
		if err != nil {
			return err
		}
		for _, l := range i.labels {
			b.Set(l.name, i.cells[l.column])
		}
		b.Set(labels.MetricName, name)
		return nil
	})
	if err != nil {
		return err
	}
	return i.sink.append(one, t, v)
}

// metric is the name of the measurement with that of the field. A column of values that
// was asked for by name is a field, too.
func (i *importInflux) metric(n int) (string, error) {
	var parts []string
	for _, l := range i.name {
		parts = append(parts, i.cells[l.column])
	}
	if i.values[n].name != influxValue {
		parts = append(parts, i.values[n].name)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return "", errors.Errorf("there is neither a %s nor a %s: the metric has no name", influxMeasurement, influxField)
	}
	return i.flags.metricPrefix + strings.Join(parts, "_"), nil
}

// parseTime reads RFC 3339, or nanoseconds, unless a flag says otherwise.
func (i *importInflux) parseTime(text string) (int64, error) {
	if i.flags.timeFormat != timeAuto {
		return i.flags.parseTime(text)
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UnixMilli(), nil
	}
	if t, err := parseUnits(text, "nanoseconds", time.Millisecond/time.Nanosecond); err == nil {
		return t, nil
	}
	return 0, errors.Errorf("the time is neither RFC 3339 nor a number of nanoseconds: %s (--time-format tells how to read it)", quoted(text))
}

// parseValue reads a number, or true and false, which are 1 and 0. Text is no value, even if it
// looks like a number.
func (i *importInflux) parseValue(column int, text string) (float64, error) {
	kind := ""
	if column < len(i.types) {
		kind = i.types[column]
	}
	switch {
	case kind == "string" || kind == "duration" || kind == "base64Binary" || strings.HasPrefix(kind, "dateTime"):
		return 0, errors.Errorf("a value of the type %s cannot be stored: %s", kind, quoted(text))
	case (kind == "boolean" || kind == "") && text == "true":
		return 1, nil
	case (kind == "boolean" || kind == "") && text == "false":
		return 0, nil
	}
	i.text = append(i.text[:0], text...)
	return parseValue(i.text)
}
