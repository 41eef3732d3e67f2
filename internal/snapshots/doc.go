// Package snapshots keeps the snapshots of a head: it says when one is due, takes it, removes those
// that are none any more, and says which one recovery begins with.
//
// A head snapshot is what the head was when a log segment began, give or take samples that the log
// has behind it, too. Series are copied one after the other beside commits. Replay leaves out what
// is not newer than the copy. It saves the next Open the log before that segment, and the
// head-chunk files that were there (docs/design/head-snapshots.md).
//
// The package does not know who flushes the head, nor how a log is read: its caller holds what
// keeps series and chunks in their place meanwhile, and hands over how to read.
package snapshots
