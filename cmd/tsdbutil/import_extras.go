package main

import (
	"bytes"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// importExtras takes what OpenMetrics has beside samples. Blocks have no place for it: unless it
// goes into a head (import_head.go) it is only counted.
type importExtras interface {
	// exemplar takes one that stands behind a sample of a series.
	exemplar(ls labels.Labels, e exemplar.Exemplar) error
	// metadata takes what is known about a series, before its first sample.
	metadata(ls labels.Labels, f family) error
}

// family is what comments say about a metric.
type family struct {
	name, kind, unit, help string // kind is that of # TYPE, in the letters of the input
}

// suffixes are what the names of a family's series may end with.
var suffixes = []string{"", "_total", "_created", "_bucket", "_count", "_sum", "_gcount", "_gsum", "_info"}

// has says whether a series with this name is of the family.
func (f *family) has(name string) bool {
	rest, ok := strings.CutPrefix(name, f.name)
	if !ok || f.name == "" {
		return false
	}
	for _, suffix := range suffixes {
		if rest == suffix {
			return true
		}
	}
	return false
}

// gauges says whether histograms of the family go up and down.
func (f *family) gauges() bool { return f.kind == "gaugehistogram" }

// comment takes # TYPE, # UNIT and # HELP; any other one says nothing, and is not taken.
func (f *family) comment(line []byte) (taken bool) {
	rest, ok := bytes.CutPrefix(line, []byte("#"))
	if !ok {
		return false
	}
	key, rest := token(rest)
	switch string(key) {
	case "TYPE", "UNIT", "HELP":
	default:
		return false
	}
	name, rest := familyName(bytes.TrimLeft(rest, " \t"))
	if name == "" {
		return false
	}
	if name != f.name {
		*f = family{name: name}
	}
	text := string(bytes.Trim(rest, " \t"))
	switch key[0] {
	case 'T':
		f.kind = text
	case 'U':
		f.unit = text
	default:
		f.help = helpEscapes.Replace(text)
	}
	return true
}

var helpEscapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`)

// familyName takes a name, with or without quotes, off a text.
func familyName(text []byte) (name string, rest []byte) {
	if p := (seriesParser{rest: string(text)}); len(text) > 0 && text[0] == '"' {
		name, err := p.quoted()
		if err != nil {
			return "", nil
		}
		return name, []byte(p.rest)
	}
	word, rest := token(text)
	return string(word), rest
}

// parseExemplars reads what stands behind a sample: # {labels} value time, any number of times. The
// time, in seconds, may be missing.
func parseExemplars(text []byte, each func(exemplar.Exemplar) error) error {
	for len(text) > 0 {
		mark, rest := token(text)
		if string(mark) != "#" {
			return errors.Errorf("want an exemplar behind #, there is %s", quoted(text))
		}
		rest = bytes.TrimLeft(rest, " \t")
		e, rest, err := parseExemplar(rest)
		if err == nil {
			err = each(e)
		}
		if err != nil {
			return errors.WithMessage(err, "exemplar")
		}
		text = bytes.TrimLeft(rest, " \t")
	}
	return nil
}

// countExemplars counts what stands behind a sample, without a look at whether it makes sense.
func countExemplars(text []byte) (n int64) {
	for next := 0; next >= 0; next = bytes.IndexByte(text, '#') {
		n++
		text = text[next+1:] // behind the #
		end, err := seriesEnd(text)
		if err != nil {
			return n
		}
		text = text[end:]
	}
	return n
}

func parseExemplar(text []byte) (e exemplar.Exemplar, rest []byte, err error) {
	end, err := seriesEnd(text)
	if err != nil {
		return e, nil, err
	}
	if ls := bytes.TrimSpace(text[:end]); len(ls) == 0 || ls[0] != '{' {
		return e, nil, errors.New("there are no labels")
	} else if string(ls) != "{}" {
		var b labels.Builder
		if err := parseSeries(ls, false, &b); err != nil {
			return e, nil, err
		}
		e.Labels = b.Labels()
	}
	value, rest := token(text[end:])
	if e.Value, err = parseValue(value); err != nil {
		return e, nil, err
	}
	at, behind := token(rest)
	if len(at) == 0 || at[0] == '#' {
		return e, rest, nil
	}
	e.T, err = parseSeconds(at)
	e.HasT = err == nil
	return e, behind, err
}
