package wal

// writebackBytes is how much of a segment is written before the system is asked to take
// it to the disk. The sync of a full segment, which a commit waits for, then has that much
// to do: a fourth of the time for 128 MiB (BenchmarkRotate).
const writebackBytes = 4 << 20

// startWriteback is called by the leader behind a write. Under SyncCommit there is nothing
// to begin, and under SyncNever nobody waits.
func (l *Log) startWriteback() {
	if mode := l.opts.Sync.mode; mode != ModeCommit && mode != ModeNever {
		l.lead.behind.Grown(l.file, l.lead.off, writebackBytes)
	}
}
