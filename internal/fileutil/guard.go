package fileutil

import (
	"runtime"
	"runtime/debug"

	"github.com/pkg/errors"
)

// GuardFaults runs fn and turns a memory fault in it (SIGBUS or SIGSEGV at an
// address that was really used) into an error that is ErrMemoryFault. Use it
// around every stretch of code that touches the bytes of a Mapping.
//
// It works for the calling goroutine only: goroutines that fn starts need their
// own. Other panics, nil pointers included, go on. fn must not hold a lock that it
// would release without defer. It allocates nothing unless fn faults.
func GuardFaults(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = faultError(r)
		}
	}()
	return fn()
}

// faultError tells a fault from other panics by its address: the runtime adds one
// only to faults outside the first page.
func faultError(r any) error {
	if f, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return errors.Wrapf(ErrMemoryFault, "address %#x", f.Addr())
	}
	panic(r)
}
