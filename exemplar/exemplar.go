// Package exemplar has exemplars as values: references to traces, kept beside the samples of
// a series. It does not know where they are stored, nor which of them are kept.
//
// Values are immutable, and safe for concurrent use.
package exemplar

import (
	"math"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// MaxLabelRunes is how long the labels of an exemplar are at most: the characters of all
// names and values together, without anything between them.
const MaxLabelRunes = 128

// Exemplar is one exemplar. The zero value has neither labels nor a time.
type Exemplar struct {
	Labels labels.Labels // what it refers to, most often a trace_id; not those of the series
	Value  float64       // what was observed
	T      int64         // when, in milliseconds since 1970; 0 and HasT false: nobody said
	HasT   bool
}

// Equal reports whether both are the same: labels, value by its bits, and time.
func (e Exemplar) Equal(o Exemplar) bool {
	return e.T == o.T && e.HasT == o.HasT && e.Labels.Equal(o.Labels) &&
		math.Float64bits(e.Value) == math.Float64bits(o.Value)
}

// Validate says what is wrong with an exemplar: it is ErrNoLabels if it has none, ErrLabelLength if
// they are too long, and labels.ErrInvalid if a name comes twice, has no text, or one of the
// strings is not UTF-8. Everything else is taken.
func (e Exemplar) Validate() error {
	if e.Labels.IsEmpty() {
		return ErrNoLabels
	}
	if err := e.Labels.Validate(); err != nil {
		return errors.WithMessage(err, "exemplar")
	}
	n := 0
	for l := range e.Labels.All() {
		n += utf8.RuneCountInString(l.Name) + utf8.RuneCountInString(l.Value)
	}
	if n > MaxLabelRunes {
		return errors.WithMessagef(ErrLabelLength, "%d characters, at most %d", n, MaxLabelRunes)
	}
	return nil
}

// Series is exemplars of one series, in the order of their times.
type Series struct {
	Labels    labels.Labels // of the series
	Exemplars []Exemplar
}
