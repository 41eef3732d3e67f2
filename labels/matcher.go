package labels

import (
	"strconv"

	"github.com/pkg/errors"
)

// MatchType is how a matcher compares.
type MatchType int

// The match types; their text is the operator of a selector.
const (
	MatchEqual     MatchType = iota // =
	MatchNotEqual                   // !=
	MatchRegexp                     // =~
	MatchNotRegexp                  // !~
)

// String returns the operator: =, !=, =~ or !~.
func (t MatchType) String() string {
	switch t {
	case MatchEqual:
		return "="
	case MatchNotEqual:
		return "!="
	case MatchRegexp:
		return "=~"
	case MatchNotRegexp:
		return "!~"
	default:
		return "MatchType(" + strconv.Itoa(int(t)) + ")"
	}
}

// Matcher is a predicate on one label of a series. A series without that label has
// the empty value. A Matcher is immutable and safe for concurrent use; make one with
// Equal, NotEqual, Regexp, NotRegexp, NewMatcher or ParseSelector.
type Matcher struct {
	name, value  string
	typ          MatchType
	matchesEmpty bool
	re           *pattern // nil unless typ is MatchRegexp or MatchNotRegexp
}

// Equal matches series whose label has exactly this value. The empty value matches
// series without the label.
func Equal(name, value string) *Matcher {
	return &Matcher{name: name, value: value, typ: MatchEqual, matchesEmpty: value == ""}
}

// NotEqual matches series whose label has another value, or that lack the label.
// The empty value matches series that have the label.
func NotEqual(name, value string) *Matcher {
	return &Matcher{name: name, value: value, typ: MatchNotEqual, matchesEmpty: value != ""}
}

// Regexp matches series whose whole value matches an expression in the syntax of
// the standard library (RE2). It is anchored at both ends and the dot also matches
// a line feed, as in Prometheus 3. The error is ErrSyntax or ErrLimit.
func Regexp(name, expr string) (*Matcher, error) { return newRegexp(MatchRegexp, name, expr) }

// NotRegexp matches the series that Regexp does not match.
func NotRegexp(name, expr string) (*Matcher, error) { return newRegexp(MatchNotRegexp, name, expr) }

// NewMatcher makes a matcher of a type that is known only at run time. The error is
// ErrSyntax or ErrLimit.
func NewMatcher(typ MatchType, name, value string) (*Matcher, error) {
	switch typ {
	case MatchEqual:
		return Equal(name, value), nil
	case MatchNotEqual:
		return NotEqual(name, value), nil
	case MatchRegexp, MatchNotRegexp:
		return newRegexp(typ, name, value)
	default:
		return nil, errors.WithMessagef(ErrSyntax, "unknown match type %d", int(typ))
	}
}

func newRegexp(typ MatchType, name, expr string) (*Matcher, error) {
	re, err := compilePattern(expr)
	if err != nil {
		return nil, err
	}
	m := &Matcher{name: name, value: expr, typ: typ, re: re}
	m.matchesEmpty = m.Matches("")
	return m, nil
}

// Name is the label that is looked at.
func (m *Matcher) Name() string { return m.name }

// Value is the value or the expression that the matcher was made with.
func (m *Matcher) Value() string { return m.value }

// Type is how the matcher compares.
func (m *Matcher) Type() MatchType { return m.typ }

// Matches says whether a series with this value of the label is chosen; "" stands
// for a series without the label. It allocates nothing unless an expression has to
// be run.
func (m *Matcher) Matches(value string) bool {
	switch m.typ {
	case MatchEqual:
		return value == m.value
	case MatchNotEqual:
		return value != m.value
	case MatchRegexp:
		return m.re.match(value)
	default:
		return !m.re.match(value)
	}
}

// MatchesEmpty says whether series without the label are chosen.
func (m *Matcher) MatchesEmpty() bool { return m.matchesEmpty }

// SetMatches returns the finite set of values that the right side stands for,
// sorted: the value of Equal and NotEqual, or what the expression of Regexp and
// NotRegexp can match. Equal and Regexp choose these values, NotEqual and NotRegexp
// refuse them; in both cases nothing else. It is nil when there is no such set or it
// is too large to list. The caller must not change it.
func (m *Matcher) SetMatches() []string {
	if m.re == nil {
		return []string{m.value}
	}
	return m.re.set()
}

// Prefix returns the bytes that each value begins with which the right side stands
// for (chosen by Equal and Regexp, refused by NotEqual and NotRegexp). It may end
// inside a character and may be empty.
func (m *Matcher) Prefix() string {
	if m.re == nil {
		return m.value
	}
	return m.re.prefix
}

// String writes the matcher as it stands in a selector: name=~"value".
func (m *Matcher) String() string { return string(m.appendTo(nil)) }

func (m *Matcher) appendTo(b []byte) []byte {
	b = appendName(b, m.name)
	b = append(b, m.typ.String()...)
	return strconv.AppendQuote(b, m.value)
}
