// Package bench runs this library and the reference engine on the same work in one
// process, one after the other and in turns, so that a noisy machine is noisy for
// both. It is a module of its own: the library does not depend on the reference.
//
// Both engines get the same label sets, values and commit sizes, a log with snappy,
// and no sync but at the end of a log segment, which is what the reference does.
// Figures are medians of interleaved runs; ratios are what counts.
package bench
