// Package late keeps samples that came late: behind newer ones of their series, or before the time
// from which on the head takes samples. They stay in memory, sorted by time, until they become
// blocks.
//
// It knows which late samples a series has, which of them a snapshot sees, and what counts where
// several came for one time. It does not know samples in order, labels, logs or files.
// docs/design/late-samples.md tells how late samples go.
package late
