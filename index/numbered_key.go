package index

// numberedKey is the number of something that is larger, and the key that it is sorted by: what is
// moved then is small.
type numberedKey struct {
	key uint64
	num uint32
}

// insertionRun is how many keys are sorted by insertion, before they are merged.
const insertionRun = 12

// sortKeys sorts keys, those of one key by less, which is asked for them only. It takes tmp, of the
// same length, for itself. Package slices would make 16 KiB of code for these keys, package sort
// takes twice as many instructions (BenchmarkSelectHead/labels).
func sortKeys(keys, tmp []numberedKey, less func(a, b numberedKey) bool) {
	before := func(a, b numberedKey) bool { return a.key < b.key || a.key == b.key && less(a, b) }
	for from := 0; from < len(keys); from += insertionRun {
		run := keys[from:min(from+insertionRun, len(keys))]
		for i := 1; i < len(run); i++ {
			k, at := run[i], i
			for ; at > 0 && before(k, run[at-1]); at-- {
				run[at] = run[at-1]
			}
			run[at] = k
		}
	}
	src, dst := keys, tmp
	for width := insertionRun; width < len(keys); width *= 2 {
		for from := 0; from < len(keys); from += 2 * width {
			a := src[from:min(from+width, len(keys))]
			b := src[min(from+width, len(keys)):min(from+2*width, len(keys))]
			out := dst[from:]
			for len(a) > 0 && len(b) > 0 {
				if before(b[0], a[0]) {
					out[0], b = b[0], b[1:]
				} else {
					out[0], a = a[0], a[1:]
				}
				out = out[1:]
			}
			copy(out[copy(out, a):], b)
		}
		src, dst = dst, src
	}
	if len(keys) > 0 && &src[0] != &keys[0] {
		copy(keys, src)
	}
}
