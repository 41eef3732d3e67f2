package prom

import (
	"unsafe"

	promlabels "github.com/prometheus/prometheus/model/labels"

	"github.com/seed347100a3/tsdb/labels"
)

// Both vocabularies keep a label set as one string of names and values, each behind its length.
// Ours are uvarints; theirs are one byte up to 254, and 255 and three more bytes from there on. So
// where each string is shorter than 128 bytes both write the same, and a set becomes one of the
// other kind by a look at its header alone: this file is where unsafe is used for that. Their
// package has other forms, by build tags, and may change: sameForm finds out at the start whether
// it can be done.

// shortString is how long a string may be so that its length is the same byte in both forms.
const shortString = 1<<7 - 1

var sameForm = func() bool {
	const header = unsafe.Sizeof("")
	if unsafe.Sizeof(promlabels.Labels{}) != header || unsafe.Sizeof(labels.Labels{}) != header {
		return false
	}
	theirs := promlabels.FromStrings("a", "value", "name", "b")
	ours := labels.FromStrings("a", "value", "name", "b").AppendEncoded(nil)
	return *(*string)(unsafe.Pointer(&theirs)) == string(ours)
}()

// toTheirs returns a set of ours as one of theirs. It allocates nothing if all strings are short.
func toTheirs(ls labels.Labels) promlabels.Labels {
	if !sameForm || !short(ls) {
		return rebuilt(ls)
	}
	return *(*promlabels.Labels)(unsafe.Pointer(&ls))
}

// short reports whether no name and no value is longer than shortString.
func short(ls labels.Labels) bool {
	size := ls.SizeBytes()
	if size <= shortString {
		return true
	}
	for pos := 0; pos < size; {
		var name, value string
		name, value, pos = ls.Decode(pos)
		if len(name) > shortString || len(value) > shortString {
			return false
		}
	}
	return true
}

func rebuilt(ls labels.Labels) promlabels.Labels {
	b := promlabels.NewScratchBuilder(ls.Len())
	for l := range ls.All() {
		b.Add(l.Name, l.Value)
	}
	return b.Labels()
}

// toOurs returns a set of theirs as one of ours, which may share its memory. Sets that are not well
// formed stay so: Append says what is wrong with them.
func toOurs(ls promlabels.Labels) labels.Labels {
	if sameForm {
		if text := *(*string)(unsafe.Pointer(&ls)); allShort(text) {
			if same, err := labels.UnsafeFromEncoded(unsafe.Slice(unsafe.StringData(text), len(text))); err == nil {
				return same
			}
		}
	}
	all := make([]labels.Label, 0, ls.Len())
	ls.Range(func(l promlabels.Label) { all = append(all, labels.Label{Name: l.Name, Value: l.Value}) })
	return labels.New(all...)
}

// allShort reports whether the lengths of a set of theirs are those that ours would have.
func allShort(text string) bool {
	for pos := 0; pos < len(text); pos += 1 + int(text[pos]) {
		if text[pos] > shortString {
			return false
		}
	}
	return true
}
