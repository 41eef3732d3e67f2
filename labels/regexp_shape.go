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

	// partBytes is about what a part takes in memory, its glob included.
	partBytes = 64

	// maxInexact bounds the alternatives that are tried before the expression is run;
	// more of them cost more than they save.
	maxInexact = 8
)

// shape is what an expression looks like without its finer points: alternatives of
// which each matching value fits at least one. What fits an exact one matches, so
// the expression need not be run for it.
type shape []glob

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
		return nil
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

// one is the shape of a single alternative of these parts.
func one(exact bool, parts ...part) shape {
	return shape{{parts: parts, exact: exact}}
}

// anything is the shape of at least n characters.
func anything(n int, exact bool) shape { return one(exact, part{gap: n}) }

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
	a.budget -= partBytes + len(re.Rune)
	return one(true, part{gap: noGap, text: string(re.Rune), fold: fold})
}

// isPlain says whether a character matches exactly its own UTF-8. U+FFFD also
// matches any byte that is not UTF-8, a surrogate matches nothing.
func isPlain(c rune) bool { return c != utf8.RuneError && utf8.ValidRune(c) }

// class writes a small character class out. Ranges are pairs of closed bounds.
func (a *analyser) class(ranges []rune) shape {
	var s shape
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if int(hi-lo)+1 > maxProduct-len(s) {
			return anything(1, false)
		}
		for c := lo; c <= hi; c++ {
			if !isPlain(c) {
				return anything(1, false)
			}
			s = append(s, glob{parts: []part{{gap: noGap, text: string(c)}}, exact: true})
		}
	}
	a.budget -= partBytes * len(s)
	return s
}

// plus knows one repetition of the part, if there is one way to write it; what
// follows is anything.
func (a *analyser) plus(sub *syntax.Regexp) shape {
	if sub.Op == syntax.OpAnyChar {
		return anything(1, true)
	}
	if sub.Op == syntax.OpCharClass {
		return anything(1, false)
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
			return s.collapse()
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
	var s shape
	for _, sub := range subs {
		if a.budget < 0 {
			return anything(0, false)
		}
		s = a.union(s, a.shape(sub, atStart, atEnd))
	}
	return s
}

func (a *analyser) union(x, y shape) shape {
	a.budget -= partBytes * len(y)
	s := append(x, y...)
	if len(s) > maxAlternatives {
		return s.collapse()
	}
	return s
}

// product is x followed by y.
func (a *analyser) product(x, y shape) shape {
	if len(x) > 1 && len(y) > 1 && len(x)*len(y) > maxProduct {
		y = y.collapse()
	}
	s := make(shape, 0, len(x)*len(y))
	for i, gx := range x {
		for j, gy := range y {
			if a.budget < 0 { // x[i] and later ones are still as they were
				return append(s, x[i:]...).collapse()
			}
			left := gx
			if j < len(y)-1 { // the last one may build on the original
				a.budget -= partBytes * len(gx.parts)
				left.parts = slices.Clone(gx.parts)
			}
			s = append(s, a.join(left, gy))
		}
	}
	return s
}

// join is x followed by y, in place where there is room. It is inexact if it has to
// fold a text that was not to be folded.
func (a *analyser) join(x, y glob) glob {
	a.budget -= partBytes * (1 + len(y.parts))
	exact := x.exact && y.exact
	if len(x.parts) == 0 {
		return glob{slices.Clone(y.parts), exact}
	}
	if len(y.parts) == 0 {
		return glob{x.parts, exact}
	}
	last, first := &x.parts[len(x.parts)-1], y.parts[0]
	switch {
	case last.text == "":
		last.gap += max(first.gap, 0)
		last.text, last.fold = first.text, first.fold
	case first.gap != noGap:
		return glob{append(x.parts, y.parts...), exact}
	default:
		exact = exact && canMerge(*last, first)
		last.text += first.text
		last.fold = last.fold || first.fold
		a.budget -= len(last.text)
	}
	return glob{append(x.parts, y.parts[1:]...), exact}
}

// canMerge says whether two texts can be folded or not folded together.
func canMerge(p, q part) bool {
	return p.fold == q.fold || !p.fold && !anyCase(p.text) || !q.fold && !anyCase(q.text)
}

func anyCase(text string) bool { return strings.IndexFunc(text, hasCase) >= 0 }

// collapse forgets all but the common prefix.
func (s shape) collapse() shape {
	rest := part{gap: 0}
	if prefix := s.prefix(); prefix != "" {
		return one(false, part{gap: noGap, text: prefix}, rest)
	}
	return one(false, rest)
}

// prefix is what each value begins with.
func (s shape) prefix() string {
	if len(s) == 0 {
		return ""
	}
	prefix := s[0].prefix()
	for _, g := range s[1:] {
		next, n := g.prefix(), 0
		for n < len(prefix) && n < len(next) && prefix[n] == next[n] {
			n++
		}
		prefix = prefix[:n]
	}
	return prefix
}

// suffix is what each value ends with, as far as one alternative tells.
func (s shape) suffix() string {
	if len(s) != 1 || len(s[0].parts) == 0 {
		return ""
	}
	last := s[0].parts[len(s[0].parts)-1]
	if last.fold {
		return ""
	}
	return last.text
}

// fits says whether v fits one of the alternatives.
func (s shape) fits(v string) bool {
	for i := range s {
		if s[i].match(v) {
			return true
		}
	}
	return false
}

// split sorts the alternatives by how they are answered: values that match, without
// duplicates (a short text in any case is some of them), other exact ones, and a few
// that have to be looked at by the expression.
func (s shape) split() (values []string, exact, inexact shape) {
	for _, g := range s {
		switch {
		case !g.exact:
			inexact = append(inexact, g)
		case !g.isFinite():
			exact = append(exact, g)
		case len(g.parts) == 0:
			values = append(values, "")
		case !g.parts[0].fold:
			values = append(values, g.parts[0].text)
		case countVariants(g.parts[0].text) > min(maxProduct, maxAlternatives-len(values)):
			exact = append(exact, g)
		default:
			values = append(values, foldVariants(g.parts[0].text)...)
		}
	}
	if len(inexact) > maxInexact {
		inexact = inexact.collapse()
	}
	slices.Sort(values)
	return slices.Compact(values), exact, inexact
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
