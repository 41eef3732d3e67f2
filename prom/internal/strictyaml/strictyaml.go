// Package strictyaml reads configuration files, and refuses what it does not know.
package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// Decode reads a text into a struct. Errors have lines, and no names of types; an empty text is
// none.
func Decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(into)
	var typed *yaml.TypeError
	switch {
	case err == io.EOF:
		return nil
	case errors.As(err, &typed):
		return errors.New(unknownField.ReplaceAllString(strings.Join(typed.Errors, "; "), "$1 is not known here"))
	default:
		return err
	}
}
