// Package latelog is the out-of-order log of a head: its late samples until they are in blocks.
//
// It repeats what commits of the log say of late samples, behind them, with their numbers. So a
// commit counts if the log has it, and what is missing here the log has, until a checkpoint leaves
// it out: that waits until this log has it on stable storage. Other engines read this log only.
//
// It knows its segments, and which of them are needed. It does not know what is late, nor when
// samples become blocks. A Log is safe for concurrent use, a Commit is for one goroutine at a time.
// docs/design/late-samples.md tells how late samples go.
package latelog
