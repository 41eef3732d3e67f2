// Package wal is the write-ahead log: numbered segment files of 32 KiB pages that
// carry CRC-checked fragments of records, as docs/format/wal.md describes them.
//
// A Log writes. Records are opaque bytes here. They come in commits, and a commit is in the log
// whole or not at all. It ends with a private frame record that carries its sequence number and a
// checksum over its records. Replay takes nothing that lacks one. Concurrent commits are written,
// and synced, in groups.
//
// Replay reads a log back in order, with checking and decompression in parallel, and
// decides what counts after a crash or damage. Repair then makes the directory so
// that any reader finds nothing wrong with it. Reader walks one segment for tools.
//
// The package knows segments, pages, fragments, commits and checkpoint directories;
// it does not know what a record means. A Log is safe for concurrent use; a Commit
// and a Reader belong to one goroutine at a time. Files are stable, this Go API is
// not.
package wal
