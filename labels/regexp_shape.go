package labels

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxProduct bounds how many alternatives come of parts that follow each other,
	// as in [12][ab], of one character class, and of one text in any case.
	maxProduct = 256

	// maxAlternatives bounds all alternatives. A list of values within
	// MaxRegexpBytes stays below it; sums of products may not.
	maxAlternatives = MaxRegexpBytes / 2

	// analysisBudget bounds the bytes that the analysis of one expression copies. It
	// is spent by long chains of tiny parts such as (a?){1000} only; a{1000} takes
	// half of it.
	analysisBudget = 1 << 20

	// pieceBytes is about what a piece takes in memory, its glob included.
	pieceBytes = 64
)

// shape is what an expression looks like without its finer points: alternatives of
// which each matching value fits at least one. If it is exact the converse holds
// too, and the expression need not be run.
type shape struct {
	globs []glob
	exact bool
}

// analyser derives the shape of a simplified syntax tree.
type analyser struct {
	budget int
}

func analyse(re *syntax.Regexp) shape {
	a := &analyser{budget: analysisBudget}
	return a.shape(re, true, true)
}

// shape returns the shape of a node. atStart and atEnd say that the node touches the
// start or the end of the value, so that an anchor there says nothing new.
func (a *analyser) shape(re *syntax.Regexp, atStart, atEnd bool) shape {
	switch re.Op {
	case syntax.OpNoMatch:
		return shape{exact: true}
	case syntax.OpEmptyMatch:
		return one(true)
	case syntax.OpBeginText, syntax.OpBeginLine:
		return one(atStart)
	case syntax.OpEndText, syntax.OpEndLine:
		return one(atEnd)
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return one(false)
	case syntax.OpLiteral:
		return a.literal(re)
	case syntax.OpCharClass:
		return a.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return anything(1, false)
	case syntax.OpStar:
		return anything(0, re.Sub[0].Op == syntax.OpAnyChar)
	case syntax.OpPlus:
		return a.plus(re.Sub[0])
	case syntax.OpQuest:
		return a.union(one(true), a.shape(re.Sub[0], atStart, atEnd))
	case syntax.OpCapture:
		return a.shape(re.Sub[0], atStart, atEnd)
	case syntax.OpConcat:
		return a.concat(re.Sub, atStart, atEnd)
	case syntax.OpAlternate:
		return a.alternate(re.Sub, atStart, atEnd)
	default: // repetitions are gone after Simplify
		return anything(0, false)
	}
}

// one is the shape of a single alternative of these pieces.
func one(exact bool, pieces ...piece) shape {
	return shape{globs: []glob{pieces}, exact: exact}
}

// anything is the shape of at least n characters.
func anything(n int, exact bool) shape { return one(exact, piece{gap: n}) }

func (a *analyser) literal(re *syntax.Regexp) shape {
	fold := false
	for _, c := range re.Rune {
		if !isPlain(c) {
			return anything(len(re.Rune), false)
		}
		fold = fold || re.Flags&syntax.FoldCase != 0 && hasCase(c)
	}
	if len(re.Rune) == 0 {
		return one(true)
	}
	a.budget -= pieceBytes + len(re.Rune)
	return one(true, piece{gap: noGap, text: string(re.Rune), fold: fold})
}

// isPlain says whether a character matches exactly its own UTF-8. U+FFFD also
// matches any byte that is not UTF-8, a surrogate matches nothing.
func isPlain(c rune) bool { return c != utf8.RuneError && utf8.ValidRune(c) }

// class writes a small character class out. Ranges are pairs of closed bounds.
func (a *analyser) class(ranges []rune) shape {
	s := shape{exact: true}
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if int(hi-lo)+1 > maxProduct-len(s.globs) {
			return anything(1, false)
		}
		for c := lo; c <= hi; c++ {
			if !isPlain(c) {
				return anything(1, false)
			}
			s.globs = append(s.globs, glob{{gap: noGap, text: string(c)}})
		}
	}
	a.budget -= pieceBytes * len(s.globs)
	return s
}

// plus knows one repetition of the part; what follows is anything.
func (a *analyser) plus(sub *syntax.Regexp) shape {
	if sub.Op == syntax.OpAnyChar {
		return anything(1, true)
	}
	return a.product(a.shape(sub, false, false), anything(0, false))
}

func (a *analyser) concat(subs []*syntax.Regexp, atStart, atEnd bool) shape {
	lead, trail := 0, len(subs)
	for lead < len(subs) && isAnchor(subs[lead].Op) {
		lead++
	}
	for trail > 0 && isAnchor(subs[trail-1].Op) {
		trail--
	}
	s := one(true)
	for i, sub := range subs {
		if a.budget < 0 {
			return a.product(s, anything(0, false))
		}
		s = a.product(s, a.shape(sub, atStart && i <= lead, atEnd && i >= trail-1))
	}
	return s
}

