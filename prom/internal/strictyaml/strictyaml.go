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
		said := make([]string, len(typed.Errors))
		for i, text := range typed.Errors {
			said[i] = unknownField.ReplaceAllString(text, "$1 is not known here")
		}
		return errors.New(strings.Join(said, "; "))
	default:
		return err
	}
}
