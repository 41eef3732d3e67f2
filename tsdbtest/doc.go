// Package tsdbtest lets programs that use tsdb test themselves: without a disk,
// without waiting, and with power cuts.
//
// MemFS is a file system in memory that knows what a power cut may take. It
// implements the FS option of tsdb. Run your program on it, then ask for the states
// in which a crash at this moment may leave the disk, open a database on each and
// look whether everything that was acknowledged is there:
//
//	for disk := range fs.CrashStates(1000) {
//		db, err := tsdb.Open("data", &tsdb.Options{FS: disk})
//		...
//	}
//
// # What a power cut does
//
// Until File.Sync each 512-byte sector that was written may be there, missing (its
// old bytes, or zeros where there were none), zeroed or garbage, each on its own; the
// size of the file is one that it has had since the last Sync, or in between, and
// does not depend on which sectors are there. Until SyncDir of its directory a name
// may be as it was before: a created file missing, a removed one back, a rename not
// done. A rename is atomic. By default any subset of the pending changes of names
// survives; with CrashOptions.Ordered a prefix of them does, as on file systems with
// a journal.
//
// Bytes that were synced are not harmed by a later write to the same sector, unless
// that write changes them.
//
// Killing the process alone (KillClone) takes nothing that was written: the kernel
// has it. But it does not make it durable either.
//
// Clock is a clock that stands still until the test moves it, and implements the
// Clock option of tsdb.
//
// All types are safe for concurrent use. The package imports no other package of
// tsdb except internal seams, so that every test of the library can use it.
package tsdbtest
