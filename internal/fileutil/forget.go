package fileutil

// Forget tells the operating system that n bytes of a mapping from off on will not be read
// again soon, so that they do not count as memory of this process. They can be read as before.
// It is advice: where there is no such call it does nothing.
//
//go:noinline
func Forget(m Mapping, off, n int64) {
	if f, ok := m.(interface{ Forget(off, n int64) }); ok {
		f.Forget(off, n)
	}
}
