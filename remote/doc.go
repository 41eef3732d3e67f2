// Package remote speaks the Prometheus remote-read protocol over HTTP. ReadHandler serves
// a database, ReadClient reads from other servers.
//
// It knows messages, frames and HTTP. It knows no files and decodes samples only where
// the protocol wants them one by one; everything goes through the public API of package
// tsdb. A request needs the same memory whether it selects ten series or a million
// (docs/design/remote.md says how).
//
// A handler may be used by any number of goroutines. It knows no users: whatever decides
// who may read is put in front of it by the program that embeds it.
package remote
