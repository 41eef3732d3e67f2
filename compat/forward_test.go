package compat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// requireReferenceReads proves that the reference reads exactly want from a directory
// that we closed: read-only, which must not even change it, and read-write with block
// ranges of two hours and of a century, where it must count and log no damage.
func requireReferenceReads(t testing.TB, dir string, want data) {
	t.Helper()
	before := listing(t, dir)
	requireEqual(t, want, dumpReadOnly(t, dir, excuses{}), "reference, read-only")
	require.Equal(t, before, listing(t, dir))
	for _, blockRange := range []int64{century, (2 * time.Hour).Milliseconds()} {
		r := openTheirs(t, copyDir(t, dir), func(o *reference.Options) { o.MinBlockDuration = blockRange })
		requireEqual(t, want, r.dump(), fmt.Sprintf("reference, block range %d ms", blockRange))
		r.requireUndamaged()
		r.close()
	}
}

// writerOptions are combinations under which we write.
func writerOptions() map[string]func(*tsdb.Options) {
	return map[string]func(*tsdb.Options){
		"defaults": func(*tsdb.Options) {},
		"no compression, tiny segments, small chunks": func(o *tsdb.Options) {
			o.WAL.Compression, o.WAL.SegmentSize, o.Head.SamplesPerChunk = tsdb.CompressionNone, 32<<10, 16
		},
		"zstd, small segments": func(o *tsdb.Options) {
			o.WAL.Compression, o.WAL.SegmentSize, o.WAL.Sync = tsdb.CompressionBy(zstd.Codec), 128<<10, tsdb.SyncNever()
		},
		"snappy, small segments, large chunks": func(o *tsdb.Options) {
			o.WAL.SegmentSize, o.Head.SamplesPerChunk, o.WAL.Sync = 256<<10, 480, tsdb.SyncRotate()
		},
		"minute block range": func(o *tsdb.Options) {
			o.Blocks.Range, o.Head.SamplesPerChunk = time.Minute, 20
		},
	}
}

// A directory that we closed opens in the reference with every sample, whatever the
// options, with thousands of series, UTF-8, NaN payloads, negative times, several
// segments, and chunks in head-chunk files.
func TestForward_CleanClose_OpensInTheReference(t *testing.T) {
	for name, change := range writerOptions() {
		for start, at := range map[string]int64{"before the epoch": -7_300_000, "now": 1_700_000_000_000} {
			t.Run(name+", "+start, func(t *testing.T) {
				g := newGenerator(plan{Seed: seed(t, 1), Series: scaled(2500), Start: at, Jumps: true})
				few := newGenerator(plan{Seed: seed(t, 2), Series: 20, Writer: 1, Start: at, Jumps: true})
				dir, want := t.TempDir(), data{}
				db := openOurs(t, dir, change)
				for range scaled(150) {
					for _, g := range []*generator{g, few} {
						rows := g.commit()
						db.commit(g.set, rows)
						want.add(g.set, rows)
					}
				}
				db.writeChunks()
				requireEqual(t, want, db.dump(), "ours, open")
				db.close()
				require.NotEmpty(t, newestFile(t, filepath.Join(dir, "wal")))
				if !testing.Short() { // too few samples to fill large chunks
					require.NotEmpty(t, newestFile(t, filepath.Join(dir, "chunks_head")), "no full chunk was written")
				}
				requireReferenceReads(t, dir, want)
				db = openOurs(t, dir, change)
				requireEqual(t, want, db.dump(), "ours, opened again")
				db.requireClean()
			})
		}
	}
}

// The extreme times and values that we accept are read by the reference.
func TestForward_ExtremeTimes_OpenInTheReference(t *testing.T) {
	set := []series{newSeries("a", "1"), newSeries("a", "2"), newSeries("a", "3")}
	const far = math.MaxInt64 / 4
	rows := []row{{0, -far, 1}, {0, -1, 2}, {0, 0, 3}, {0, 1, 4}, {0, far, 5}, {1, far, math.Inf(1)}, {2, -far, math.NaN()}}
	dir, want := t.TempDir(), data{}
	db := openOurs(t, dir)
	db.commit(set, rows)
	want.add(set, rows)
	requireEqual(t, want, db.dump(), "ours")
	db.close()
	requireEqual(t, want, dumpReadOnly(t, dir, excuses{}), "reference, read-only")
}

