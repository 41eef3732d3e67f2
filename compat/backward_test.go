package compat

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
)

// requireEqualToReference opens a directory of the reference, once in a copy with the
// reference itself and once, as it is, with ours, and requires the same samples. It
// returns them and what our recovery reported.
func requireEqualToReference(t testing.TB, dir string) (data, tsdb.OpenReport) {
	t.Helper()
	r := openTheirs(t, copyDir(t, dir))
	want := r.dump()
	r.close()
	db := openOurs(t, dir)
	defer db.close()
	requireEqual(t, want, db.dump(), "ours")
	db.requireClean()
	return want, db.db.OpenReport()
}

// compressions of the reference's log.
var compressions = []string{"snappy", "zstd", "none"}

// A directory that the reference closed opens here with every sample and a clean
// report, and after us the reference finds it in order.
func TestBackward_CleanClose_OpensHere(t *testing.T) {
	for i, compression := range compressions {
		for start, at := range map[string]int64{"before the epoch": -7_300_000, "now": 1_700_000_000_000} {
			t.Run(compression+", "+start, func(t *testing.T) {
				g := newGenerator(plan{Seed: seed(t, uint64(400+i)), Series: scaled(2500), Start: at, Jumps: true})
				few := newGenerator(plan{Seed: seed(t, uint64(410+i)), Series: 20, Writer: 1, Start: at, Jumps: true})
				dir, want := t.TempDir(), data{}
				r := openTheirs(t, dir, func(o *reference.Options) {
					o.WALCompression, o.WALSegmentSize, o.SamplesPerChunk = compression, 128<<10, 30
				})
				for range scaled(150) {
					for _, g := range []*generator{g, few} {
						rows := g.commit()
						r.commit(g.set, rows)
						want.add(g.set, rows)
					}
				}
				r.db.ForceHeadMMap()
				r.close()
				require.NotEmpty(t, newestFile(t, filepath.Join(dir, "chunks_head")))
				db := openOurs(t, dir)
				requireEqual(t, want, db.dump(), "ours")
				report := db.db.OpenReport()
				require.True(t, report.Clean() && !report.TornTail && len(report.Damages)+len(report.Quarantined) == 0, "%+v", report)
				db.close()
				requireReferenceReads(t, dir, want)
			})
		}
	}
}

// The reference is killed while several goroutines commit. All that it acknowledged is
// here, and exactly what it would have found itself.
func TestBackward_Kill_OpensHere(t *testing.T) {
	for i := range scaled(9) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := child{Engine: "theirs", Dir: t.TempDir(), Seed: seed(t, uint64(500+i)), Writers: 1 + i%3, Series: 200, Compression: compressions[i%3]}
			acked := c.runAndKill(t, 20+i*40)
			got, _ := requireEqualToReference(t, c.Dir)
			for w, n := range acked {
				g, want := newGenerator(c.plan(w)), data{}
				for range n {
					want.add(g.set, g.commit())
				}
				for key, ps := range want {
					require.GreaterOrEqual(t, len(got[key]), len(ps), key)
					require.Equal(t, ps, got[key][:len(ps)], "an acknowledged sample of %s is missing", key)
				}
			}
			requireReferenceReads(t, c.Dir, got)
		})
	}
}

// The tail of the reference's log or of its head chunks is lost or garbled. We find
// what the reference finds, and leave a directory that it need not repair.
func TestBackward_LostTails_OpenHere(t *testing.T) {
	for i, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed(t, uint64(600+i)), 0))
			g := newGenerator(plan{Seed: rng.Uint64(), Series: 60, Start: 1_700_000_000_000})
			dir := t.TempDir()
			r := openTheirs(t, dir, func(o *reference.Options) {
				o.WALCompression, o.WALSegmentSize, o.SamplesPerChunk = compressions[i%3], 64<<10, 16
			})
			for range scaled(6) {
				for range 20 + rng.IntN(60) {
					r.commit(g.set, g.commit())
					if rng.IntN(10) == 0 {
						r.db.ForceHeadMMap()
					}
				}
				hurt := copyDir(t, dir)
				d.hit(t, hurt, rng)
				got, _ := requireEqualToReference(t, hurt)
				requireReferenceReads(t, hurt, got)
			}
		})
	}
}

