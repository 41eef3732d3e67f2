package labels

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid says that a label set cannot name a series. Validate returns it
	// with the label at fault and what to do about it.
	ErrInvalid = errors.New("invalid label set")

	// ErrEncoding says that bytes given to FromEncoded are not an encoded label set.
	ErrEncoding = errors.New("malformed encoded label set")

	// ErrSyntax says that a selector or a regular expression cannot be read.
	// For a selector, errors.As finds the place in a SelectorError.
	ErrSyntax = errors.New("syntax error")

	// ErrLimit says that a regular expression or a selector is larger than this
	// package agrees to work on: MaxRegexpBytes, MaxRegexpInstructions, too many
	// large character classes, MaxSelectorBytes.
	ErrLimit = errors.New("limit exceeded")
)

// SelectorError says where a selector cannot be read and why. It unwraps to Err.
type SelectorError struct {
	Column int    // place of the fault, counted in characters from 1
	Reason string // what was found and what was expected, lower case
	Err    error  // ErrSyntax, or what made a regular expression unusable
}

func (e *SelectorError) Error() string {
	return fmt.Sprintf("selector, column %d: %s", e.Column, e.Reason)
}

// Unwrap makes errors.Is(err, ErrSyntax) or errors.Is(err, ErrLimit) hold.
func (e *SelectorError) Unwrap() error { return e.Err }
