// Package horizon tells how far time has come, for who counts back from it what is too old.
//
// The time of day can be set, and so can the times of samples, but time itself only passes. A
// Horizon goes no further in an instant than time has passed since the last look, and holds what
// it knew over a restart. When the time of day is further than that, the difference is in doubt:
// somebody set the clock, or the machine was off. It is believed when as much time has passed as
// anything is kept for. What was written before the doubt is too old then by any clock.
//
// It knows nothing of blocks. It is for one goroutine.
package horizon
