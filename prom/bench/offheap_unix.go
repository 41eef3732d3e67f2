//go:build unix

package bench

import (
	"syscall"
	"unsafe"

	"github.com/pkg/errors"
)

// offHeap returns n numbers that the garbage collector does not know of: on the heap
// they would make collections rare, in favour of the engine with more garbage. They
// stay until the process ends.
func offHeap(n int) ([]float64, error) {
	b, err := syscall.Mmap(-1, 0, max(1, n)*8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, errors.Wrap(err, "map memory for values")
	}
	// A mapping begins at a page, so the numbers are aligned.
	return unsafe.Slice((*float64)(unsafe.Pointer(&b[0])), n), nil
}
