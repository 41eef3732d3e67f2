// Package replay brings the head of a database back: from its log, from a snapshot of it with the
// log behind that, and from its files of full chunks (docs/design/recovery.md).
//
// It knows how records become series and samples again, in which order, by how many goroutines, and
// which full chunks are to be believed. It does not decide: which snapshot is used, what is done
// about damage and what its user is told are for who calls it, with a Report as data. It changes
// no file but through a Store.
//
// One Run at a time fills a Target, which nobody else touches meanwhile. A Search reads only, and
// may run beside commits and queries.
package replay
