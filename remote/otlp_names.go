package remote

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed347100a3/tsdb"
)

// Names of series by the rules of the OpenTelemetry specification for Prometheus
// (opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics), as Prometheus 3.15
// applies them.

// otlpUnits are the words for units in front of a slash; others are their own word.
var otlpUnits = map[string]string{
	"d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
	"By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes", "GiBy": "gibibytes", "TiBy": "tibibytes",
	"KBy": "kilobytes", "MBy": "megabytes", "GBy": "gigabytes", "TBy": "terabytes",
	"m": "meters", "V": "volts", "A": "amperes", "J": "joules", "W": "watts", "g": "grams",
	"Cel": "celsius", "Hz": "hertz", "1": "", "%": "percent",
}

// otlpPerUnits are those behind it.
var otlpPerUnits = map[string]string{"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}

// otlpUnit returns the words for a unit: of what is counted, and per what; empty: nothing.
func otlpUnit(unit string) (of, per string) {
	of, per, divided := strings.Cut(unit, "/")
	of = unitWord(of, otlpUnits)
	if divided {
		if per = unitWord(per, otlpPerUnits); per != "" {
			per = "per_" + per
		}
	}
	return of, per
}

func unitWord(unit string, words map[string]string) string {
	unit = strings.TrimSpace(unit)
	if strings.ContainsAny(unit, "{}") {
		return "" // a remark
	}
	if word, ok := words[unit]; ok {
		return word
	}
	return unit
}

// escapedUnit is otlpUnit in letters and digits.
func escapedUnit(unit string) (of, per string) {
	of, per = otlpUnit(unit)
	return strings.Join(nameWords(of, false), "_"), strings.Join(nameWords(per, false), "_")
}

// unitName is the unit of metadata.
func unitName(unit string) string {
	of, per := otlpUnit(unit)
	if of != "" && per != "" {
		of += "_"
	}
	return of + per
}

// otlpMetric is what a name is made of.
type otlpMetric struct {
	name, unit string
	typ        tsdb.MetricType
}

// metricName returns the name of the series of a metric; empty: there is none.
func (n OTLPNames) metricName(m otlpMetric) string {
	switch n {
	case OTLPUnderscores:
		return underscored(m)
	case OTLPUTF8:
		return suffixed(m)
	case OTLPUnderscoresOnly:
		name := strings.Join(strings.FieldsFunc(m.name, func(r rune) bool {
			return r >= utf8.RuneSelf || !isWord(byte(r)) && r != ':'
		}), "_")
		return digitBehind("_", name)
	default:
		return m.name
	}
}

// underscored makes a name of words, and of those of its unit and kind that it does not have.
func underscored(m otlpMetric) string {
	words := nameWords(m.name, true)
	of, per := escapedUnit(m.unit)
	if of != "" && !slices.Contains(words, of) {
		words = append(words, of)
	}
	if per != "" {
		words = append(words, per)
	}
	if last := kindWord(m); last != "" {
		words = append(slices.DeleteFunc(words, func(w string) bool { return w == last }), last)
	}
	return digitBehind("_", strings.Join(words, "_"))
}

// suffixed appends what the name does not end with.
func suffixed(m otlpMetric) string {
	name := m.name
	of, per := otlpUnit(m.unit)
	last := kindWord(m)
	for _, end := range []string{last, per} { // they come last, whatever is in front of them
		if end != "" {
			name = withoutEnd(name, end)
		}
	}
	if of != "" && !strings.HasSuffix(name, of) {
		name += "_" + of
	}
	for _, end := range []string{per, last} {
		if end != "" {
			name += "_" + end
		}
	}
	return name
}

// withoutEnd takes a word, and what is between it and the rest, from the end of a name.
func withoutEnd(name, end string) string {
	rest, ok := strings.CutSuffix(name, end)
	if !ok || rest == "" {
		return name
	}
	return rest[:len(rest)-1]
}

// kindWord is how names of a kind end.
func kindWord(m otlpMetric) string {
	switch {
	case m.typ == tsdb.MetricCounter:
		return "total"
	case m.typ == tsdb.MetricGauge && m.unit == "1":
		return "ratio"
	default:
		return ""
	}
}

// nameWords are the runs of letters and digits of a name; colons count as letters where they may.
func nameWords(name string, colons bool) []string {
	return strings.FieldsFunc(name, func(r rune) bool {
		return r >= utf8.RuneSelf || r == '_' || !isWord(byte(r)) && !(colons && r == ':')
	})
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// digitBehind puts something in front of a name that begins with a digit.
func digitBehind(front, name string) string {
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return front + name
	}
	return name
}

// appendLabelName appends the name of the label of an attribute.
func (n OTLPNames) appendLabelName(dst, name []byte) []byte {
	if !n.escapes() {
		return append(dst, name...)
	}
	switch {
	case len(name) > 0 && name[0] >= '0' && name[0] <= '9':
		dst = append(dst, "key_"...)
	case len(name) > 0 && (name[0] >= utf8.RuneSelf || !isWord(name[0]) || name[0] == '_') && !bytes.HasPrefix(name, []byte("__")):
		dst = append(dst, "key"...) // those that begin with _ are for the database
	}
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if !isWord(c) {
				c = '_'
			}
			dst = append(dst, c)
			i++
			continue
		}
		_, size := utf8.DecodeRune(name[i:])
		dst = append(dst, '_')
		i += size
	}
	return dst
}

// otlpNameCache has names that were made, so that known metrics take no memory. The zero value is
// empty.
type otlpNameCache struct {
	known map[string]otlpNamed
	key   []byte
}

// otlpNamed is what is made of a metric.
type otlpNamed struct{ name, unit string }

const (
	// maxOTLPNames is how many names are kept; one more, and all are made again.
	maxOTLPNames = 1 << 12
	longOTLPName = 256 // bytes with its unit: longer ones are not kept
)

// of returns the name and the unit of a metric. ratio says that one without a unit may be one.
func (c *otlpNameCache) of(n OTLPNames, name, unit []byte, typ tsdb.MetricType, ratio bool) otlpNamed {
	c.key = append(append(append(c.key[:0], name...), 0), unit...)
	c.key = append(c.key, byte(typ))
	if ratio {
		c.key = append(c.key, 1)
	}
	if made, ok := c.known[string(c.key)]; ok {
		return made
	}
	m := otlpMetric{string(name), string(unit), typ}
	if m.unit == "1" && !ratio {
		m.unit = ""
	}
	made := otlpNamed{n.metricName(m), unitName(string(unit))}
	if len(c.key) > longOTLPName {
		return made
	}
	if c.known == nil || len(c.known) >= maxOTLPNames {
		c.known = map[string]otlpNamed{}
	}
	c.known[string(c.key)] = made
	return made
}
