package main

import (
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// parseSeries reads a name with labels as a text format writes them, and adds them to b:
//
//	name   name{label="value",...}   {"any name",label="value","any label"="value"}
//
// The name may also be the label __name__, and there may be none, as long as there is a
// label. Values have \\, \" and \n for what they stand for. With dumped, a text of the form
// that "dump" writes has the escapes of the Go language.
func parseSeries(text []byte, dumped bool, b *labels.Builder) error {
	p := seriesParser{rest: strings.TrimLeft(string(text), " \t"), b: b, seen: map[string]bool{}}
	p.dumped = dumped && isDumped(p.rest)
	if name := p.identifier(true); name != "" {
		if err := p.set(labels.MetricName, name); err != nil {
			return err
		}
	}
	p.blanks()
	if p.rest == "" {
		return p.end()
	}
	if !p.take('{') {
		return errors.Errorf("the name of the metric is not valid: %s", quoted(text))
	}
	for p.blanks(); !p.take('}'); p.blanks() {
		if err := p.label(); err != nil {
			return err
		}
		p.blanks()
		if !p.take(',') && !strings.HasPrefix(p.rest, "}") {
			return errors.Errorf("want a comma or a brace behind a label, there is %s", quoted(p.rest))
		}
	}
	if p.blanks(); p.rest != "" {
		return errors.Errorf("something follows the labels: %s", quoted(p.rest))
	}
	return p.end()
}

// isDumped says whether a series is written as "dump" does: a brace, and then no name of a
// metric in quotes, as it stands in the text formats.
func isDumped(text string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t"), "{")
	if rest = strings.TrimLeft(rest, " \t"); !ok || !strings.HasPrefix(rest, `"`) {
		return ok
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return strings.HasPrefix(strings.TrimLeft(rest[i+1:], " \t"), "=")
		}
	}
	return false
}

type seriesParser struct {
	rest string
	b    *labels.Builder
	seen map[string]bool

	dumped bool // quotes are those of the Go language
}

func (p *seriesParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *seriesParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// identifier takes the longest plain name there is, which may be none. Names of metrics may have
// colons.
func (p *seriesParser) identifier(colons bool) string {
	n := 0
	for ; n < len(p.rest); n++ {
		c := p.rest[n]
		if c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == ':' && colons || c >= '0' && c <= '9' && n > 0 {
			continue
		}
		break
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name
}

// label takes name="value", or "name", which is that of the metric.
func (p *seriesParser) label() error {
	name, quotes := "", strings.HasPrefix(p.rest, `"`)
	if quotes {
		var err error
		if name, err = p.quoted(); err != nil {
			return err
		}
	} else if name = p.identifier(false); name == "" {
		return errors.Errorf("the name of a label is not valid: %s", quoted(p.rest))
	}
	p.blanks()
	if !p.take('=') {
		if quotes {
			return p.set(labels.MetricName, name)
		}
		return errors.Errorf("label %s has no value", quoted(name))
	}
	p.blanks()
	value, err := p.quoted()
	if err != nil {
		return errors.WithMessagef(err, "label %s", quoted(name))
	}
	return p.set(name, value)
}

// quoted takes a text in quotes and resolves its escapes.
func (p *seriesParser) quoted() (string, error) {
	if !p.take('"') {
		return "", errors.Errorf("want a text in quotes, there is %s", quoted(p.rest))
	}
	plain := strings.IndexAny(p.rest, `"\`)
	if plain >= 0 && p.rest[plain] == '"' {
		text := p.rest[:plain]
		p.rest = p.rest[plain+1:]
		return text, nil
	}
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return b.String(), nil
		case c != '\\':
			b.WriteByte(c)
		case p.dumped:
			r, multibyte, tail, err := strconv.UnquoteChar(`\`+p.rest, '"')
			if err != nil {
				return "", errors.Errorf("an escape is not valid: %s", quoted(`\`+p.rest))
			}
			if p.rest = tail; multibyte {
				b.WriteRune(r)
			} else {
				b.WriteByte(byte(r))
			}
		default:
			if err := unescape(&b, p.rest); err != nil {
				return "", err
			}
			p.rest = p.rest[1:]
		}
	}
	return "", errors.New("a quote is not closed")
}

// unescape writes what the letter behind a backslash stands for.
func unescape(b *strings.Builder, rest string) error {
	switch {
	case rest == "":
		return errors.New("a quote is not closed")
	case rest[0] == 'n':
		b.WriteByte('\n')
	case rest[0] == '"', rest[0] == '\\':
		b.WriteByte(rest[0])
	default: // kept as it is, as other readers do
		b.WriteByte('\\')
		b.WriteByte(rest[0])
	}
	return nil
}

func (p *seriesParser) set(name, value string) error {
	if p.seen[name] {
		return errors.Errorf("label %s appears more than once", quoted(name))
	}
	p.seen[name] = true
	p.b.Set(name, value) // an empty value means that there is no such label
	return nil
}

func (p *seriesParser) end() error {
	if p.b.Labels().IsEmpty() {
		return errors.New("there is neither a name of a metric nor a label")
	}
	return nil
}
