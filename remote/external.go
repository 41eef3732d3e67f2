package remote

import (
	"strings"

	"github.com/seed347100a3/tsdb/labels"
)

// external is the labels that a server adds to each series, sorted by name.
type external []labels.Label

// strip returns the matchers for what is stored: one that asks for an external label with
// just its value asks for series that have no such label of their own, as those get it.
func (ext external) strip(ms []matcher) []matcher {
	if len(ext) == 0 {
		return ms
	}
	out := make([]matcher, len(ms))
	for i, m := range ms {
		for _, l := range ext {
			if labels.MatchType(m.typ) == labels.MatchEqual && m.name == l.Name && m.value == l.Value {
				m.value = ""
			}
		}
		out[i] = m
	}
	return out
}

// merge returns the labels of a series, which are sorted, and the external ones that it has no
// label of the same name as. The memory of dst is used if there are any.
func (ext external) merge(dst, series []labels.Label) []labels.Label {
	if len(ext) == 0 {
		return series
	}
	at := 0
	for _, l := range series {
		for at < len(ext) && strings.Compare(ext[at].Name, l.Name) <= 0 {
			if ext[at].Name != l.Name {
				dst = append(dst, ext[at])
			}
			at++
		}
		dst = append(dst, l)
	}
	return append(dst, ext[at:]...)
}
