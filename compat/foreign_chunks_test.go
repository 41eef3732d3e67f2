package compat

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// dumpOfText reads everything with the reference, histograms too, as text.
func (r *theirs) dumpOfText() map[string][]string {
	r.t.Helper()
	q, err := r.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, q.Close()) }()
	all := map[string][]string{}
	set := q.Select(context.Background(), true, nil, theirMatchers(r.t, []matcher{everything})...)
	for set.Next() {
		key := keyOfTheirs(set.At().Labels())
		it := set.At().Iterator(nil)
		for kind := it.Next(); kind != theirenc.ValNone; kind = it.Next() {
			var text string
			switch kind {
			case theirenc.ValHistogram:
				_, h := it.AtHistogram(nil)
				text = h.String()
			case theirenc.ValFloatHistogram:
				_, h := it.AtFloatHistogram(nil)
				text = h.String()
			default:
				ts, v := it.At()
				text = point{ts, math.Float64bits(v)}.String()
			}
			all[key] = append(all[key], text)
		}
		require.NoError(r.t, it.Err())
	}
	require.NoError(r.t, set.Err())
	return all
}

// foreignChunks are what the reference can write and we cannot read yet.
func foreignChunks() map[string]func(*reference.Options) {
	return map[string]func(*reference.Options){
		"histograms":                       func(*reference.Options) {},
		"histograms with start timestamps": func(o *reference.Options) { o.EnableHistogramSTEncoding = true },
	}
}

// withForeignChunks makes blocks, some of them with chunks that we cannot read. Series
// that have none are in want. The head is empty.
func withForeignChunks(t *testing.T, change func(*reference.Options)) (w *world, all map[string][]string) {
	w = newWorld(t, openTheirBlocks, plan{Seed: seed(t, 3800), Series: 20})
	w.append(20, 5*hour)
	w.e.flush()
	w.e.close()
	w.e = openTheirs(t, w.dir, theirBlockOptions, change)
	w.appendForeign()
	w.e.flush()
	all = w.theirs().dumpOfText()
	require.Len(t, all[newSeries("__name__", "histogram").key], 60)
	w.e.close()
	return w, all
}

// appendForeign appends to two series of histograms and one of floats for ten hours.
func (w *world) appendForeign() {
	w.t.Helper()
	set := []series{newSeries("__name__", "histogram"), newSeries("__name__", "float_histogram"), newSeries("__name__", "float")}
	for k := range 60 {
		w.g.now += 10 * minute
		app := w.theirs().db.Appender(context.Background())
		_, err := app.AppendHistogram(0, set[0].theirs, w.g.now, tsdbutil.GenerateTestHistogram(int64(k)), nil)
		require.NoError(w.t, err)
		_, err = app.AppendHistogram(0, set[1].theirs, w.g.now, nil, tsdbutil.GenerateTestFloatHistogram(int64(k)))
		require.NoError(w.t, err)
		_, err = app.Append(0, set[2].theirs, w.g.now, float64(k))
		require.NoError(w.t, err)
		require.NoError(w.t, app.Commit())
	}
}

// What we cannot read in a block we say that we cannot, and never lose it: it is still
// there after we have merged the blocks, deleted, and tried to clean.
func TestForeignChunks_InBlocks_AreReportedAndKept(t *testing.T) {
	t.Parallel()
	readable := matcher{"!~", "__name__", ".*(histogram|float)"}
	for name, change := range foreignChunks() {
		t.Run(name, func(t *testing.T) {
			w, all := withForeignChunks(t, change)
			e := openOurBlocks(t, w.dir)
			db := e.(*ours).db
			unreadable := []string{"histogram", "float_histogram"}
			check := func() {
				t.Helper()
				requireEqual(t, w.want, e.query(math.MinInt64, math.MaxInt64, readable), "what we can read")
				for _, metric := range unreadable {
					requireUnreadable(t, db, metric)
				}
			}
			check()
			blocks := len(db.Blocks())
			e.compact()
			require.Less(t, len(db.Blocks()), blocks, "nothing was merged")
			check()

			// In the middle of chunks, which cannot be written again without.
			mint, maxt := worldStart+8*hour+1, worldStart+9*hour
			require.NoError(t, db.Delete(t.Context(), mint, maxt, ourMatchers(t, []matcher{{"=~", "__name__", ".*histogram"}})...))
			require.ErrorIs(t, db.CleanTombstones(t.Context()), chunkenc.ErrUnknownEncoding)
			check()
			e.close()

			r := openTheirs(t, w.dir, theirBlockOptions)
			left := r.dumpOfText()
			for key, was := range all {
				if strings.Contains(key, "histogram") {
					require.Len(t, left[key], len(was)-6, "of 60 in 10 h, an hour was deleted")
				} else {
					require.Equal(t, was, left[key])
				}
			}
			r.requireUndamaged()
		})
	}
}

// requireUnreadable selects a series in vain: it is an error, not an absence.
func requireUnreadable(t *testing.T, db *tsdb.DB, metric string) {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(t.Context(), nil, ourMatchers(t, []matcher{{"=", "__name__", metric}})...)
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			require.NotEqual(t, "histogram", metric, "a sample of a histogram")
		}
		err = it.Err()
	}
	require.NoError(t, set.Err())
	require.ErrorIs(t, err, chunkenc.ErrUnknownEncoding, metric)
}

// What we cannot read in the log of the reference is there when the reference gets the
// directory back, even if we were told to flush the head meanwhile.
func TestForeignChunks_InTheHead_AreReportedAndKept(t *testing.T) {
	t.Parallel()
	for name, change := range foreignChunks() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(t testing.TB, dir string) blockEngine { return openTheirs(t, dir, theirBlockOptions, change) }, plan{Seed: seed(t, 3810), Series: 20})
			w.append(20, 5*hour)
			w.appendForeign()
			all := w.theirs().dumpOfText()
			w.e.close()
			o := openOurs(t, w.dir, ourBlockOptions)
			require.NotEmpty(t, o.db.OpenReport().UnreadRecords)
			for _, step := range []func(context.Context) error{o.db.Compact, o.db.Flush, o.db.Compact} {
				if err := step(t.Context()); err != nil {
					require.ErrorIs(t, err, tsdb.ErrUnsupported)
				}
			}
			o.close()
			left := openTheirs(t, w.dir, theirBlockOptions).dumpOfText()
			for key, was := range all {
				require.Equal(t, len(was), len(left[key]), key)
				require.Equal(t, was, left[key])
			}
		})
	}
}
