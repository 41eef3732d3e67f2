package fileutil

import (
	"os"
	"syscall"

	"github.com/pkg/errors"
)

// control runs a system call on the descriptor of f, which cannot be closed and
// given to another file meanwhile. A call that a signal interrupted is repeated. The error
// names op and the file.
func control(f *os.File, op string, call func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return errors.WithStack(err)
	}
	var callErr error
	again := func(fd uintptr) {
		for callErr = call(fd); errors.Is(callErr, syscall.EINTR); callErr = call(fd) {
		}
	}
	if conn.Control(again) != nil {
		callErr = os.ErrClosed // Control fails for no other reason
	}
	if callErr != nil {
		return errors.WithStack(&os.PathError{Op: op, Path: f.Name(), Err: callErr})
	}
	return nil
}
