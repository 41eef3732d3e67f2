package labels

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// MaxSelectorBytes bounds the text that ParseSelector reads: room for the longest
// regular expressions on sixteen labels.
const MaxSelectorBytes = 16 * MaxRegexpBytes

// ParseSelector reads a series selector in the syntax of PromQL:
//
//	up{job=~"a.*", "utf8.name"='x'}
//	{"metric.name", a!="b",}
//	{__name__="x"}
//
// Label names and metric names that are no identifiers are quoted. Strings stand in
// double or single quotes with the escapes of Go, or in back quotes without any.
// The metric name becomes the first matcher; it can be given once. {} has no
// matchers and selects everything. An error is a SelectorError that wraps ErrSyntax
// or ErrLimit; a selector over MaxSelectorBytes is ErrLimit.
func ParseSelector(s string) ([]*Matcher, error) {
	if len(s) > MaxSelectorBytes {
		return nil, errors.WithMessagef(ErrLimit, "selector of %d bytes, at most %d are read", len(s), MaxSelectorBytes)
	}
	p := &selectorParser{text: s}
	p.parse()
	if p.err != nil {
		return nil, p.err
	}
	return p.matchers, nil
}

// FormatSelector writes matchers so that ParseSelector reads them back in the same
// order. A metric name stands before the braces if it is the first matcher, an
// identifier, and the only matcher of that label.
func FormatSelector(ms []*Matcher) string {
	var b []byte
	if len(ms) > 0 && nameStandsAlone(ms) {
		b = append(b, ms[0].value...)
		ms = ms[1:]
		if len(ms) == 0 {
			return string(b)
		}
	}
	b = append(b, '{')
	for i, m := range ms {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = m.appendTo(b)
	}
	return string(append(b, '}'))
}

func nameStandsAlone(ms []*Matcher) bool {
	if ms[0].name != MetricName || ms[0].typ != MatchEqual || !isIdentifier(ms[0].value, true) {
		return false
	}
	for _, m := range ms[1:] {
		if m.name == MetricName {
			return false
		}
	}
	return true
}

// selectorParser reads from left to right and never back. After the first error all
// methods do nothing.
type selectorParser struct {
	text     string
	pos      int // bytes read
	matchers []*Matcher
	named    bool // a metric name was given outside of a matcher
	err      error
}

func (p *selectorParser) parse() {
	p.space()
	if c := p.peek(); c != '{' {
		name := p.identifier(true)
		if name == "" {
			p.failHere("want a metric name or '{'")
			return
		}
		p.metricName(p.pos-len(name), name)
		p.space()
	}
	if p.accept('{') {
		p.braces()
	}
	p.space()
	if p.err == nil && p.pos < len(p.text) {
		p.failHere("want the end")
	}
}

// braces reads matchers up to the closing brace. A comma may follow the last one.
func (p *selectorParser) braces() {
	for p.err == nil {
		p.space()
		if p.accept('}') {
			return
		}
		p.term()
		p.space()
		if p.err == nil && !p.accept(',') && p.peek() != '}' {
			p.failHere("want ',' or '}'")
		}
	}
}

// term reads one matcher, or a quoted metric name.
func (p *selectorParser) term() {
	start := p.pos
	var name string
	quoted := isQuote(p.peek())
	if quoted {
		name = p.quotedString()
	} else {
		name = p.identifier(false)
	}
	switch {
	case p.err != nil:
		return
	case name == "" && !quoted:
		p.failHere("want a label name or '}'")
		return
	case name == "":
		p.fail(start, "empty name", ErrSyntax)
		return
	case !utf8.ValidString(name):
		p.fail(start, "name is not UTF-8", ErrSyntax)
		return
	}
	p.space()
	if c := p.peek(); quoted && (c == ',' || c == '}') {
		p.metricName(start, name)
		return
	}
	p.matcher(start, name)
}

// matcher reads operator and value behind a label name.
func (p *selectorParser) matcher(start int, name string) {
	typ, ok := p.operator()
	if !ok {
		p.failHere("want one of = != =~ !~ after the label name")
		return
	}
	p.space()
	at := p.pos
	if !isQuote(p.peek()) {
		p.failHere("want a quoted value")
		return
	}
	value := p.quotedString()
	if p.err != nil {
		return
	}
	if p.named && name == MetricName {
		p.fail(start, "the metric name is set twice", ErrSyntax)
		return
	}
	m, err := NewMatcher(typ, name, value)
	if err != nil {
		p.fail(at, err.Error(), err)
		return
	}
	p.matchers = append(p.matchers, m)
}

