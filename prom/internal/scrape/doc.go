// Package scrape reads metrics of other programs over HTTP, again and again, and appends them to a
// storage. Targets are static; what they answer is read by the reference's own parsers.
//
// A Runner is for one run. Its targets are read by a goroutine each, at times that are spread over
// the interval.
package scrape
