package wal

import (
	"sync/atomic"
	"time"
)

// Stats are the counters of a Log since Open.
type Stats struct {
	Bytes    uint64 // written to segments, headers and frames included
	Commits  uint64 // written
	Writes   uint64 // write calls for commits; Commits/Writes is the mean group
	MaxGroup int    // most commits in one group
	Syncs    uint64 // of segment files
	SyncTime time.Duration
	MaxSync  time.Duration
	LastSync time.Duration
	Segments uint64 // begun
	Segment  int    // number of the current one
}

// counters are written by the leader (bytes to maxGroup, segments) and under openSegments.mu
// (the rest).
type counters struct {
	bytes, commits, writes, segments, syncs atomic.Uint64
	maxGroup                                atomic.Int64
	syncTime, maxSync, lastSync             atomic.Int64 // nanoseconds
}

func (c *counters) group(group []*Commit) {
	n := len(group)
	for _, commit := range group {
		if commit.rotate {
			n--
		}
	}
	c.commits.Add(uint64(n))
	c.maxGroup.Store(max(c.maxGroup.Load(), int64(n)))
}

func (c *counters) sync(d time.Duration) {
	c.syncs.Add(1)
	c.syncTime.Add(int64(d))
	c.lastSync.Store(int64(d))
	c.maxSync.Store(max(c.maxSync.Load(), int64(d)))
}
