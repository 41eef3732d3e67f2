// Package isolation decides which commits a reader sees: it publishes them in the order of the
// log, each as a whole, and knows which snapshots are open.
//
// It knows numbers and times only: not what is in a commit, when it is applied, or who reads. The
// head tells it when a commit is applied, and asks what may be forgotten; a reader takes a
// snapshot and gives it back. docs/design/concurrency.md has the rules.
//
// Everything is for any number of goroutines at once. Its lock is a leaf: nothing is taken under
// it.
package isolation
