package labels

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
)

const (
	// MaxRegexpBytes bounds the text of a regular expression, but for plain lists.
	MaxRegexpBytes = 4 << 10

	// MaxListBytes bounds a plain list: values with | between them, whatever is special in them
	// behind a backslash, and maybe brackets around all of it. Dashboards write such lists.
	MaxListBytes = 128 << 10

	// MaxRegexpInstructions bounds the compiled expression. Running one takes time
	// in proportion to it for each byte of each value, and (a{500}){2} is short.
	MaxRegexpInstructions = 10_000
)

// What the parser may spend on character classes. It copies a table for each Unicode
// class such as \pL, and under (?i) it looks at each character of a range: without
// this bound 4 KiB of text take it more than a second, or 50 MB.
const (
	// maxParseCost is counted in characters of folded ranges, 20 ns each.
	maxParseCost = 1 << 18
	// lastCased is close above the last character that has a case.
	lastCased = 0x1ea00
	// unicodeClassCost is what a Unicode class counts, 10 to 30 us and 12 to 30 KB.
	unicodeClassCost = 1 << 12
)

// mapAt is the size of a set from which a hash table answers before a scan does
// (BenchmarkMatches, set of 8 and of 16: 16 ns and, by scan, 30; by table always 27).
const mapAt = 12

// pattern is an anchored regular expression. What can be answered by comparing
// strings is: the expression is only run on values that fit an inexact alternative
// of its shape.
type pattern struct {
	prefix  string
	suffix  string              // what each value ends with; most values are refused by it
	values  []string            // sorted: the single values among the alternatives
	table   map[string]struct{} // the same, if there are many
	exact   shape               // other alternatives whose values match
	inexact shape               // those whose values re has to look at
	re      matchString         // a regexp.Regexp, nil if there are none
}

// matchString keeps package regexp out of programs that make no such matcher: it would be
// 60 kB of them.
type matchString interface{ MatchString(v string) bool }

// compilePattern refuses what is too large before it does any work on it. The
// limits are checked on the text, by the parser (nesting and character tables), and
// on the parsed tree before repetitions are written out.
func compilePattern(expr string) (*pattern, error) {
	if len(expr) > MaxRegexpBytes {
		if values, ok := plainList(expr); ok {
			return patternOf(values), nil
		}
		return nil, errors.WithMessagef(ErrLimit, "regular expression of %d bytes, at most %d are read", len(expr), MaxRegexpBytes)
	}
	if parseCost(expr) > maxParseCost {
		return nil, errors.WithMessagef(ErrLimit, "regular expression %q has too many large character classes", expr)
	}
	tree, err := parseRegexp(expr)
	if err != nil {
		return nil, err
	}
	if countInstructions(tree) > MaxRegexpInstructions {
		return nil, errors.WithMessagef(ErrLimit, "regular expression %q needs more than %d instructions", expr, MaxRegexpInstructions)
	}
	s := analyse(tree.Simplify())
	values, exact, inexact := s.split()
	p := patternOf(values)
	p.prefix, p.suffix, p.exact, p.inexact = s.prefix(), s.suffix(), exact, inexact
	if p.inexact == nil {
		return p, nil
	}
	if p.re, err = regexp.Compile(anchored(expr)); err != nil {
		return nil, regexpError(expr, err)
	}
	return p, nil
}

// patternOf returns what matches one of some values, which are sorted.
func patternOf(values []string) *pattern {
	p := &pattern{values: values}
	if len(values) >= mapAt {
		p.table = make(map[string]struct{}, len(values))
		for _, v := range values {
			p.table[v] = struct{}{}
		}
	}
	return p
}

// plainList returns the values of a plain list, sorted and each once; false: it is none.
func plainList(expr string) (values []string, ok bool) {
	if len(expr) > MaxListBytes || !utf8.ValidString(expr) {
		return nil, false
	}
	if inner, open := strings.CutPrefix(expr, "("); open {
		if expr, ok = strings.CutSuffix(inner, ")"); !ok {
			return nil, false
		}
	}
	var value []byte
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '|':
			values = append(values, string(value))
			value = value[:0]
		case c == '\\' && i+1 < len(expr) && isItself(expr[i+1]):
			i++
			value = append(value, expr[i])
		case strings.IndexByte(`\.+*?()[]{}^$`, c) >= 0:
			return nil, false
		default:
			value = append(value, c)
		}
	}
	values = append(values, string(value))
	slices.Sort(values)
	return slices.Compact(values), true
}

