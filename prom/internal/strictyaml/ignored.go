package strictyaml

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Ignored is a key that may be there and has no effect: what it asks for happens anyway, or in
// another way. Tag "instead" of the field says how.
type Ignored struct{ line int }

// UnmarshalYAML implements yaml.Unmarshaler.
func (i *Ignored) UnmarshalYAML(n *yaml.Node) error {
	i.line = n.Line
	return nil
}

// IsZero implements yaml.IsZeroer: what has no effect is not shown.
func (i Ignored) IsZero() bool { return true }

// Note tells of a key that is there and has no effect.
type Note struct {
	Key     string // as global.query_log_file
	Line    int    // of its first value
	Instead string
}

// Notes lists the keys without effect of what Decode has read, by lines: each key once, in however
// many entries of a list it is.
func Notes(of any) []Note {
	first := map[string]Note{}
	collect(reflect.ValueOf(of), "", first)
	var list []Note
	for _, n := range first {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b Note) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key)) })
	return list
}

func collect(v reflect.Value, key string, first map[string]Note) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), key, first)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), key, first)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, how, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case how == "inline":
				name = key
			case name == "", !field.IsExported():
				continue // it is nothing of a file
			case key != "":
				name = key + "." + name
			}
			ignored, is := v.Field(i).Interface().(Ignored)
			if before, there := first[name]; !is {
				collect(v.Field(i), name, first)
			} else if ignored.line > 0 && (!there || ignored.line < before.Line) {
				first[name] = Note{name, ignored.line, field.Tag.Get("instead")}
			}
		}
	}
}
