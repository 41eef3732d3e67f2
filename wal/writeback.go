package wal

import "github.com/seed347100a3/tsdb/internal/fileutil"

const (
	// writebackBytes is how much of a segment is written before the system is asked to take
	// it to the disk. The sync of a full segment, which a commit waits for, then has that much
	// to do: a fourth of the time for 128 MiB (BenchmarkRotate).
	writebackBytes = 4 << 20
	// writebackAlign keeps the page that the next commit goes on with out of it: while a page
	// is on its way to the disk, some systems let nobody change it.
	writebackAlign = 4 << 10
)

// startWriteback is called by the leader behind a write. Under SyncCommit there is nothing
// to begin, and under SyncNever nobody waits.
func (l *Log) startWriteback() {
	g := &l.lead
	end := g.off &^ (writebackAlign - 1)
	if mode := l.opts.Sync.mode; end-g.begun < writebackBytes || mode == ModeCommit || mode == ModeNever {
		return
	}
	fileutil.StartWriteback(l.file, g.begun, end-g.begun)
	g.begun = end
}