// stage appends rows to a new Appender of the reference, as far as they are accepted.
func (r *theirs) stage(set []series, rows []row) storage.Appender {
	app := r.db.Appender(r.t.Context())
	for _, row := range rows {
		_, _ = app.Append(0, set[row.series].theirs, row.t, row.v) // late already: not what is tested
	}
	return app
}

// Samples that became late while they were staged are in the log of the reference
// although it did not take them. We do not take them either.
func TestBackward_LateSamplesInTheLog_AreLeftOut(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t, 700), 0))
	set := newGenerator(plan{Series: 40}).set
	dir := t.TempDir()
	r := openTheirs(t, dir)
	r.commit(set, first(set)) // or samples stand before their series, see the next test
	for k := range scaled(300) {
		staged := make([]storage.Appender, 2+rng.IntN(3))
		for i := range staged {
			rows := make([]row, 1+rng.IntN(30))
			for j := range rows {
				rows[j] = row{rng.IntN(len(set)), int64(1 + k*100 + rng.IntN(150)), float64(rng.IntN(3))}
			}
			staged[i] = r.stage(set, rows)
		}
		for _, i := range rng.Perm(len(staged)) {
			require.NoError(t, staged[i].Commit())
		}
	}
	want := r.dump()
	r.close()
	got, report := requireEqualToReference(t, dir)
	requireEqual(t, want, got, "the reference, before and after")
	require.NotZero(t, report.SamplesLate, "no late sample was made")
	requireReferenceReads(t, dir, got)
}

// first is a sample for each series at time 0.
func first(set []series) []row {
	rows := make([]row, len(set))
	for i := range rows {
		rows[i] = row{i, 0, 1}
	}
	return rows
}

// Appenders that are rolled back leave series without samples in the log of the
// reference; and when one appender creates a series and another commits to it first,
// its samples stand before its record. The reference loses those at its next start.
// We have all that it had before.
func TestBackward_SamplesBeforeTheirSeries_AreKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t, 710), 0))
	set := newGenerator(plan{Series: 200}).set
	dir := t.TempDir()
	r := openTheirs(t, dir)
	for k := range scaled(100) {
		staged := make([]storage.Appender, 2)
		for i := range staged {
			rows := make([]row, 1+rng.IntN(20))
			for j := range rows {
				rows[j] = row{rng.IntN(1 + 4*k%len(set)), int64(k*1000 + rng.IntN(2)), rng.Float64()}
			}
			staged[i] = r.stage(set, rows)
		}
		for i := len(staged) - 1; i >= 0; i-- {
			if rng.IntN(4) == 0 {
				require.NoError(t, staged[i].Rollback())
			} else {
				require.NoError(t, staged[i].Commit())
			}
		}
	}
	want := r.dump()
	left := copyDir(t, dir)
	r.close()
	for _, dir := range []string{dir, left} {
		db := openOurs(t, dir)
		requireEqual(t, want, db.dump(), "ours")
		db.requireClean()
		db.close()
	}
}

// The reference truncates its head: the log begins with a checkpoint, head-chunk files
// with some number, and a series that was forgotten comes back under a second ref. What
// is newer than the cut is the same for both. What is older would be in a block; where
// none is, each engine shows what it happens to find, so that is not compared.
func TestBackward_Checkpoint_OpensHere(t *testing.T) {
	for i, compression := range compressions {
		t.Run(compression, func(t *testing.T) {
			g := newGenerator(plan{Seed: seed(t, uint64(720+i)), Series: 100, Start: 1_000_000})
			dir, want := t.TempDir(), data{}
			r := openTheirs(t, dir, func(o *reference.Options) {
				o.WALCompression, o.WALSegmentSize, o.SamplesPerChunk = compression, 32<<10, 16
			})
			back := []series{newSeries("gone", "and back")}
			var cut int64
			for k := range 4 {
				clear(r.refs) // some of them are gone
				rows := []row{{0, g.now, float64(k)}}
				r.commit(back, rows)
				want.add(back, rows)
				for range 60 {
					rows := g.commit()
					r.commit(g.set, rows)
					want.add(g.set, rows)
				}
				cut = g.now - (g.now-r.db.Head().MinTime())/5
				require.NoError(t, r.db.Head().Truncate(cut))
				g.now += 1000
			}
			rows := []row{{0, g.now, 4}}
			r.commit(back, rows)
			want.add(back, rows)
			r.close()
			checkpoints, err := filepath.Glob(filepath.Join(dir, "wal", "checkpoint.*"))
			require.NoError(t, err)
			require.NotEmpty(t, checkpoints)
			want = want.from(cut)
			require.Contains(t, want, back[0].key)

			r = openTheirs(t, copyDir(t, dir))
			requireEqual(t, want, r.dump().from(cut), "reference")
			r.close()
			db := openOurs(t, dir)
			requireEqual(t, want, db.dump().from(cut), "ours")
			db.requireClean()
		})
	}
}

