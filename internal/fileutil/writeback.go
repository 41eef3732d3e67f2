package fileutil

// StartWriteback asks the operating system to begin writing n bytes of f from off on to
// the disk, and does not wait for it, so that a later Sync has less to do. It is advice: it
// promises nothing, where there is no such call it does nothing, and what goes wrong is
// told by Sync.
func StartWriteback(f File, off, n int64) {
	if w, ok := f.(interface{ StartWriteback(off, n int64) }); ok {
		w.StartWriteback(off, n)
	}
}