// metricName takes a metric name that stands alone and puts its matcher first.
func (p *selectorParser) metricName(start int, name string) {
	for _, m := range p.matchers {
		if m.name == MetricName {
			p.fail(start, "the metric name is set twice", ErrSyntax)
			return
		}
	}
	p.named = true
	p.matchers = append([]*Matcher{Equal(MetricName, name)}, p.matchers...)
}

func (p *selectorParser) operator() (MatchType, bool) {
	switch {
	case p.acceptText("=~"):
		return MatchRegexp, true
	case p.acceptText("!~"):
		return MatchNotRegexp, true
	case p.acceptText("!="):
		return MatchNotEqual, true
	default:
		return MatchEqual, p.accept('=')
	}
}

func (p *selectorParser) identifier(colon bool) string {
	start := p.pos
	for p.pos < len(p.text) && isIdentifierByte(p.text[p.pos], colon) {
		p.pos++
	}
	if start < p.pos && p.text[start] >= '0' && p.text[start] <= '9' {
		p.fail(start, "a name cannot begin with a digit, quote it", ErrSyntax)
		return ""
	}
	return p.text[start:p.pos]
}

// quotedString reads the string that begins at pos with its quote.
func (p *selectorParser) quotedString() string {
	start, quote := p.pos, p.text[p.pos]
	p.pos++
	if quote == '`' {
		return p.rawString(start)
	}
	var b strings.Builder
	for p.pos < len(p.text) && p.text[p.pos] != '\n' {
		if p.text[p.pos] == quote {
			p.pos++
			return b.String()
		}
		c, multibyte, tail, err := strconv.UnquoteChar(p.text[p.pos:], quote)
		if err != nil {
			p.fail(p.pos, "unknown escape in a string", ErrSyntax)
			return ""
		}
		if c == utf8.RuneError && p.text[p.pos] >= utf8.RuneSelf && p.invalidHere() {
			return ""
		}
		if multibyte {
			b.WriteRune(c)
		} else {
			b.WriteByte(byte(c))
		}
		p.pos = len(p.text) - len(tail)
	}
	p.fail(start, "the string does not end", ErrSyntax)
	return ""
}

// rawString reads the string in back quotes whose first quote is read.
func (p *selectorParser) rawString(start int) string {
	body, _, ok := strings.Cut(p.text[p.pos:], "`")
	if !ok {
		p.fail(start, "the string does not end", ErrSyntax)
		return ""
	}
	for i := range body {
		p.pos = start + 1 + i
		if body[i] >= utf8.RuneSelf && p.invalidHere() {
			return ""
		}
	}
	p.pos = start + 1 + len(body) + 1
	return body
}

// invalidHere fails if the text at pos is not UTF-8. The escape \xff still makes
// any byte.
func (p *selectorParser) invalidHere() bool {
	if c, size := utf8.DecodeRuneInString(p.text[p.pos:]); c != utf8.RuneError || size > 1 {
		return false
	}
	p.fail(p.pos, "not UTF-8", ErrSyntax)
	return true
}

func (p *selectorParser) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// peek returns the next byte, or 0 at the end.
func (p *selectorParser) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *selectorParser) accept(c byte) bool {
	if p.err != nil || p.pos >= len(p.text) || p.text[p.pos] != c {
		return false
	}
	p.pos++
	return true
}

func (p *selectorParser) acceptText(s string) bool {
	if !strings.HasPrefix(p.text[p.pos:], s) {
		return false
	}
	p.pos += len(s)
	return true
}

// failHere reports what stands at pos instead of what was wanted.
func (p *selectorParser) failHere(want string) {
	if p.pos >= len(p.text) {
		p.fail(p.pos, want+", found the end", ErrSyntax)
		return
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	p.fail(p.pos, fmt.Sprintf("%s, found %q", want, c), ErrSyntax)
}

// fail keeps the first error only.
func (p *selectorParser) fail(pos int, reason string, err error) {
	if p.err == nil {
		column := utf8.RuneCountInString(p.text[:pos]) + 1
		p.err = &SelectorError{Column: column, Reason: reason, Err: err}
	}
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