// The reference makes blocks of what we wrote, and nothing is missing afterwards.
func TestForward_Compaction_OfOurHeadKeepsEverything(t *testing.T) {
	g := newGenerator(plan{Seed: seed(t, 3), Series: 300, Start: 1_700_000_000_000, Jumps: true})
	dir, want := t.TempDir(), data{}
	db := openOurs(t, dir, func(o *tsdb.Options) { o.WAL.SegmentSize, o.Head.SamplesPerChunk = 64<<10, 30 })
	for range scaled(400) {
		rows := g.commit()
		db.commit(g.set, rows)
		want.add(g.set, rows)
	}
	db.close()
	r := openTheirs(t, dir, func(o *reference.Options) {
		o.MinBlockDuration = (30 * time.Minute).Milliseconds()
		o.MaxBlockDuration = 9 * o.MinBlockDuration
	})
	r.db.EnableCompactions()
	require.NoError(t, r.db.Compact(t.Context()))
	require.NotEmpty(t, r.db.Blocks())
	requireEqual(t, want, r.dump(), "reference, compacted")
	r.requireUndamaged()
	r.close()
	r = openTheirs(t, dir)
	requireEqual(t, want, r.dump(), "reference, compacted and opened again")
	r.requireUndamaged()
}

// A process of ours is killed while several goroutines commit. Our recovery shows all
// that was acknowledged, at most one more commit of each writer, whole commits only;
// and after it the reference reads the same and finds nothing to repair.
func TestForward_Kill_RecoversAndOpensInTheReference(t *testing.T) {
	for i := range scaled(12) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := child{Engine: "ours", Dir: t.TempDir(), Seed: seed(t, uint64(100+i)), Writers: 1 + i%4, Series: 200, Compression: []string{"snappy", "zstd", "none"}[i%3]}
			dir := c.Dir
			acked := c.runAndKill(t, 20+i*40)
			requireWholeCommits(t, c, dir, acked)
		})
	}
}

// The same when the process dies again in the middle of recovery or soon after it, and
// the log has been through several lives.
func TestForward_KillAgainAndAgain_OpensInTheReference(t *testing.T) {
	dir, want := t.TempDir(), data{}
	for life := range scaled(8) {
		c := child{Engine: "ours", Dir: dir, Seed: seed(t, uint64(200+life)), Writers: 2, FirstWriter: 2 * life, Series: 100, Compression: "snappy"}
		acked := c.runAndKill(t, 5+life*15)
		for w, n := range acked {
			g := newGenerator(c.plan(w))
			for range n {
				want.add(g.set, g.commit())
			}
		}
	}
	db := openOurs(t, dir)
	db.requireClean()
	got := db.dump()
	for key, ps := range want {
		require.GreaterOrEqual(t, len(got[key]), len(ps), "an acknowledged sample of %s is missing", key)
		require.Equal(t, ps, got[key][:len(ps)])
	}
	db.close()
	requireReferenceReads(t, dir, got)
}

// requireWholeCommits opens what a killed child of ours left.
func requireWholeCommits(t *testing.T, c child, dir string, acked map[int]int) {
	t.Helper()
	db := openOurs(t, dir)
	db.requireClean()
	got := db.dump()
	rest := got.samples()
	for w, n := range acked {
		g := newGenerator(c.plan(w))
		want := data{}
		for range n {
			want.add(g.set, g.commit())
		}
		mine := data{}
		for _, s := range g.set {
			if ps := got[s.key]; len(ps) > 0 {
				mine[s.key] = ps
			}
		}
		rest -= mine.samples()
		if mine.samples() != want.samples() { // then the commit in flight is there, whole
			want.add(g.set, g.commit())
		}
		requireEqual(t, want, mine, fmt.Sprintf("ours, writer %d with %d acknowledged commits", w, n))
	}
	require.Zero(t, rest, "samples that nobody wrote")
	db.close()
	requireReferenceReads(t, dir, got)
}

// damage is something that happens to a copy of a live directory.
type damage struct {
	name string
	hit  func(t testing.TB, dir string, rng *rand.Rand)
}

