package tsdb_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// refsOf returns the refs that records of the log give a series.
func (f *fixture) refsOf(selector string) (refs []uint64) {
	f.t.Helper()
	ls := series(f.t, selector)
	_, err := wal.Replay(context.Background(), wal.ReplayOptions{
		FS: f.fs, Dir: filepath.Join(fixtureDir, "wal"), Decoders: 1,
		Apply: func(b *wal.Batch) error {
			var dec record.SeriesDecoder
			for _, rec := range b.Records {
				if record.TypeOf(rec.Data) != record.TypeSeries {
					continue
				}
				for dec.Reset(rec.Data); dec.Next(); {
					named, err := dec.Labels()
					require.NoError(f.t, err)
					if named.Equal(ls) {
						refs = append(refs, dec.Ref())
					}
				}
			}
			return nil
		},
	})
	require.NoError(f.t, err)
	return refs
}

// A series leaves the head, comes back, and the database is opened anew, again and again. Each time
// it gets another ref. The log does not keep all of them.
func TestCheckpoint_KeepsFewRefsOfASeriesThatComesAndGoes(t *testing.T) {
	for _, exemplars := range []string{"none", "one", "each time"} {
		for _, restart := range []string{"close", "kill", "snapshot", "none"} {
			for _, often := range []int{1, 3} {
				if often > 1 && restart != "kill" {
					continue
				}
				t.Run(fmt.Sprint(exemplars, " ", restart, " ", often), func(t *testing.T) {
					f := newFixture(t, manual)
					now, all := int64(0), []int(nil)
					for cycle := range 10 {
						for range often { // it comes back
							now += hour
							f.commit(sample{`{a="b"}`, now, 1}, sample{`{a="other"}`, now, 1})
							if exemplars == "each time" || exemplars == "one" && now == hour {
								f.commitExemplars(`{a="b"}`, exemplarOf("x", now, 1))
							}
							f.again(restart)
							now += 10 * hour
							f.commit(sample{`{a="other"}`, now, 1})
							require.NoError(t, f.db.Flush(ctx))
						}
						all = append(all, len(f.refsOf(`{a="b"}`)))
						want := map[string]int{"none": 0, "one": 1, "each time": often * (cycle + 1)}[exemplars]
						require.Len(t, f.exemplars(0, now), want)
					}
					t.Log(all)
					require.LessOrEqual(t, slices.Max(all), 3)
				})
			}
		}
	}
}

// A ref that another one of the series came before in the log keeps its record as long as there may
// be samples under it that no block has.
func TestCheckpoint_KeepsARefWhoseSamplesAreWanted(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 1, 1})
	f.commitExemplars(`{a="b"}`, exemplarOf("x", 1, 1)) // which keep the first ref
	f.commit(sample{`{a="other"}`, 10 * hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	for k := range int64(10) {
		f.commit(sample{`{a="b"}`, (11 + k) * hour, 1}, sample{`{a="other"}`, (11 + k) * hour, 1})
	}
	want := f.all()[`{a="b"}`]
	require.Len(t, want, 11)
	require.Len(t, f.refsOf(`{a="b"}`), 2)
	for k := range int64(3) {
		f.again("close")
		require.NoError(t, f.db.Compact(ctx))
		f.commit(sample{`{a="other"}`, 21*hour + k, 1})
		require.NoError(t, tsdb.Checkpoint(f.db))
		require.Len(t, f.refsOf(`{a="b"}`), 2)
	}
	f.again("kill")
	require.Equal(t, want, f.all()[`{a="b"}`])
}

// again opens the database anew.
func (f *fixture) again(how string) {
	switch how {
	case "snapshot":
		require.NoError(f.t, tsdb.TakeHeadSnapshot(f.db))
		f.kill()
	case "kill":
		f.kill()
	case "close":
		f.reopen()
	}
	rep := f.db.OpenReport()
	require.True(f.t, rep.Clean())
	require.Equal(f.t, how == "snapshot", rep.Snapshot != "")
	require.Zero(f.t, rep.ExemplarsUnknown)
	require.Zero(f.t, rep.SamplesUnknown)
}
