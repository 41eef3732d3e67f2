package labels

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/pkg/errors"
)

// String writes the set as a selector that ParseSelector reads: {a="b", c="d"}.
// Names other than letters, digits and underscores are quoted.
func (ls Labels) String() string {
	b := []byte{'{'}
	for l := range ls.All() {
		if len(b) > 1 {
			b = append(b, ", "...)
		}
		b = appendName(b, l.Name)
		b = append(b, '=')
		b = strconv.AppendQuote(b, l.Value)
	}
	return string(append(b, '}'))
}

// MarshalJSON writes the set as an object of strings, sorted by name. What is not
// UTF-8 in it becomes U+FFFD, as always in this encoding.
func (ls Labels) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(ls.Map())
	return b, errors.Wrap(err, "encode labels as JSON")
}

// UnmarshalJSON reads an object of strings; null changes nothing. Empty values are
// dropped. The set is not validated.
func (ls *Labels) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	var m map[string]string
	if err := json.Unmarshal(b, &m); err != nil {
		return errors.Wrap(err, "decode labels from JSON")
	}
	*ls = FromMap(m)
	return nil
}

// appendName writes a label name, quoted unless it is an identifier.
func appendName(b []byte, name string) []byte {
	if isIdentifier(name, false) {
		return append(b, name...)
	}
	return strconv.AppendQuote(b, name)
}

// isIdentifier says whether a name can stand without quotes: a letter or an
// underscore, then also digits. Metric names may have colons too.
func isIdentifier(name string, colon bool) bool {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		if !isIdentifierByte(name[i], colon) {
			return false
		}
	}
	return true
}

func isIdentifierByte(c byte, colon bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= '0' && c <= '9' || colon && c == ':'
}
