package exemplar

import "errors"

var (
	// ErrNoLabels: an exemplar has no labels, and so refers to nothing.
	ErrNoLabels = errors.New("an exemplar has no labels")
	// ErrLabelLength: the labels of an exemplar have more than MaxLabelRunes characters.
	ErrLabelLength = errors.New("labels of an exemplar are too long")
)
