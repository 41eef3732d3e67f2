// Package memseries holds the series of the head in memory: a paged slab directory
// by ref, a hash table for label sets only, the open head chunk with its encoder
// state inside the series record, and the marks that let a reader see the past of a
// series that is being appended to.
//
// It knows how to find, create, append to, cut and read one series. It does not
// know a log, a file, a commit or a query; the root package decides about those.
//
// A Directory creates and removes series. Its parts do the rest: Shards are the locks and the turns
// of commits, the Shelf has full chunks, the Truncation forgets what blocks have, the Budget bounds
// what all of them take. A Past is what readers see, and a Restoration what recovery does.
//
// Concurrency: Directory may be used from any number of goroutines. A Series belongs
// to the Shard that its ref says (Bit): its fields are read and written with
// that shard locked, except for those marked atomic or immutable. During recovery a
// series belongs to exactly one worker instead, and no lock is taken.
package memseries
