package labels

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// glob is a sequence of parts that make up a whole value. No part at all is the
// empty value. Matching takes no backtracking: a text has a fixed number of
// characters, so behind a gap its leftmost place is as good as any other.
//
// Invariant: a part without text is the last one and has a gap; all parts but the
// first have a gap.
type glob struct {
	parts []part
	exact bool // what fits matches the expression; otherwise it may
}

// part is a text behind a gap.
type part struct {
	gap  int // least number of characters before the text; noGap: it follows at once
	text string
	fold bool // the text matches in any case
}

const noGap = -1

func (g *glob) match(s string) bool {
	for i := range g.parts {
		p := &g.parts[i]
		if p.gap == noGap {
			rest, ok := p.cutPrefix(s)
			if !ok {
				return false
			}
			s = rest
			continue
		}
		rest, ok := skip(s, p.gap)
		if !ok {
			return false
		}
		if i == len(g.parts)-1 {
			return p.isSuffix(rest)
		}
		if s, ok = p.cutFirst(rest); !ok {
			return false
		}
	}
	return s == ""
}

// isFinite says whether the glob has no gap.
func (g *glob) isFinite() bool {
	return len(g.parts) == 0 || len(g.parts) == 1 && g.parts[0].gap == noGap
}

// prefix is what each value begins with.
func (g *glob) prefix() string {
	if len(g.parts) == 0 || g.parts[0].gap != noGap {
		return ""
	}
	text := g.parts[0].text
	if !g.parts[0].fold {
		return text
	}
	return text[:strings.IndexFunc(text, hasCase)]
}

// skip drops n characters. As in package regexp, a byte that is not UTF-8 is one.
func skip(s string, n int) (string, bool) {
	for ; n > 0; n-- {
		if s == "" {
			return "", false
		}
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s, true
}

func (p *part) cutPrefix(s string) (string, bool) {
	if p.fold {
		return cutPrefixFold(s, p.text)
	}
	return strings.CutPrefix(s, p.text)
}

// cutFirst drops everything up to the end of the first place where the text stands.
func (p *part) cutFirst(s string) (string, bool) {
	if !p.fold {
		i := strings.Index(s, p.text)
		if i < 0 {
			return "", false
		}
		return s[i+len(p.text):], true
	}
	for i := range s {
		if rest, ok := cutPrefixFold(s[i:], p.text); ok {
			return rest, true
		}
	}
	return "", false
}

func (p *part) isSuffix(s string) bool {
	if p.fold {
		return isSuffixFold(s, p.text)
	}
	return strings.HasSuffix(s, p.text)
}

func cutPrefixFold(s, text string) (string, bool) {
	for _, want := range text {
		have, size := utf8.DecodeRuneInString(s)
		if size == 0 || !equalFold(have, want) {
			return "", false
		}
		s = s[size:]
	}
	return s, true
}

func isSuffixFold(s, text string) bool {
	for text != "" {
		want, n := utf8.DecodeLastRuneInString(text)
		have, size := utf8.DecodeLastRuneInString(s)
		if size == 0 || !equalFold(have, want) {
			return false
		}
		text, s = text[:len(text)-n], s[:len(s)-size]
	}
	return true
}

// equalFold compares by simple folding, as package regexp does: K, k and the Kelvin
// sign are equal.
func equalFold(a, b rune) bool {
	if a == b {
		return true
	}
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return a|0x20 == b|0x20 && 'a' <= a|0x20 && a|0x20 <= 'z'
	}
	for c := unicode.SimpleFold(b); c != b; c = unicode.SimpleFold(c) {
		if c == a {
			return true
		}
	}
	return false
}

func hasCase(c rune) bool { return unicode.SimpleFold(c) != c }