// isItself reports whether a byte behind a backslash is just that.
func isItself(c byte) bool {
	return c < utf8.RuneSelf && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z')
}

// anchored is the expression as the standard library has to run it.
func anchored(expr string) string { return "^(?s:" + expr + ")$" }

// parseCost is an upper bound of what the character classes of an expression cost to
// parse. It reads the text only, and takes what merely looks like a class for one.
func parseCost(expr string) int {
	cost := unicodeClassCost * (strings.Count(expr, `\p`) + strings.Count(expr, `\P`))
	if !setsFold(expr) {
		return cost
	}
	for rest := expr; ; {
		_, after, found := strings.Cut(rest, "-")
		if !found {
			return cost
		}
		cost += int(rangeEnd(after))
		rest = after
	}
}

// setsFold says whether a group of flags has an i.
func setsFold(expr string) bool {
	for rest := expr; ; {
		_, after, found := strings.Cut(rest, "(?")
		if !found {
			return false
		}
		flags := after[:len(after)-len(strings.TrimLeft(after, "imsU-"))]
		if strings.Contains(flags, "i") {
			return true
		}
		rest = after
	}
}

// rangeEnd returns the upper bound of a range, which follows its dash. Characters
// beyond the last one that has a case are not looked at by the parser.
func rangeEnd(s string) rune {
	c, _ := utf8.DecodeRuneInString(s)
	if hex, ok := strings.CutPrefix(s, `\x`); ok {
		c = 0xff
		if digits, _, ok := strings.Cut(hex, "}"); ok && strings.HasPrefix(digits, "{") {
			n, err := strconv.ParseInt(digits[1:], 16, 32)
			if err != nil {
				n = unicode.MaxRune
			}
			c = rune(n)
		}
	}
	return min(c, lastCased)
}

// parseRegexp parses the expression alone, so that "a)|(b" cannot close the group
// that anchors it. An open \Q must not swallow that group either.
func parseRegexp(expr string) (*syntax.Regexp, error) {
	tree, err := syntax.Parse(expr, syntax.Perl|syntax.DotNL)
	if err == nil && strings.Contains(expr, `\Q`) {
		_, err = syntax.Parse(anchored(expr), syntax.Perl)
	}
	if err != nil {
		return nil, regexpError(expr, err)
	}
	return tree, nil
}

// regexpError makes the parser's error one of ours.
func regexpError(expr string, err error) error {
	kind, reason := ErrSyntax, err.Error()
	var e *syntax.Error
	if errors.As(err, &e) {
		reason = fmt.Sprintf("%s at %q", e.Code, e.Expr)
		if e.Code == syntax.ErrLarge || e.Code == syntax.ErrNestingDepth {
			kind = ErrLimit
		}
	}
	return errors.WithMessagef(kind, "regular expression %q: %s", expr, reason)
}

// countInstructions is an upper bound of the length of the compiled program. Beyond
// the limit it only has to stay there, so that nested repetitions do not overflow.
func countInstructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(n+countInstructions(sub), MaxRegexpInstructions+1)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = max(len(re.Rune), 1)
	case syntax.OpConcat:
	case syntax.OpAlternate:
		n += len(re.Sub)
	case syntax.OpRepeat: // copies, each of the optional ones behind a branch
		n = n*max(re.Min, re.Max, 1) + max(re.Max-re.Min, 0) + 2
	case syntax.OpCapture, syntax.OpStar:
		n += 2
	default:
		n++
	}
	return min(n, MaxRegexpInstructions+1)
}

// match says whether the whole of v matches.
func (p *pattern) match(v string) bool {
	return strings.HasPrefix(v, p.prefix) && strings.HasSuffix(v, p.suffix) &&
		(p.hasValue(v) || p.exact.fits(v) || p.re != nil && p.inexact.fits(v) && p.re.MatchString(v))
}

func (p *pattern) hasValue(v string) bool {
	if p.table != nil {
		_, ok := p.table[v]
		return ok
	}
	for _, value := range p.values {
		if value == v {
			return true
		}
	}
	return false
}

// set returns all values that match, nil if they are not finitely many or none.
func (p *pattern) set() []string {
	if p.re != nil || len(p.exact) > 0 {
		return nil
	}
	return p.values
}
