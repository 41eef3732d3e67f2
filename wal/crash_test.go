package wal

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// crasher runs workloads, cuts the power at random moments, also while it repairs
// what an earlier cut left, and checks what every state of the disk gives.
type crasher struct {
	t      testing.TB
	rng    *rand.Rand
	states int // disks checked
	budget int // disks that may still be
}

// promise is what a log may and must give after a crash.
type promise struct {
	bodies map[uint64][]string // by sequence number, all that were ever enqueued
	synced uint64              // these must be there
	last   uint64              // none above this may
}

func TestCrash_WhatIsSyncedStaysAndWhatStaysIsAPrefix(t *testing.T) {
	runs := 80
	if !sweep.Whole() {
		runs = 30
	}
	states := 0
	for _, seed := range sweep.Seeds(t, runs) {
		c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 1)), budget: 40}
		c.run(tsdbtest.NewMemFS(), Position{}, promise{bodies: map[uint64][]string{}}, 3)
		states += c.states
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d states of the disk", states)
}

// run opens a log at a position, works on it and crashes now and then; at the end the
// process is killed without a Close.
func (c *crasher) run(disk *tsdbtest.MemFS, at Position, p promise, depth int) {
	if depth == 0 {
		return
	}
	p.bodies = maps.Clone(p.bodies)
	policies := []SyncPolicy{SyncCommit(), SyncInterval(1), SyncRotate(), SyncNever()}
	opts := Options{SegmentSize: 2 * PageSize, Compression: codecOf(Compression(c.rng.IntN(3))), Sync: policies[c.rng.IntN(4)]}
	var l *Log
	busy := false
	disk.SetHook(func(op tsdbtest.Op) error {
		if busy || !op.Kind.Mutates() || c.rng.IntN(12) > 0 {
			return nil
		}
		busy = true // the clones have no hook, but what they share may call
		now := p
		if l != nil {
			now.synced = max(p.synced, l.Synced())
		}
		c.crash(disk, now, depth, 1+c.rng.IntN(2))
		busy = false
		return nil
	})
	l = openLog(c.t, disk, opts, at)
	for range 2 + c.rng.IntN(25) {
		switch c.rng.IntN(12) {
		case 0:
			require.NoError(c.t, l.Sync())
		case 1:
			_, err := l.Rotate()
			require.NoError(c.t, err)
		default:
			c.commit(l, &p)
		}
	}
	disk.SetHook(nil)
	p.synced = max(p.synced, l.Synced())
	c.crash(disk, p, depth, 4)
	killed := disk.KillClone()
	require.Equal(c.t, p.last, replay(c.t, killed, 1).LastSeq, "the kernel has all of it")
	c.verify(killed, p, depth)
}

// commit writes a commit with a content that no other one has.
func (c *crasher) commit(l *Log, p *promise) {
	var recs [][]byte
	for range c.rng.IntN(4) {
		n := c.rng.IntN(200)
		if c.rng.IntN(10) == 0 {
			n = c.rng.IntN(90000)
		}
		rec := fmt.Appendf(nil, "\x02%d ", c.rng.Uint64())
		recs = append(recs, append(rec, lcg(c.rng.Uint32(), n)...))
	}
	cm := fill(new(Commit), recs...)
	require.NoError(c.t, l.Enqueue(cm))
	p.bodies[cm.Seq()], p.last = texts(recs), cm.Seq()
	require.NoError(c.t, l.Write(cm))
}

// crash verifies some states that a power cut may leave.
func (c *crasher) crash(disk *tsdbtest.MemFS, p promise, depth, n int) {
	for range n {
		opts := tsdbtest.CrashOptions{Seed: c.rng.Uint64(), Ordered: c.rng.IntN(3) == 0}
		switch c.rng.IntN(6) {
		case 0:
			opts.Choose = tsdbtest.LoseAll
		case 1:
			opts.Choose = tsdbtest.KeepAll
		}
		c.verify(disk.CrashClone(opts), p, depth)
	}
}

// verify replays and repairs a disk as it is after a crash, with more crashes on the
// way, and goes on working on it.
func (c *crasher) verify(disk *tsdbtest.MemFS, p promise, depth int) {
	if c.budget--; c.budget < 0 {
		return
	}
	c.states++
	got := replay(c.t, disk, 1)
	last := got.LastSeq
	c.require(disk, got, p)

	during := p
	during.last = last
	busy := false
	disk.SetHook(func(op tsdbtest.Op) error {
		if busy || depth <= 1 || !op.Kind.Mutates() || c.rng.IntN(6) > 0 {
			return nil
		}
		busy = true
		c.crash(disk, during, depth-1, 1)
		busy = false
		return nil
	})
	at, err := Repair(context.Background(), disk, testDir, testQuarantine, testTmp, got.ReplayReport)
	disk.SetHook(nil)
	require.NoError(c.t, err)
	require.GreaterOrEqual(c.t, at.NextSeq, last+1)
	cleanSegments(c.t, disk)
	require.Empty(c.t, disk.OpenHandles())

	after := promise{bodies: p.bodies, synced: last, last: last}
	again := replay(c.t, disk, 1)
	c.require(disk, again, after)
	require.False(c.t, again.TornTail, disk.FateString())
	if depth > 1 {
		c.crash(disk, after, depth-1, 1)
	}
	c.run(disk, at, after, depth-1)
}

// require checks that a replay gave a prefix that has what it must and no more than
// it may.
func (c *crasher) require(disk *tsdbtest.MemFS, got *replayed, p promise) {
	c.t.Helper()
	state := func() string { return disk.FateString() + fmt.Sprintf("%+v", got.ReplayReport) }
	last := uint64(len(got.order))
	empty := uint64(0) // commits without records do not show in Apply
	for seq := uint64(1); seq <= got.LastSeq; seq++ {
		if len(p.bodies[seq]) == 0 {
			empty++
			continue
		}
		if fmt.Sprint(p.bodies[seq]) != fmt.Sprint(got.commits[seq]) {
			require.Fail(c.t, fmt.Sprintf("commit %d is not what was written", seq), state())
		}
	}
	require.Equal(c.t, got.LastSeq, last+empty, state())
	require.EqualValues(c.t, last, got.Commits, state())
	require.GreaterOrEqual(c.t, got.LastSeq, p.synced, state())
	require.LessOrEqual(c.t, got.LastSeq, p.last, state())
	require.Empty(c.t, got.single, state())
}
