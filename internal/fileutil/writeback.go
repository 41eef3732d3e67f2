package fileutil

import "os"

// StartWriteback asks the operating system to begin writing n bytes of f from off on to
// the disk, and does not wait until that is done, so that a later Sync has less to do. It is
// advice: it promises nothing, where there is no such call it does nothing, and what goes
// wrong is told by Sync.
//
//go:noinline
func StartWriteback(f File, off, n int64) {
	if s, ok := f.(interface{ StartWriteback(off, n int64) }); ok {
		s.StartWriteback(off, n)
	}
}

// writebackAlign keeps the page that the next write goes on with out of what is begun: while a page
// is on its way to the disk, some systems let nobody change it.
var writebackAlign = int64(os.Getpagesize())

// BehindBytes is after how many new bytes of a block, a checkpoint, a snapshot or a head-chunk file
// the system is told to begin writing them (WriteBehind.Grown), so that the kernel never has much
// of ours to flush at once. They are synced every few MiB, or when they are full; a sync holds up a
// whole thread, and so it has little left to do.
const BehindBytes = 1 << 20

// WriteBehind has a file that only grows written to the disk while it does. The zero value is that
// of an empty file.
type WriteBehind struct{ begun int64 }

// Grown is called when f has end bytes. Once at least every bytes are new, StartWriteback gets all
// whole pages of them.
func (w *WriteBehind) Grown(f File, end, every int64) {
	end &^= writebackAlign - 1
	if end-w.begun >= every {
		StartWriteback(f, w.begun, end-w.begun)
		w.begun = end
	}
}
