package labels

import (
	"unicode/utf8"

	"github.com/pkg/errors"
)

// Validate says why the set cannot name a series: it is empty, or a label has an
// empty name, a name or value that is not UTF-8, no value (the last of an odd number
// of strings given to FromStrings), or the name of another label. The error wraps
// ErrInvalid and names the first label at fault. A valid set costs no allocation.
func (ls Labels) Validate() error {
	if ls.data == "" {
		return errors.WithMessage(ErrInvalid, "no labels, a series needs at least one")
	}
	prev, first := "", true
	for pos := 0; pos < len(ls.data); first = false {
		var name, value string
		name, value, pos = ls.Decode(pos)
		if name == "" || value == "" || !utf8.ValidString(name) || !utf8.ValidString(value) || !first && name == prev {
			return invalidLabel(name, value)
		}
		prev = name
	}
	return nil
}

// invalidLabel explains what Validate has found. A label with nothing else wrong is
// a duplicate.
func invalidLabel(name, value string) error {
	switch {
	case name == "":
		return errors.WithMessagef(ErrInvalid, "value %q has an empty label name, give it one", value)
	case !utf8.ValidString(name):
		return errors.WithMessagef(ErrInvalid, "label name %q is not UTF-8, re-encode it", name)
	case value == "":
		return errors.WithMessagef(ErrInvalid, "label %q has no value, pass names and values in pairs", name)
	case !utf8.ValidString(value):
		return errors.WithMessagef(ErrInvalid, "value %q of label %q is not UTF-8, re-encode it", value, name)
	default:
		return errors.WithMessagef(ErrInvalid, "label %q appears more than once, keep one of them", name)
	}
}
