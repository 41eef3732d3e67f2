package main

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// csvFlags say what the columns of a table are.
type csvFlags struct {
	time         string
	timeFormat   string
	values       []string
	labels       []string
	metricPrefix string
	nulls        []string
	separator    string
}

// timeColumns are names of columns with times, which are known without being named.
var timeColumns = []string{timeColumn, "timestamp", "time"}

// given says whether any flag of tables was used.
func (f *csvFlags) given() bool {
	return f.time != "" || f.timeFormat != timeAuto || f.separator != "" || f.metricPrefix != "" ||
		len(f.values)+len(f.labels)+len(f.nulls) > 0
}

// importCSV reads a table: a sample for each row and value column.
type importCSV struct {
	sink  *importSink
	flags csvFlags

	header []string
	time   int
	values []csvValue
	labels []csvLabel
	rows   *rowReader
	key    []byte // of the last series
	text   []byte // of the last value

	histogram histogramSample // the last one
}

type csvLabel struct {
	column int
	name   string
}

type csvValue struct {
	column int
	name   string
	metric string // name of the metric, or nothing: a label says it
}

// tableRows reads rows with the separator that the flags or the first row say.
func tableRows(source *importSource, flags *csvFlags, longest int) (*rowReader, error) {
	if flags.separator != "" {
		comma, err := parseSeparator(flags.separator)
		return newRowReader(source.reader, comma, longest), err
	}
	comma, _ := separatorOf(firstLine(source.head()))
	return newRowReader(source.reader, comma, longest), nil
}

func (i *importCSV) read(source *importSource) (err error) {
	if i.rows, err = tableRows(source, &i.flags, i.sink.longest); err != nil {
		return err
	}
	header, err := i.rows.next()
	if errors.Is(err, io.EOF) {
		return errors.New("the table is empty: it needs a row of column names")
	}
	if err != nil {
		return errors.WithMessage(err, "read row of column names")
	}
	i.header = slices.Clone(header)
	if err := i.columns(i.header); err != nil {
		return err
	}
	return eachRow(i.rows, i.sink, i.row)
}

// eachRow calls use for each row. What is wrong with a row is told the sink.
func eachRow(rows *rowReader, sink *importSink, use func(row []string) error) error {
	for n := 1; ; n++ {
		row, err := rows.next()
		line := rows.line
		var damage *rowError
		var long *lineError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			err = use(row)
		case errors.As(err, &long):
			line, err = long.line, long.err
		case !errors.As(err, &damage):
			return errors.Wrapf(err, "read input behind line %d", line)
		}
		if err := sink.bad(line, err); err != nil {
			return err
		}
		if err := sink.poll(n); err != nil {
			return err
		}
	}
}

// columns finds the columns by the names in the first row.
func (i *importCSV) columns(header []string) (err error) {
	for n, name := range header {
		if slices.Contains(header[:n], name) {
			return errors.Errorf("two columns are named %s", quoted(name))
		}
	}
	if i.time, err = i.timeColumn(header); err != nil {
		return err
	}
	if i.flags.timeFormat == timeAuto && strings.HasSuffix(header[i.time], "_ms") {
		i.flags.timeFormat = timeUnixMS
	}
	values, labelNames := i.flags.values, i.flags.labels
	if len(values) == 0 {
		if !slices.Contains(header, valueColumn) {
			return usageError("--value-column: no column is named " + valueColumn + ", so say which have values; there are: " + strings.Join(header, ", "))
		}
		values = []string{valueColumn}
		if len(labelNames) == 0 {
			labelNames = i.others(header)
		}
	}
	for _, name := range labelNames {
		n, err := find(header, "--label-column", name)
		if err != nil {
			return err
		}
		i.labels = append(i.labels, csvLabel{n, columnLabel(name)})
	}
	for _, name := range values {
		n, err := find(header, "--value-column", name)
		if err != nil {
			return err
		}
		i.values = append(i.values, csvValue{n, name, i.metric(name)})
	}
	return nil
}

// metric is the name that the values of a column get: none, if a label column has it.
func (i *importCSV) metric(column string) string {
	if slices.ContainsFunc(i.labels, func(l csvLabel) bool { return l.name == labels.MetricName }) {
		return ""
	}
	return i.flags.metricPrefix + column
}

func (i *importCSV) timeColumn(header []string) (int, error) {
	if i.flags.time != "" {
		return find(header, "--time-column", i.flags.time)
	}
	for _, name := range timeColumns {
		if n := slices.Index(header, name); n >= 0 {
			return n, nil
		}
	}
	return 0, usageError("--time-column: no column is named " + strings.Join(timeColumns, " or ") + ", so say which one has the time; there are: " + strings.Join(header, ", "))
}

func find(header []string, flag, name string) (int, error) {
	if n := slices.Index(header, name); n >= 0 {
		return n, nil
	}
	return 0, usageError(flag + ": there is no column " + quoted(name) + "; there are: " + strings.Join(header, ", "))
}

// others are the columns that are neither time nor value.
func (i *importCSV) others(header []string) (names []string) {
	for n, name := range header {
		if n != i.time && name != valueColumn {
			names = append(names, name)
		}
	}
	return names
}

// row appends the samples of a row. One that is wrong does not keep the others out; the
// error is that of the first.
func (i *importCSV) row(row []string) (first error) {
	if len(row) != len(i.header) {
		return errors.Errorf("wrong number of cells: there are %d, and %d columns", len(row), len(i.header))
	}
	if isHeader(row, i.header) {
		return nil
	}
	t, err := i.flags.parseTime(row[i.time])
	if err != nil {
		return err
	}
	for n, value := range i.values {
		text := row[value.column]
		if text == "" || slices.Contains(i.flags.nulls, text) {
			continue
		}
		if err := i.cell(n, row, t, text); err != nil && first == nil {
			first = errors.WithMessagef(err, "column %s", value.name)
		}
	}
	return first
}

// isHeader says whether a row is the header again, as in tables that were put together.
func isHeader(row, header []string) bool {
	return row[len(row)-1] == header[len(row)-1] && slices.Equal(row, header)
}

// cell appends one sample.
func (i *importCSV) cell(n int, row []string, t int64, text string) error {
	i.text = append(i.text[:0], text...)
	x, err := i.value(t)
	if err != nil {
		return err
	}
	one, err := i.sink.series(i.seriesKey(n, row), func(b *labels.Builder) error {
		b.Set(labels.MetricName, i.values[n].metric)
		for _, l := range i.labels {
			b.Set(l.name, row[l.column])
		}
		return nil
	})
	if err != nil {
		return err
	}
	return i.sink.appendSample(one, x)
}

// value reads the text of a cell: a number, or a histogram.
func (i *importCSV) value(t int64) (tsdb.Sample, error) {
	if isHistogramText(i.text) {
		i.histogram.t = t
		err := parseHistogram(i.text, &i.histogram)
		return i.histogram.sample(), err
	}
	v, err := parseValue(i.text)
	return tsdb.Sample{T: t, V: v}, err
}

// seriesKey is a text that no other series of the table has.
func (i *importCSV) seriesKey(value int, row []string) []byte {
	i.key = strconv.AppendInt(i.key[:0], int64(value), 10)
	for _, l := range i.labels {
		i.key = appendKey(i.key, row[l.column])
	}
	return i.key
}

// appendKey adds a cell so that different cells never make the same key.
func appendKey(key []byte, cell string) []byte {
	key = strconv.AppendInt(append(key, ' '), int64(len(cell)), 10)
	return append(append(key, ' '), cell...)
}
