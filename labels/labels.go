// Package labels has the names of series: label sets, and the matchers and
// selectors that choose among them. It knows bytes and order; it does not know
// refs, symbols or files.
//
// Labels and Matcher never change once made and are safe for concurrent use. A
// Builder belongs to one goroutine.
package labels

import (
	"iter"
	"sort"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// MetricName is the name of the label that holds the metric name.
const MetricName = "__name__"

// Label is a name with its value.
type Label struct {
	Name, Value string
}

// Labels is an immutable set of labels, sorted by name (by bytes). The zero value
// is the empty set. Sets are equal exactly if they are ==, so a Labels can be the
// key of a map.
//
// All labels lie in one string, so a set costs 16 bytes and one allocation:
//
//	+----------------+------+-----------------+-------+----
//	| uvarint length | name | uvarint length  | value | ...
//	+----------------+------+-----------------+-------+----
//
// Invariant: names ascend (equal names stand in the order they were given),
// lengths are in shortest form, and no value is empty save the one that marks an
// odd number of strings in FromStrings. What else can be wrong with a set is kept
// and left to Validate.
type Labels struct {
	data string
}

// FromStrings makes a set of alternating names and values. A name that is left
// without a value stays in the set with an empty one, and Validate reports it.
func FromStrings(nameValuePairs ...string) Labels {
	ls := make([]Label, 0, (len(nameValuePairs)+1)/2)
	for ; len(nameValuePairs) >= 2; nameValuePairs = nameValuePairs[2:] {
		if nameValuePairs[1] != "" {
			ls = append(ls, Label{nameValuePairs[0], nameValuePairs[1]})
		}
	}
	if len(nameValuePairs) == 1 {
		ls = append(ls, Label{Name: nameValuePairs[0]})
	}
	sortLabels(ls)
	return encode(ls)
}

// New makes a set of labels in any order. Labels with an empty value are dropped:
// an empty value means that the label is absent. Duplicate names are kept, so that
// Validate can report them. The strings are copied; ls is not changed.
func New(ls ...Label) Labels {
	if isCanonical(ls) {
		return encode(ls)
	}
	sorted := make([]Label, 0, len(ls))
	for _, l := range ls {
		if l.Value != "" {
			sorted = append(sorted, l)
		}
	}
	sortLabels(sorted)
	return encode(sorted)
}

// FromMap makes a set of the names and values of m. Empty values are dropped.
func FromMap(m map[string]string) Labels {
	ls := make([]Label, 0, len(m))
	for name, value := range m {
		ls = append(ls, Label{name, value})
	}
	return New(ls...)
}

// IsEmpty says whether the set has no label.
func (ls Labels) IsEmpty() bool { return ls.data == "" }

// Len counts the labels. It walks over the set; ask IsEmpty for emptiness.
func (ls Labels) Len() int {
	n := 0
	for pos := 0; pos < len(ls.data); n++ {
		_, pos = cut(ls.data, pos)
		_, pos = cut(ls.data, pos)
	}
	return n
}

// SizeBytes is the length of the encoded set: what it holds in memory beside the
// 16 bytes of the Labels itself, and the end of the positions of Decode.
func (ls Labels) SizeBytes() int { return len(ls.data) }

// Get returns the value of a label, or "" if the set does not have it.
func (ls Labels) Get(name string) string {
	value, _ := ls.lookup(name)
	return value
}

// Has says whether the set has a label of that name.
func (ls Labels) Has(name string) bool {
	_, ok := ls.lookup(name)
	return ok
}

// lookup walks to the label. It stops at the first name that begins with a later
// byte: comparing one byte costs less than it saves, comparing whole names does not.
func (ls Labels) lookup(name string) (string, bool) {
	if name == "" {
		return ls.lookupEmpty()
	}
	var have string
	for pos := 0; pos < len(ls.data); {
		have, pos = cut(ls.data, pos)
		if have == name {
			value, _ := cut(ls.data, pos)
			return value, true
		}
		if have != "" && have[0] > name[0] {
			break
		}
		_, pos = cut(ls.data, pos)
	}
	return "", false
}

// lookupEmpty looks for the empty name, which sorts before all others.
func (ls Labels) lookupEmpty() (string, bool) {
	if ls.data == "" || ls.data[0] != 0 {
		return "", false
	}
	value, _ := cut(ls.data, 1)
	return value, true
}

// All ranges over the labels by name. The strings alias the set and stay valid for
// ever. Ranging allocates nothing.
func (ls Labels) All() iter.Seq[Label] {
	return func(yield func(Label) bool) {
		for pos := 0; pos < len(ls.data); {
			var l Label
			l.Name, l.Value, pos = ls.Decode(pos)
			if !yield(l) {
				return
			}
		}
	}
}

// Decode returns the label at pos and the position of the next one. Positions
// begin at 0 and end at SizeBytes; any other number may panic or give nonsense:
//
//	for pos := 0; pos < ls.SizeBytes(); {
//		name, value, pos = ls.Decode(pos)
//	}
func (ls Labels) Decode(pos int) (name, value string, next int) {
	name, pos = cut(ls.data, pos)
	value, pos = cut(ls.data, pos)
	return name, value, pos
}

// AppendEncoded appends the encoded set to dst: for each label the length of the
// name as uvarint, the name, the length of the value, the value. These are the
// bytes that a series record of the WAL has after its number of labels.
func (ls Labels) AppendEncoded(dst []byte) []byte { return append(dst, ls.data...) }

// AppendTo appends the labels to dst. The strings alias the set.
func (ls Labels) AppendTo(dst []Label) []Label {
	for pos := 0; pos < len(ls.data); {
		var l Label
		l.Name, l.Value, pos = ls.Decode(pos)
		dst = append(dst, l)
	}
	return dst
}

// Map returns the labels as a new map. Of a duplicate name the last value stays.
func (ls Labels) Map() map[string]string {
	m := make(map[string]string, ls.Len())
	for l := range ls.All() {
		m[l.Name] = l.Value
	}
	return m
}

// Equal says whether both sets have the same labels.
func (ls Labels) Equal(other Labels) bool { return ls.data == other.data }

// Hash is the xxHash64 of the encoded set. It is the same in each process and on
// each platform, but it is no file format: a later version may hash differently.
func (ls Labels) Hash() uint64 { return xxhash.Sum64String(ls.data) }

// Compare orders sets label by label, the name before the value; of two sets of
// which one begins the other, the shorter is first. It returns -1, 0 or +1.
func Compare(a, b Labels) int {
	pos := 0
	for pos < len(a.data) {
		_, _, next := a.Decode(pos)
		if next > len(b.data) || a.data[pos:next] != b.data[pos:next] {
			return compareFrom(a, b, pos)
		}
		pos = next
	}
	if pos < len(b.data) {
		return -1
	}
	return 0
}

// compareFrom compares sets at the label at pos, the first one that may differ. Its
// bytes cannot be compared at once: they begin with a length.
func compareFrom(a, b Labels, pos int) int {
	if pos >= len(b.data) {
		return 1
	}
	nameA, valueA, _ := a.Decode(pos)
	nameB, valueB, _ := b.Decode(pos)
	if nameA != nameB {
		return strings.Compare(nameA, nameB)
	}
	return strings.Compare(valueA, valueB)
}

// cut returns the string whose length stands at pos, and the position after it.
func cut(data string, pos int) (string, int) {
	n := int(data[pos])
	pos++
	if n >= 0x80 {
		n, pos = longLength(data, pos-1)
	}
	return data[pos : pos+n], pos + n
}

// longLength reads a length of more than one byte. The encoder wrote it, so it is
// whole and fits.
func longLength(data string, pos int) (length, next int) {
	shift := 0
	for {
		c := data[pos]
		pos++
		length |= int(c&0x7f) << shift
		if c < 0x80 {
			return length, pos
		}
		shift += 7
	}
}

// isCanonical says whether ls can be encoded as it stands.
func isCanonical(ls []Label) bool {
	for i := range ls {
		if ls[i].Value == "" || i > 0 && ls[i].Name < ls[i-1].Name {
			return false
		}
	}
	return true
}

// fewLabels is up to how many labels an insertion sort is as quick as any.
const fewLabels = 32

// sortLabels sorts by name, and keeps the order of equal names.
func sortLabels(ls []Label) {
	if len(ls) > fewLabels {
		sort.SliceStable(ls, func(i, k int) bool { return ls[i].Name < ls[k].Name })
		return
	}
	for i := range ls {
		for k := i; k > 0 && ls[k].Name < ls[k-1].Name; k-- {
			ls[k], ls[k-1] = ls[k-1], ls[k]
		}
	}
}
