package exemplar

import "errors"

// ErrLabelLength: the labels of an exemplar have more than MaxLabelRunes characters.
var ErrLabelLength = errors.New("labels of an exemplar are too long")
