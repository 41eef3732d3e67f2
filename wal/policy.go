package wal

import "time"

// SyncMode says which event brings commits to stable storage.
type SyncMode uint8

// The modes. The zero mode is none of them and is taken for ModeCommit.
const (
	ModeCommit   SyncMode = iota + 1 // each commit, before Log.Write returns
	ModeInterval                     // the owner calls Log.Sync once per interval
	ModeRotate                       // a segment when the next one is begun
	ModeNever                        // only Log.Sync, Log.SyncTo and Log.Close
)

// SyncPolicy says when commits reach stable storage. A commit is in the hands of the
// operating system when Log.Write returns, whatever the policy: it survives the death
// of the process, and the policy says what survives the death of the machine.
type SyncPolicy struct {
	mode     SyncMode
	interval time.Duration
}

// SyncCommit syncs each commit before Write returns; concurrent commits share a sync.
func SyncCommit() SyncPolicy { return SyncPolicy{mode: ModeCommit} }

// SyncInterval syncs once per d. The log runs no timer: its owner calls Log.Sync.
func SyncInterval(d time.Duration) SyncPolicy { return SyncPolicy{mode: ModeInterval, interval: d} }

// SyncRotate syncs a segment when the next one is begun.
func SyncRotate() SyncPolicy { return SyncPolicy{mode: ModeRotate} }

// SyncNever syncs when asked to and on Close, not even finished segments.
func SyncNever() SyncPolicy { return SyncPolicy{mode: ModeNever} }

// Mode returns the event.
func (p SyncPolicy) Mode() SyncMode { return p.mode }

// Interval returns the time between two syncs; zero unless the mode is ModeInterval.
func (p SyncPolicy) Interval() time.Duration { return p.interval }

// String returns the policy as one would write it: interval(1s).
func (p SyncPolicy) String() string {
	switch p.mode {
	case ModeCommit:
		return "commit"
	case ModeInterval:
		return "interval(" + p.interval.String() + ")"
	case ModeRotate:
		return "rotate"
	case ModeNever:
		return "never"
	default:
		return "unset"
	}
}
