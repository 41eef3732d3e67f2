// Package ship uploads the blocks of a database to a bucket of an object store, in the layout that
// Thanos reads: chunks, index, and last meta.json with the external labels. It is a module of its
// own, for programs that want nothing of PromQL. Command tsdbserve has it by a flag.
//
// Each block is uploaded once. What is uploaded is written down in the data directory, in
// thanos.shipper.json, and the bucket is asked as well: neither an end at any moment nor the loss
// of that file costs a second upload. A block is held by hard links, below thanos/upload, from the
// moment that it is seen until it is in the bucket, so that merges and retention take nothing away.
// It is seen as soon as it is there with the options that Shipper.Prepare gives, otherwise when the
// next Sync begins.
//
// One Shipper at a time may work for a directory. docs/thanos.md has the rest.
package ship
