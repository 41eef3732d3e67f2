// Package read answers queries from many places that have series: blocks, and the head. It selects
// series in each of them, merges them by labels, and the chunks of one series by time, and decodes
// samples.
//
// It knows how blocks and the head lie in memory and in files, and what of them a snapshot may see.
// It does not know which blocks there are, when the head is published, or how either is kept from
// going away: whoever makes a Query pins what he adds to it, and lets go after its Gate is closed.
//
// A Query is for any number of goroutines at once, a set, an iterator and a cursor for one each.
// docs/design/reading.md tells how a query goes.
package read