func damages() []damage {
	lastSegment := func(t testing.TB, dir string) string { return newestFile(t, filepath.Join(dir, "wal")) }
	lastChunks := func(t testing.TB, dir string) string { return newestFile(t, filepath.Join(dir, "chunks_head")) }
	return []damage{
		{"log cut", func(t testing.TB, dir string, rng *rand.Rand) {
			cut(t, lastSegment(t, dir), rng)
		}},
		{"log cut by a few bytes", func(t testing.TB, dir string, rng *rand.Rand) {
			name := lastSegment(t, dir)
			require.NoError(t, os.Truncate(name, max(0, sizeOf(t, name)-1-rng.Int64N(60))))
		}},
		{"tail of zeros", func(t testing.TB, dir string, rng *rand.Rand) {
			zeroTail(t, lastSegment(t, dir), rng)
		}},
		{"cut and zeros behind", func(t testing.TB, dir string, rng *rand.Rand) {
			name := lastSegment(t, dir)
			size := sizeOf(t, name)
			cut(t, name, rng)
			require.NoError(t, os.Truncate(name, size))
		}},
		{"garbage in the tail", func(t testing.TB, dir string, rng *rand.Rand) {
			name := lastSegment(t, dir)
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			for i := max(0, len(text)-1-rng.IntN(4096)); i < len(text); i++ {
				text[i] = byte(rng.Uint32())
			}
			require.NoError(t, os.WriteFile(name, text, 0o666))
		}},
		{"head chunks cut", func(t testing.TB, dir string, rng *rand.Rand) {
			if name := lastChunks(t, dir); name != "" {
				cut(t, name, rng)
			}
		}},
		{"head chunks zeroed", func(t testing.TB, dir string, rng *rand.Rand) {
			if name := lastChunks(t, dir); name != "" {
				zeroTail(t, name, rng)
			}
		}},
		{"both cut", func(t testing.TB, dir string, rng *rand.Rand) {
			cut(t, lastSegment(t, dir), rng)
			if name := lastChunks(t, dir); name != "" {
				cut(t, name, rng)
			}
		}},
		{"head chunks lost", func(t testing.TB, dir string, _ *rand.Rand) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "chunks_head")))
		}},
	}
}

// cut takes off a random part of a file's end, the whole file at times.
func cut(t testing.TB, name string, rng *rand.Rand) {
	t.Helper()
	require.NoError(t, os.Truncate(name, rng.Int64N(sizeOf(t, name))))
}

// zeroTail writes zeros over a random part of a file's end.
func zeroTail(t testing.TB, name string, rng *rand.Rand) {
	t.Helper()
	size := sizeOf(t, name)
	require.NoError(t, os.Truncate(name, rng.Int64N(size)))
	require.NoError(t, os.Truncate(name, size))
}

// A directory that lost or garbled its tails, as when the power fails, is opened and
// closed by us. What we have then was written by us, in commits from the first on
// where the log alone was hit; and the reference reads exactly that, and finds
// nothing to repair.
func TestForward_LostTails_RecoverAndOpenInTheReference(t *testing.T) {
	for i, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed(t, uint64(300+i)), 0))
			g := newGenerator(plan{Seed: rng.Uint64(), Series: 60, Start: 1_700_000_000_000, Jumps: true})
			dir, written := t.TempDir(), data{}
			db := openOurs(t, dir, func(o *tsdb.Options) {
				o.Head.SamplesPerChunk, o.WAL.SegmentSize, o.WAL.Sync = 16, 64<<10, tsdb.SyncNever()
			})
			for trial := range scaled(6) {
				for range 20 + rng.IntN(60) {
					rows := g.commit()
					db.commit(g.set, rows)
					written.add(g.set, rows)
					if rng.IntN(10) == 0 {
						db.writeChunks()
					}
				}
				hurt := copyDir(t, dir)
				d.hit(t, hurt, rng)
				requireRecovers(t, fmt.Sprintf("trial %d", trial), hurt, written)
			}
		})
	}
}

// requireRecovers opens a damaged copy, checks that it holds nothing but what was
// written, series by series from the start, and shows it to the reference.
func requireRecovers(t testing.TB, name, dir string, written data) {
	t.Helper()
	db := openOurs(t, dir)
	got := db.dump()
	for key, ps := range got {
		require.GreaterOrEqual(t, len(written[key]), len(ps), "%s: %s", name, key)
		require.Equal(t, written[key][:len(ps)], ps, "%s: %s", name, key)
	}
	db.close()
	requireReferenceReads(t, dir, got)
	again := openOurs(t, dir)
	requireEqual(t, got, again.dump(), name+": ours, opened again")
	again.requireClean()
	again.close()
}
