package labels

import (
	"slices"
	"strings"
)

// Builder changes label sets. The zero value is ready and starts from the empty
// set. A reused Builder allocates nothing but the string of each new set. It keeps
// the strings it was given until the next Reset.
type Builder struct {
	base   Labels
	labels []Label // sorted by name, no empty values
	buf    []byte
}

// Reset starts over from base.
func (b *Builder) Reset(base Labels) {
	clear(b.labels)
	b.base = base
	b.labels = base.AppendTo(b.labels[:0])
}

// Set gives a label its value, new or in place of another (of all others, if base
// had duplicates). An empty value deletes the label.
func (b *Builder) Set(name, value string) {
	if value == "" {
		b.Del(name)
		return
	}
	if n := len(b.labels); n == 0 || b.labels[n-1].Name < name {
		b.labels = append(b.labels, Label{name, value})
		return
	}
	i, found := b.search(name)
	if !found {
		b.labels = slices.Insert(b.labels, i, Label{name, value})
		return
	}
	b.labels[i].Value = value
	for i++; i < len(b.labels) && b.labels[i].Name == name; {
		b.labels = slices.Delete(b.labels, i, i+1)
	}
}

// Del takes labels out; names that are not there are ignored.
func (b *Builder) Del(names ...string) {
	for _, name := range names {
		for i, found := b.search(name); found; i, found = b.search(name) {
			b.labels = slices.Delete(b.labels, i, i+1)
		}
	}
}

// Get returns the value of a label, or "" if it is absent.
func (b *Builder) Get(name string) string {
	if i, found := b.search(name); found {
		return b.labels[i].Value
	}
	return ""
}

// Labels returns the set as it now stands. The Builder can be changed further; sets
// it has returned do not change with it.
func (b *Builder) Labels() Labels {
	b.buf = appendLabels(b.buf[:0], b.labels)
	if string(b.buf) == b.base.data {
		return b.base
	}
	return Labels{string(b.buf)}
}

func (b *Builder) search(name string) (int, bool) {
	return slices.BinarySearchFunc(b.labels, name, func(l Label, name string) int {
		return strings.Compare(l.Name, name)
	})
}
