package main

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pkg/errors"

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

// Names of columns that are known without being named.
var (
	timeColumns = []string{"timestamp_ms", "timestamp", "time"}
	valueColumn = "value"
)

// Formats of times besides layouts of the language.
const (
	timeAuto   = "auto"
	timeUnix   = "unix"
	timeUnixMS = "unix_ms"
	timeUnixUS = "unix_us"
	timeUnixNS = "unix_ns"
)

// importCSV reads a table: a sample for each row and value column.
type importCSV struct {
	sink  *importSink
	flags csvFlags
	comma rune

	time   int
	values []csvValue
	labels []csvLabel
	rows   *csv.Reader
	limit  *rowLimit
	key    []byte // of the last series
	text   []byte // of the last value
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

func newImportCSV(sink *importSink, flags csvFlags) (*importCSV, error) {
	i := &importCSV{sink: sink, flags: flags}
	separator := flags.separator
	switch separator {
	case "":
		separator = ","
	case `\t`, "tab":
		separator = "\t"
	}
	comma, size := utf8.DecodeRuneInString(separator)
	if size == 0 || size != len(separator) || comma == utf8.RuneError || strings.ContainsRune("\"\r\n", comma) {
		return nil, usageError("--separator: want one character, or tab")
	}
	i.comma = comma
	return i, nil
}

func (i *importCSV) read(source *importSource) error {
	i.limit = &rowLimit{r: source.reader}
	i.rows = csv.NewReader(i.limit)
	i.rows.Comma = i.comma
	i.rows.ReuseRecord = true
	header, err := i.next()
	if errors.Is(err, io.EOF) {
		return errors.New("the table is empty: it needs a row of column names")
	}
	if err != nil {
		return errors.Wrap(err, "read row of column names")
	}
	if len(header) > 0 {
		header[0] = strings.TrimPrefix(header[0], "\ufeff")
	}
	if err := i.columns(slices.Clone(header)); err != nil {
		return err
	}
	line := 1
	for n := 1; ; n++ {
		row, err := i.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var damage *csv.ParseError
		switch {
		case errors.As(err, &damage):
			line, err = damage.Line, damage.Err
		case err != nil:
			return errors.Wrapf(err, "read input behind line %d", line)
		default:
			line, _ = i.rows.FieldPos(0)
			err = i.row(row)
		}
		if err := i.sink.bad(line, err); err != nil {
			return err
		}
		if err := i.sink.poll(n); err != nil {
			return err
		}
	}
}

// next reads a row of bounded length.
func (i *importCSV) next() ([]string, error) {
	i.limit.left = maxLine
	return i.rows.Read()
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
		i.labels = append(i.labels, csvLabel{n, name})
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
	t, err := i.parseTime(row[i.time])
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

// cell appends one sample.
func (i *importCSV) cell(n int, row []string, t int64, text string) error {
	i.text = append(i.text[:0], text...)
	v, err := parseValue(i.text)
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
	return i.sink.append(one, t, v)
}

// seriesKey is a text that no other series of the table has.
func (i *importCSV) seriesKey(value int, row []string) []byte {
	i.key = strconv.AppendInt(i.key[:0], int64(value), 10)
	for _, l := range i.labels {
		i.key = strconv.AppendInt(append(i.key, ' '), int64(len(row[l.column])), 10)
		i.key = append(append(i.key, ' '), row[l.column]...)
	}
	return i.key
}

// parseTime reads a time as the flags say. A time without a zone is UTC.
func (i *importCSV) parseTime(text string) (int64, error) {
	switch i.flags.timeFormat {
	case timeUnix:
		return parseSeconds([]byte(text))
	case timeUnixMS:
		return parseMilliseconds([]byte(text))
	case timeUnixUS:
		return parseUnits(text, "microseconds", time.Millisecond/time.Microsecond)
	case timeUnixNS:
		return parseUnits(text, "nanoseconds", time.Millisecond/time.Nanosecond)
	case timeAuto:
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t.UnixMilli(), nil
		}
		if t, err := parseSeconds([]byte(text)); err == nil {
			return t, nil
		}
		return 0, errors.Errorf("the time is neither RFC 3339 nor a number of seconds: %s (--time-format tells how to read it)", quoted(text))
	default:
		t, err := time.Parse(i.flags.timeFormat, text)
		if err != nil {
			return 0, errors.Errorf("the time is not as --time-format says: %s", quoted(text))
		}
		return t.UnixMilli(), nil
	}
}

// parseUnits reads a whole number of units, of which so many make a millisecond, and
// rounds down.
func parseUnits(text, units string, perMillisecond time.Duration) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.Errorf("the time is no whole number of %s: %s", units, quoted(text))
	}
	per := int64(perMillisecond)
	t := n / per
	if n%per < 0 {
		t--
	}
	return t, nil
}

// rowLimit keeps a row with a quote that is never closed from being read to the end of
// the file into memory.
type rowLimit struct {
	r    io.Reader
	left int
}

func (l *rowLimit) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.Errorf("a row is longer than %s bytes: is a quote not closed?", count(maxLine))
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
