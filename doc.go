// Package tsdb is an embedded time-series database: a program imports it, appends
// samples of labelled series and reads them back. Its files are those of the
// Prometheus TSDB, which can open them, and whose directories it opens.
//
// Four nouns:
//
//   - A DB is an open data directory. One process at a time has it open; a Reader sees
//     it beside that one and writes nothing.
//   - An Appender collects samples and commits them: all or none. It belongs to one
//     goroutine; a DB has any number of them.
//   - A Querier is one consistent snapshot of a time range. Select gives series,
//     sorted by labels, and each series gives iterators over its samples.
//   - A Block is an immutable directory of older data. The newest samples are in the
//     head, in memory and in the log; in the background they become blocks, and blocks
//     become larger ones. Nothing is deleted unless Options.Blocks or Delete say so. A
//     BlockWriter makes blocks of samples of any age.
//
// Times are int64 milliseconds since the Unix epoch, of any sign; values are float64
// and keep their bits, NaN payloads included. Ranges of
// queries and deletes are closed on both sides, times of blocks end before MaxTime.
//
// What a successful Commit means depends on Options.WAL.Sync. A process that dies
// loses nothing that was committed, under any policy. A power failure loses nothing
// under SyncCommit, at most the last interval under SyncInterval (the default, one
// second), at most the current log segment under SyncRotate. What survives is always
// whole commits, and a prefix of them: no holes. A failed Commit is not in the
// database and does not appear later.
//
// A DB and a Querier may be used by any number of goroutines, an iterator by one.
// Errors are asked about with errors.Is and the sentinels of this package.
package tsdb
