package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

// filled opens a database of a series that comes late and one that is there all the time: some
// hours in blocks, the last ones in the head.
func filled(t *testing.T) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for hour := range 10 {
		app := db.Appender()
		at := time.Now().Add(time.Duration(hour-10) * time.Hour).UnixMilli()
		_, err = app.Append(0, labels.FromStrings("__name__", "steady", "job", "a"), at, 1)
		require.NoError(t, err)
		if hour > 6 {
			_, err = app.Append(0, labels.FromStrings("__name__", "late", "job", "b"), at, 1)
			require.NoError(t, err)
		}
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
		if hour == 5 {
			require.NoError(t, db.Flush(context.Background()))
			require.NoError(t, db.Compact(context.Background()))
		}
	}
	return db
}

// ask gets the data of an endpoint.
func ask(t *testing.T, db *tsdb.DB, path string, data any) int {
	t.Helper()
	w := httptest.NewRecorder()
	prom.NewHandler(db, nil).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/"+path, nil))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	out := struct {
		Data any `json:"data"`
	}{data}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out), w.Body.String())
	return w.Code
}

func TestHealth_SaysWhatTheDatabaseDoes(t *testing.T) {
	db := filled(t)
	var got struct {
		Health, Directory string
		Open              struct{ Clean bool }
		Stats             struct {
			Series, Blocks  int
			Commits         uint64
			SamplesAppended uint64
			Log             struct{ Syncs uint64 }
		}
		Accepts struct{ From, To int64 }
		Disk    struct {
			FreeBytes, TotalBytes, LogBytes int64
			BlockBytes                      map[string]int64
		}
	}
	require.Equal(t, 200, ask(t, db, "status/health", &got))
	st := db.Stats()
	require.Equal(t, "ok", got.Health)
	require.Equal(t, db.Dir(), got.Directory)
	require.True(t, got.Open.Clean)
	require.Equal(t, st.Series, got.Stats.Series)
	require.Equal(t, uint64(10), got.Stats.Commits)
	require.Equal(t, uint64(13), got.Stats.SamplesAppended)
	require.Equal(t, st.AcceptsFrom, got.Accepts.From)
	require.InDelta(t, st.AcceptsTo, got.Accepts.To, 60_000)
	require.Len(t, got.Disk.BlockBytes, len(db.Blocks()))
	var sum int64
	for _, n := range got.Disk.BlockBytes {
		sum += n
	}
	require.GreaterOrEqual(t, sum, st.BlockBytes, "some small files are not counted by the database")
	require.Positive(t, got.Disk.LogBytes)
	require.Positive(t, got.Disk.TotalBytes)
}

func TestHealth_SaysHowSamplesAreKept(t *testing.T) {
	type facts struct {
		Sync struct {
			Policy          string
			IntervalSeconds float64
		}
		Retention struct {
			Seconds, Percent float64
			Bytes            int64
		}
	}
	for _, c := range []struct {
		opts tsdb.Options
		want func(*facts)
	}{
		{tsdb.Options{}, func(f *facts) { f.Sync.Policy, f.Sync.IntervalSeconds = "interval", 1 }},
		{tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncCommit()}, Blocks: tsdb.BlockOptions{Retention: -1, RetentionBytes: -1, RetentionPercent: -1}}, func(f *facts) { f.Sync.Policy = "commit" }},
		{tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncRotate()}, Blocks: tsdb.BlockOptions{Retention: time.Hour, RetentionBytes: 5 << 20, RetentionPercent: 2.5}}, func(f *facts) {
			f.Sync.Policy = "rotate"
			f.Retention.Seconds, f.Retention.Bytes, f.Retention.Percent = 3600, 5<<20, 2.5
		}},
		{tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}}, func(f *facts) { f.Sync.Policy = "never" }},
	} {
		c.opts.Blocks.Manual = true
		db, err := tsdb.Open(t.TempDir(), &c.opts)
		require.NoError(t, err)
		var got, want facts
		require.Equal(t, 200, ask(t, db, "status/health", &got))
		c.want(&want)
		require.Equal(t, want, got)
		require.NoError(t, db.Close())
	}
}

func TestHealth_NamesMissingBlocks(t *testing.T) {
	for _, c := range []struct {
		name     string
		damage   func(block string) error
		known    bool
		vanished bool
	}{
		{"set aside", func(block string) error { return os.Truncate(filepath.Join(block, "index"), 40) }, true, false},
		{"of unknown times", func(block string) error { return os.Truncate(filepath.Join(block, "meta.json"), 0) }, false, false},
		{"vanished", os.RemoveAll, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := filled(t)
			block, dir := db.Blocks()[0], db.Dir()
			require.NoError(t, db.Close())
			require.NoError(t, c.damage(filepath.Join(dir, block.ULID.String())))
			db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			var got struct {
				Missing []struct {
					ULID, Path       string
					MinTime, MaxTime *int64
					Vanished         bool
				}
			}
			require.Equal(t, 200, ask(t, db, "status/health", &got))
			require.Len(t, got.Missing, 1)
			m := got.Missing[0]
			require.Equal(t, block.ULID.String(), m.ULID)
			require.Contains(t, m.Path, m.ULID)
			require.Equal(t, c.vanished, m.Vanished)
			if !c.known {
				require.Nil(t, m.MinTime)
				require.Nil(t, m.MaxTime)
				return
			}
			require.Equal(t, []int64{block.MinTime, block.MaxTime}, []int64{*m.MinTime, *m.MaxTime})
		})
	}
}

func TestHealth_SaysWhatIsWrong(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	var got struct{ Health string }
	require.Equal(t, 200, ask(t, db, "status/health", &got))
	require.Equal(t, db.Health().Error(), got.Health)
}

func TestChurn_LabelsOfSeriesThatComeAndGo(t *testing.T) {
	db := filled(t)
	var got struct {
		NumSeries uint64
		Pairs     []struct {
			Name  string
			Value float64
		} `json:"churnByLabelValuePair"`
	}
	require.Equal(t, 200, ask(t, db, "status/tsdb/churn?limit=1", &got))
	require.Equal(t, uint64(2), got.NumSeries)
	require.Len(t, got.Pairs, 1)
	require.Contains(t, []string{"job=b", "__name__=late"}, got.Pairs[0].Name)
	require.Greater(t, got.Pairs[0].Value, 0.5, "it has samples in the last of ten hours")
	require.Less(t, got.Pairs[0].Value, 1.0)
	for _, wrong := range []string{"limit=0", "limit=x", "start=x", "start=5&end=4"} {
		require.Equal(t, 400, ask(t, db, "status/tsdb/churn?"+wrong, nil), wrong)
	}
}

func TestBlocks_AreAnsweredAsTheirMetaFilesHaveThem(t *testing.T) {
	db := filled(t)
	var got struct{ Blocks []json.RawMessage }
	require.Equal(t, 200, ask(t, db, "status/tsdb/blocks", &got))
	blocks := db.Blocks()
	require.NotEmpty(t, blocks)
	require.Len(t, got.Blocks, len(blocks))
	for i, b := range blocks {
		file, err := os.ReadFile(filepath.Join(db.Dir(), b.ULID.String(), "meta.json"))
		require.NoError(t, err)
		require.JSONEq(t, string(file), string(got.Blocks[i]))
	}
}