// isAnchor says whether a node takes no characters because of where it stands.
func isAnchor(op syntax.Op) bool {
	switch op {
	case syntax.OpBeginText, syntax.OpBeginLine, syntax.OpEndText, syntax.OpEndLine:
		return true
	default:
		return false
	}
}

func (a *analyser) alternate(subs []*syntax.Regexp, atStart, atEnd bool) shape {
	s := shape{exact: true}
	for _, sub := range subs {
		if a.budget < 0 {
			return anything(0, false)
		}
		s = a.union(s, a.shape(sub, atStart, atEnd))
	}
	return s
}

func (a *analyser) union(x, y shape) shape {
	a.budget -= pieceBytes * len(y.globs)
	s := shape{globs: append(x.globs, y.globs...), exact: x.exact && y.exact}
	if len(s.globs) > maxAlternatives {
		return s.collapse()
	}
	return s
}

// product is x followed by y.
func (a *analyser) product(x, y shape) shape {
	n, m := len(x.globs), len(y.globs)
	if n == 0 || m == 0 {
		return shape{exact: true} // matches nothing
	}
	if n > 1 && m > 1 && n*m > maxProduct {
		y = y.collapse()
		m = 1
	}
	s := shape{globs: make([]glob, 0, n*m), exact: x.exact && y.exact}
	for _, gx := range x.globs {
		for j, gy := range y.globs {
			if a.budget < 0 {
				return anything(0, false)
			}
			left := gx
			if j < m-1 { // the last one may build on the original
				a.budget -= pieceBytes * len(gx)
				left = slices.Clone(gx)
			}
			joined, exact := a.join(left, gy)
			s.globs = append(s.globs, joined)
			s.exact = s.exact && exact
		}
	}
	return s
}

// join appends y to x, in place where there is room. It is exact unless it has to
// fold a text that was not to be folded.
func (a *analyser) join(x, y glob) (joined glob, exact bool) {
	a.budget -= pieceBytes * (1 + len(y))
	if len(x) == 0 {
		return slices.Clone(y), true
	}
	if len(y) == 0 {
		return x, true
	}
	exact = true
	last, first := &x[len(x)-1], y[0]
	switch {
	case last.text == "":
		last.gap += max(first.gap, 0)
		last.text, last.fold = first.text, first.fold
	case first.gap != noGap:
		x = append(x, first)
	default:
		exact = last.fold == first.fold || !first.fold && !anyCase(first.text) || !last.fold && !anyCase(last.text)
		last.text += first.text
		last.fold = last.fold || first.fold
		a.budget -= len(last.text)
	}
	return append(x, y[1:]...), exact
}

func anyCase(text string) bool { return strings.IndexFunc(text, hasCase) >= 0 }

// collapse forgets all but the common prefix.
func (s shape) collapse() shape {
	rest := piece{gap: 0}
	if prefix := s.prefix(); prefix != "" {
		return one(false, piece{gap: noGap, text: prefix}, rest)
	}
	return one(false, rest)
}

// prefix is what each value begins with.
func (s shape) prefix() string {
	if len(s.globs) == 0 {
		return ""
	}
	prefix := s.globs[0].prefix()
	for _, g := range s.globs[1:] {
		next, n := g.prefix(), 0
		for n < len(prefix) && n < len(next) && prefix[n] == next[n] {
			n++
		}
		prefix = prefix[:n]
	}
	return prefix
}

// split separates the finite alternatives, sorted and without duplicates, from the
// rest. A short text in any case is finite.
func (s shape) split() (values []string, rest []glob) {
	for _, g := range s.globs {
		switch {
		case !g.isFinite():
			rest = append(rest, g)
		case len(g) == 0:
			values = append(values, "")
		case !g[0].fold:
			values = append(values, g[0].text)
		default:
			if countVariants(g[0].text) > min(maxProduct, maxAlternatives-len(values)) {
				rest = append(rest, g)
				continue
			}
			values = append(values, foldVariants(g[0].text)...)
		}
	}
	slices.Sort(values)
	return slices.Compact(values), rest
}

// countVariants counts the ways to write a text in upper and lower case, up to
// somewhat more than maxProduct.
func countVariants(text string) int {
	n := 1
	for _, c := range text {
		if n > maxProduct {
			break
		}
		n *= len(foldOrbit(c))
	}
	return n
}

func foldVariants(text string) []string {
	variants := []string{""}
	for _, c := range text {
		orbit := foldOrbit(c)
		next := make([]string, 0, len(variants)*len(orbit))
		for _, v := range variants {
			for _, f := range orbit {
				next = append(next, v+string(f))
			}
		}
		variants = next
	}
	return variants
}

// foldOrbit lists the characters that equal c in any case, c among them.
func foldOrbit(c rune) []rune {
	orbit := []rune{c}
	for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
		orbit = append(orbit, f)
	}
	return orbit
}
