package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Two Appenders create one series, and the one that was second to do so commits first.

func TestAppender_TwoCreateOneSeriesAndNeitherLosesASample(t *testing.T) {
	const name = `{a="b"}`
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 27))
		f := newFixture(t, func(o *tsdb.Options) { manual(o); o.WAL.Sync = tsdb.SyncCommit() })
		times := [2][]int64{{10, 30}, {20, 40}}
		if rng.IntN(2) == 0 {
			times = [2][]int64{{10, 20}, {30}}
		}
		var apps [2]*tsdb.Appender
		for i := range apps { // each creates the series before one of them commits
			apps[i] = f.db.Appender()
			for _, ts := range times[i] {
				_, err := apps[i].Append(0, series(t, name), ts, float64(i))
				require.NoError(t, err)
			}
			f.commit(sample{fmt.Sprintf(`{other="%d"}`, i), 1, 1})
		}
		var want []point
		order, second := []int{0, 1}, rng.IntN(3)
		if rng.IntN(4) > 0 {
			order = []int{1, 0} // the second one first
		}
		for k, i := range order {
			if k == 1 && second == 0 {
				require.NoError(t, apps[i].Rollback())
				continue
			}
			if k == 0 && second == 1 { // the first commit fails, and with it the series record
				f.fs.SetCapacity(f.fs.Used())
				_, err := apps[i].Commit(ctx)
				require.ErrorIs(t, err, tsdb.ErrNotCommitted)
				f.fs.SetCapacity(0)
				continue
			}
			res, err := apps[i].Commit(ctx)
			require.NoError(t, err)
			gone := map[int]bool{}
			for _, r := range res.Rejected {
				require.ErrorIs(t, r.Err, tsdb.ErrOutOfOrder)
				gone[r.Index] = true
			}
			for j, ts := range times[i] {
				if !gone[j] {
					want = append(want, point{ts, math.Float64bits(float64(i))})
				}
			}
		}
		require.NotEmpty(t, want)
		require.Equal(t, want, f.all()[name], "seed %d", seed)
		for how, disk := range map[string]*tsdbtest.MemFS{
			"killed":     f.fs.KillClone(),
			"power lost": f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}),
		} {
			opts := *f.opts
			opts.FS = disk
			db, err := tsdb.Open(fixtureDir, &opts)
			require.NoError(t, err)
			rep := db.OpenReport()
			require.True(t, rep.Clean(), "seed %d, %s: %+v", seed, how, rep)
			require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64)[name], "seed %d, %s", seed, how)
			require.NoError(t, db.Close())
		}
	}
}

// Another engine logs the record of such a series behind the samples of the first commit.
func TestReplay_SamplesBeforeTheirSeriesRecordAreRead(t *testing.T) {
	filler := func(from int) (records [][]byte) { // so much that workers have appended before the record comes
		for i := range 120 {
			var rtv []float64
			for k := range 3000 {
				rtv = append(rtv, []float64{1, 4}[k%2], float64(from+i*3000+k), 1) // of both workers
			}
			records = append(records, samplesRecord(rtv...))
		}
		return records
	}
	early := samplesRecord(2, 100, 1, 3, 100, 1, 2, 110, 2)
	late := samplesRecord(2, 120, 3, 3, 105, 3)
	for _, far := range []bool{false, true} {
		t.Run(fmt.Sprint(far), func(t *testing.T) {
			commits := [][][]byte{{seriesRecord(1, "i", "1"), seriesRecord(4, "i", "4")}, {early}}
			add := func(records ...[]byte) {
				for _, rec := range records {
					commits = append(commits, [][]byte{rec})
				}
			}
			add(record.AppendTombstones(nil, []record.Tombstone{{Ref: 2, Mint: 110, Maxt: 110}, {Ref: 3, Mint: 0, Maxt: 1}}))
			if far {
				add(filler(0)...)
			}
			add(seriesRecord(2, "a", "b"), late)
			if far {
				add(filler(1_000_000)...)
			}
			add(samplesRecord(3, 130, 4)) // of nobody
			f := withLog(t, commits...)
			rep := f.db.OpenReport()
			require.EqualValues(t, 3, rep.SamplesUnknown, "of the series without a record")
			require.False(t, rep.Clean())
			require.EqualValues(t, 1, rep.Tombstones)
			require.Equal(t, points(100, 1, 120, 3), f.all()[`{a="b"}`])

			v, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
			require.NoError(t, err)
			var told []string
			for _, found := range v.Findings {
				if found.Severity > tsdb.SeverityNote {
					told = append(told, found.Severity.String()+": "+found.What)
				}
			}
			require.ElementsMatch(t, []string{
				"damage: 3 samples of 1 series have no series record",
				"warning: 2 samples stand before the record of their series",
			}, told)
		})
	}
}

// The record turns out to be another name of a series that is known.
func TestReplay_SamplesBeforeARecordThatRepeatsLabelsAreRead(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		for ref := uint64(5); ref < 9; ref++ {
			log := [][]byte{
				seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1),
				samplesRecord(float64(ref), 20, 2),
				record.AppendTombstones(nil, []record.Tombstone{{Ref: ref, Mint: 20, Maxt: 20}}),
				samplesRecord(float64(ref), 30, 3),
				seriesRecord(ref, "a", "b"),
				samplesRecord(float64(ref), 40, 4, 1, 50, 5),
			}
			var commits [][][]byte
			for _, rec := range log {
				commits = append(commits, [][]byte{rec})
			}
			f := withLog(t, commits...)
			require.NoError(t, f.db.Close())
			f.opts.Head.ReplayWorkers = workers
			f.open()
			require.Equal(t, points(10, 1, 30, 3, 40, 4, 50, 5), f.all()[`{a="b"}`], "%d workers, ref %d", workers, ref)
			rep := f.db.OpenReport()
			require.True(t, rep.Clean(), "%+v", rep)
		}
	}
}
