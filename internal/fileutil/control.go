package fileutil

import (
	"os"

	"github.com/pkg/errors"
)

// control runs a system call on the descriptor of f, which cannot be closed and
// given to another file meanwhile. The error names op and the file.
func control(f *os.File, op string, call func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return errors.WithStack(err)
	}
	var callErr error
	if conn.Control(func(fd uintptr) { callErr = call(fd) }) != nil {
		callErr = os.ErrClosed // Control fails for no other reason
	}
	if callErr != nil {
		return errors.WithStack(&os.PathError{Op: op, Path: f.Name(), Err: callErr})
	}
	return nil
}
