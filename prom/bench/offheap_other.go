//go:build !unix

package bench

// offHeap returns n numbers.
func offHeap(n int) ([]float64, error) { return make([]float64, n), nil }
