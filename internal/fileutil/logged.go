package fileutil

import "strings"

// Logged makes an error an attribute of slog that is one line. A handler for text would write
// the call stack of an error, and joined errors have a line each: whoever reads logs line by
// line, or greps, would miss the rest. nil stays nil.
//
//go:noinline
func Logged(err error) any {
	if err == nil {
		return nil
	}
	return loggedError{err}
}

// loggedError is an error as it is logged.
type loggedError struct{ err error }

// Error returns the lines of the error behind each other.
func (e loggedError) Error() string {
	return strings.Join(strings.Split(e.err.Error(), "\n"), "; ")
}

// Unwrap lets errors.Is and errors.As see through it.
func (e loggedError) Unwrap() error { return e.err }
