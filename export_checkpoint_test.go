package tsdb

import "github.com/seed347100a3/tsdb/wal"

// CheckpointFilter returns what a checkpoint keeps of the log's records, and what it adds.
func CheckpointFilter(mint int64, wanted func(ref uint64) bool) (keep func(wal.Record, []byte) ([]byte, bool), tail func(func([]byte) error) error) {
	f := newCheckpointFilter(mint, wanted)
	return f.keep, f.tail
}
