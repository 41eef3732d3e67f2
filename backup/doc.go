// Package backup copies data directories into a store, a directory or a bucket, again and again,
// and back.
//
// Each backup is a manifest: which files the directory had, and the SHA-256 of each. Files are
// objects of the store under their hashes, so what did not change since the last backup is there
// already and is not stored again; a block, which never changes, is not even read again. A manifest
// is written last. So an end at any moment leaves all backups before it whole, and what was stored
// of the one that did not come to its end is found by the next.
//
// A database may be in use while it is backed up, by this process or another one: everything that
// was committed before Take began is in the backup, and of later commits those up to some moment.
// docs/design/backup.md tells why.
package backup
