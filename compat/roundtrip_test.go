package compat

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// Ours and the reference append in turns to one directory, in random order and with
// random options, at times leaving it as a crash would. Each finds all that both wrote,
// each time, and nothing to repair.
func TestRoundtrip_TurnsInOneDirectory_KeepEverything(t *testing.T) {
	for i := range scaled(10) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed(t, uint64(800+i)), 0))
			g := newGenerator(plan{Seed: rng.Uint64(), Series: 50 + 50*i, Start: int64(i-5) * 10_000_000, Jumps: true})
			dir, want := t.TempDir(), data{}
			// Both orders of the first four turns are tried, then anything goes.
			for turn := range 8 {
				first := (i + turn) % 2
				if turn >= 4 {
					first = rng.IntN(2)
				}
				var e engine
				if first == 0 {
					db := openOurs(t, dir, randomOptions(rng))
					db.requireClean()
					e = db
				} else {
					r := openTheirs(t, dir, randomReferenceOptions(rng))
					e = r
				}
				msg := fmt.Sprintf("turn %d, %T", turn, e)
				requireEqual(t, want, e.dump(), msg+", opened")
				for range 1 + rng.IntN(40) {
					rows := g.commit()
					e.commit(g.set, rows)
					want.add(g.set, rows)
				}
				requireEqual(t, want, e.dump(), msg+", appended")
				if r, ok := e.(*theirs); ok {
					r.requireUndamaged()
				}
				if rng.IntN(3) == 0 { // a crash after everything was written
					left := copyDir(t, dir)
					e.close()
					dir = left
				} else {
					e.close()
				}
			}
			r := openTheirs(t, dir)
			requireEqual(t, want, r.dump(), "the reference in the end")
			r.requireUndamaged()
			r.close()
			db := openOurs(t, dir)
			requireEqual(t, want, db.dump(), "ours in the end")
			db.requireClean()
			require.Zero(t, db.db.OpenReport().SamplesUnknown)
		})
	}
}

func randomOptions(rng *rand.Rand) func(*tsdb.Options) {
	return func(o *tsdb.Options) {
		o.WAL.SegmentSize = 32 << 10 << rng.IntN(4)
		o.WAL.Compression = []tsdb.Compression{tsdb.CompressionSnappy, tsdb.CompressionBy(zstd.Codec), tsdb.CompressionNone}[rng.IntN(3)]
		o.WAL.Sync = []tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncInterval(time.Second), tsdb.SyncRotate(), tsdb.SyncNever()}[rng.IntN(4)]
		o.Head.SamplesPerChunk = []int{16, 30, 120, 480}[rng.IntN(4)]
		o.Head.ReplayWorkers = 1 + rng.IntN(4)
		o.Head.SnapshotThreshold = []int64{1, 1, 0, -1}[rng.IntN(4)]
		o.Blocks.Range = []time.Duration{time.Minute, 2 * time.Hour, 365 * 24 * time.Hour}[rng.IntN(3)]
		o.Blocks.MaxRange = o.Blocks.Range
	}
}

func randomReferenceOptions(rng *rand.Rand) func(*reference.Options) {
	return func(o *reference.Options) {
		o.WALSegmentSize = 32 << 10 << rng.IntN(4)
		o.WALCompression = compressions[rng.IntN(3)]
		o.SamplesPerChunk = []int{16, 30, 120, 480}[rng.IntN(4)]
		o.WALReplayConcurrency = 1 + rng.IntN(4)
	}
}