// A snapshot that the reference left at shutdown is not needed, and it is gone before
// it could contradict what we append.
func TestBackward_Snapshot_IsNotUsedAndRemoved(t *testing.T) {
	withSnapshot := func(o *reference.Options) { o.EnableMemorySnapshotOnShutdown = true }
	g := newGenerator(plan{Seed: seed(t, 730), Series: 100})
	dir, want := t.TempDir(), data{}
	for range 3 {
		var e engine = openTheirs(t, dir, withSnapshot)
		for range 2 {
			requireEqual(t, want, e.dump(), "opened")
			for range 30 {
				rows := g.commit()
				e.commit(g.set, rows)
				want.add(g.set, rows)
			}
			e.close()
			snapshots, err := filepath.Glob(filepath.Join(dir, "chunk_snapshot.*"))
			require.NoError(t, err)
			if _, reference := e.(*theirs); reference {
				require.NotEmpty(t, snapshots)
				e = openOurs(t, dir)
			} else {
				require.Empty(t, snapshots)
			}
		}
	}
	r := openTheirs(t, dir, withSnapshot)
	requireEqual(t, want, r.dump(), "reference, with snapshots")
	r.requireUndamaged()
}

// A rolled back appender leaves a series in the log of the reference, which gets a
// second ref after a restart; head chunks come under both. They are all used, however
// often the directory is opened: chunks that were written again would overlap.
func TestBackward_SecondRefOfASeries_AllChunksAreUsed(t *testing.T) {
	g := newGenerator(plan{Seed: seed(t, 740), Series: 5})
	small := func(o *reference.Options) { o.SamplesPerChunk = 16 }
	dir, want := t.TempDir(), data{}
	r := openTheirs(t, dir, small)
	require.NoError(t, r.stage(g.set, first(g.set)).Rollback())
	r.close()
	r = openTheirs(t, dir, small)
	commit := func(e engine) {
		for range 30 {
			rows := g.commit()
			e.commit(g.set, rows)
			want.add(g.set, rows)
		}
	}
	commit(r)
	r.db.ForceHeadMMap()
	r.close()
	for range 3 {
		db := openOurs(t, dir, func(o *tsdb.Options) { o.Head.SamplesPerChunk = 16 })
		db.requireClean()
		require.Zero(t, db.db.OpenReport().SeriesRebuilt)
		require.NotZero(t, db.db.OpenReport().HeadChunks)
		requireEqual(t, want, db.dump(), "ours")
		commit(db)
		db.writeChunks()
		db.close()
	}
	r = openTheirs(t, dir)
	requireEqual(t, want, r.dump(), "reference")
}

// Blocks of ours that the reference cleans, and merges with others, have gone into what is there
// then. None of them is missed.
func TestBackward_BlocksThatWereCleanedAndMerged_AreNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openOurBlocks, plan{Seed: seed(t, 3540), Series: 20})
	w.append(60, 9*hour)
	w.e.flush()
	w.delete(worldStart+30*minute, worldStart+hour, matcher{"!=", "mod", "1"})
	blocks := len(metasOf(t, w.dir))
	w.e.close()
	w.e = openTheirBlocks(t, w.dir)
	w.e.cleanTombstones()
	w.e.compact()
	w.check("cleaned and merged")
	require.Less(t, len(metasOf(t, w.dir)), blocks)
	w.e.close()
	w.e = openOurBlocks(t, w.dir) // which requires that nothing is damaged
	w.check("opened again")
}
