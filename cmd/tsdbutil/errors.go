package main

import "errors"

// Exit codes. The scripts of a user depend on them.
const (
	exitOK          = 0
	exitProblem     = 1   // a problem was found, or hit
	exitUsage       = 2   // the command line does not make sense
	exitInterrupted = 130 // 128 + SIGINT, as shells count
	exitTerminated  = 143 // 128 + SIGTERM
)

var (
	// errUsage: the command line does not make sense. The error says why.
	errUsage = errors.New("usage")
	// errNoDatabase: the directory is not there, or holds no database. Commands that
	// read do not create one.
	errNoDatabase = errors.New("no database")
	// errProblem: the command did its work and has shown what is wrong; there is
	// nothing to add.
	errProblem = errors.New("problem found")
	// errInterrupted, errTerminated: the cause of a context that a signal ended.
	errInterrupted = errors.New("interrupted")
	errTerminated  = errors.New("terminated")
)

// plainError is an error of a kind that shows only its own text.
type plainError struct {
	text string
	kind error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.kind }

func usageError(text string) error { return &plainError{text: text, kind: errUsage} }
