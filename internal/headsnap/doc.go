// Package headsnap is the directory of a head snapshot, head_snapshot.N: what the head was
// when log segment N began, so that the next open need not read the log before it. The
// format is in docs/format/head-snapshot.md.
//
// The package knows files and bytes. When a snapshot is taken, and what is made of what it
// holds, is for who uses it. Nothing here is for more than one goroutine at a time, but the
// decoders, which have no state.
package headsnap
