//go:build unix

// Cutting a file that is mapped: Windows does not let anybody do so.

package tsdb_test

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// Bug 30: a file that is cut while it is mapped kills the process. Here it is damage of
// that block, in whatever a query is doing; the rest of the database goes on.
func TestDB_Bug30_ABlockCutUnderALiveQueryIsAnErrorAndNoSignal(t *testing.T) {
	for _, file := range []string{"index", "chunks/000001"} {
		for _, size := range []int64{0, 5000} {
			t.Run(file+" cut to "+strconv.FormatInt(size, 10), func(t *testing.T) {
				dir := t.TempDir()
				db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, Limits: tsdb.Limits{MaxFuture: -1}})
				require.NoError(t, err)
				defer func() { require.NoError(t, db.Close()) }()
				base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
				for m := range int64(240) {
					app := db.Appender()
					for i := range 200 {
						_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", strconv.Itoa(i)), base+m*minute, math.Sqrt(float64(m)))
						require.NoError(t, err)
					}
					_, err := app.Commit(ctx)
					require.NoError(t, err)
				}
				require.NoError(t, db.Flush(ctx))
				require.Len(t, db.Blocks(), 2)
				first, second := db.Blocks()[0], db.Blocks()[1]

				q, err := db.Querier(math.MinInt64, math.MaxInt64)
				require.NoError(t, err)
				set := q.Select(ctx, nil)
				require.True(t, set.Next())
				it := set.At().Iterator(nil)
				require.NotEqual(t, chunkenc.ValNone, it.Next())

				require.NoError(t, os.Truncate(filepath.Join(dir, first.ULID.String(), filepath.FromSlash(file)), size))
				// The query that is under way, a new one in each of its steps, and everything
				// that reads blocks.
				failed := 0
				for _, err := range []error{
					drain(set, it), q.Close(),
					readOf(db, first.MinTime, first.MaxTime-1), labelsOf(db, first.MinTime, first.MaxTime-1),
					db.Delete(ctx, first.MinTime, first.MinTime+hour, labels.Equal("i", "7")), db.CleanTombstones(ctx), db.Compact(ctx),
				} {
					if err != nil {
						failed++
						require.True(t, errors.Is(err, tsdb.ErrCorrupt), "%v", err)
					}
				}
				require.Positive(t, failed)
				require.NoError(t, readOf(db, second.MinTime, second.MaxTime-1), "other blocks are not concerned")
				r, err := tsdb.Verify(ctx, dir, nil)
				require.NoError(t, err)
				require.False(t, r.Clean())
			})
		}
	}
}

// Labels of a block are read when they are asked for. If that fails there are none, and the set
// ends with the error, although there is no other series to be read.
func TestSelect_LabelsThatCannotBeRead_EndTheSet(t *testing.T) {
	for name, missing := range map[string]func(*tsdb.Series) bool{
		"Labels":       func(s *tsdb.Series) bool { return s.Labels().IsEmpty() },
		"AppendLabels": func(s *tsdb.Series) bool { return len(s.AppendLabels(nil)) == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			app := db.Appender()
			_, err = app.Append(0, labels.FromStrings("__name__", "m"), testNow.UnixMilli(), 1)
			require.NoError(t, err)
			_, err = app.Commit(ctx)
			require.NoError(t, err)
			require.NoError(t, db.Flush(ctx))

			q, err := db.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			defer func() { require.NoError(t, q.Close()) }()
			set := q.Select(ctx, nil)
			require.True(t, set.Next())
			require.False(t, missing(set.At()))
			require.NoError(t, os.Truncate(filepath.Join(dir, db.Blocks()[0].ULID.String(), "index"), 0))
			require.True(t, missing(set.At()))
			require.False(t, set.Next())
			require.ErrorIs(t, set.Err(), tsdb.ErrCorrupt)
		})
	}
}

// drain reads what is left of a query.
func drain(set *tsdb.SeriesSet, it chunkenc.Iterator) error {
	for ok := true; ok; ok = set.Next() {
		for it.Next() != chunkenc.ValNone {
		}
		if it.Err() != nil {
			return it.Err()
		}
		it = set.At().Iterator(it)
	}
	return set.Err()
}

func readOf(db *tsdb.DB, mint, maxt int64) error {
	q, err := db.Querier(mint, maxt)
	if err != nil {
		return err
	}
	_, err = readAll(q)
	return errors.WithMessage(firstOf(err, q.Close()), "read")
}

func labelsOf(db *tsdb.DB, mint, maxt int64) error {
	q, err := db.Querier(mint, maxt)
	if err != nil {
		return err
	}
	_, _, err = q.LabelValues(ctx, "i", nil, labels.NotEqual("i", "3"))
	_, _, nameErr := q.LabelNames(ctx, nil)
	return firstOf(firstOf(err, nameErr), q.Close())
}

// Verify works beside a process that writes, and changes nothing.
func TestVerify_WorksBesideAWriterOnARealDisk(t *testing.T) {
	dir := t.TempDir()
	opts := &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, Limits: tsdb.Limits{MaxFuture: -1}, WAL: tsdb.WALOptions{SegmentSize: 64 << 10}}
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		base := testNow.UnixMilli()
		for n := int64(0); ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			app := db.Appender()
			for i := range 50 {
				if _, err := app.Append(0, labels.FromStrings("i", strconv.Itoa(i)), base+n*10*minute, float64(n)); err != nil {
					done <- err
					return
				}
			}
			_, err := app.Commit(ctx)
			if err == nil && n%40 == 39 {
				err = db.Compact(ctx) // blocks come, merge and go; the log is cut
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 15 {
		r, err := tsdb.Verify(ctx, dir, nil)
		require.NoError(t, err)
		for _, f := range r.Findings {
			require.Less(t, f.Severity, tsdb.SeverityDamage, "%+v", f)
		}
	}
	close(stop)
	require.NoError(t, <-done)
	require.NoError(t, db.Close())
	r, err := tsdb.Verify(ctx, dir, nil)
	require.NoError(t, err)
	require.True(t, r.Clean(), "%+v", r.Findings)
	require.False(t, r.InUse)
	_, err = os.Stat(filepath.Join(dir, "lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
