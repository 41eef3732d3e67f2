// Package remote speaks the Prometheus protocols of remote read and remote write over HTTP.
// ReadHandler serves a database, ReadClient reads from other servers, NewWriteHandler takes samples
// from them.
//
// It knows messages, frames and HTTP. It knows no files and decodes samples only where
// the protocol wants them one by one; everything goes through the public API of package
// tsdb. A request needs the same memory whether it selects ten series or a million
// (docs/design/remote.md says how; docs/design/remote-write.md is about writes).
//
// A handler may be used by any number of goroutines. It knows no users: whatever decides
// who may read or write is put in front of it by the program that embeds it.
package remote
