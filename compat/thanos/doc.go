// Package thanos has only tests: a real Thanos reads a database of this library, through its
// sidecar from the server of prom, and through its store gateway from the blocks that prom/ship
// uploads; its compactor merges those and downsamples them, and its tool verifies them.
//
// Thanos is built from testdata/thanos, a module of its own: its dependencies go with no other.
// That takes minutes, so `make thanos` runs these tests, and without TSDB_THANOS=1 in the
// environment they skip. Everything listens on loopback.
package thanos
