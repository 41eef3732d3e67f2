package prom_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// family is a family of metrics that a Prometheus server has of its storage.
type family struct {
	Name    string
	Type    string
	LeftOut string `json:"left_out"` // why we do not have it; empty: we do
}

func readFamilies(t *testing.T) []family {
	t.Helper()
	text, err := os.ReadFile("testdata/metric_families.json")
	require.NoError(t, err)
	var all []family
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// exposition is what a registry has of one family.
type exposition struct {
	typ    string
	values []float64
	labels []string // of the values: name and value of each
}

// exposed returns the families of a registry.
func exposed(t *testing.T, reg prometheus.Gatherer) map[string]exposition {
	t.Helper()
	list, err := reg.Gather()
	require.NoError(t, err)
	all := map[string]exposition{}
	for _, f := range list {
		e := exposition{typ: strings.ToLower(f.GetType().String())}
		for _, m := range f.GetMetric() {
			e.values = append(e.values, m.GetCounter().GetValue()+m.GetGauge().GetValue())
			for _, l := range m.GetLabel() {
				e.labels = append(e.labels, l.GetName()+"="+l.GetValue())
			}
		}
		all[f.GetName()] = e
	}
	return all
}

// collected is the registry of a database with samples in a block and in the head.
func collected(t *testing.T) (*prom.Storage, *prometheus.Registry) {
	t.Helper()
	s := openStorage(t)
	fill(t, s)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(prom.NewCollector(s.DB()))
	return s, reg
}

// Each family of the reference is there under its name and type, or left out for a reason.
func TestCollector_HasTheFamiliesOfTheReference(t *testing.T) {
	_, reg := collected(t)
	ours := exposed(t, reg)
	families := readFamilies(t)
	require.Len(t, families, 86)
	known, there := map[string]bool{}, 0
	for _, f := range families {
		known[f.Name] = true
		got, ok := ours[f.Name]
		require.Equal(t, f.LeftOut == "", ok, f.Name)
		if ok {
			there++
			require.Equal(t, f.Type, got.typ, f.Name)
		}
	}
	require.Equal(t, 46, there)
	for name := range ours {
		require.True(t, known[name] || strings.HasPrefix(name, "tsdb_"), "%s is neither the reference's nor marked as ours", name)
	}
}

// What is recorded of the reference, a server that was in use, is what its storage has in this
// version, what it has once it counts, and three that the server adds.
func TestCollector_TheReferenceHasTheFamiliesThatAreRecorded(t *testing.T) {
	reg := prometheus.NewRegistry()
	db, err := reference.Open(t.TempDir(), nil, reg, reference.DefaultOptions(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	theirs := exposed(t, reg)
	var added []string
	for _, f := range readFamilies(t) {
		got, ok := theirs[f.Name]
		if !ok {
			added = append(added, f.Name)
			continue
		}
		require.Equal(t, f.Type, got.typ, f.Name)
		delete(theirs, f.Name)
	}
	require.Empty(t, theirs)
	require.Equal(t, []string{
		"prometheus_tsdb_head_max_time_seconds", "prometheus_tsdb_head_min_time_seconds",
		"prometheus_tsdb_head_out_of_order_samples_appended_total", "prometheus_tsdb_head_samples_appended_total",
		"prometheus_tsdb_lowest_timestamp_seconds",
		"prometheus_tsdb_out_of_bound_samples_total", "prometheus_tsdb_out_of_order_samples_total",
		"prometheus_tsdb_too_old_samples_total", "prometheus_tsdb_wal_record_bytes_saved_total",
	}, added)
}

func TestCollector_NamesAreGood(t *testing.T) {
	_, reg := collected(t)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Equal(t, []promlint.Problem(nil), problems)
}

func TestCollector_SaysWhatTheDatabaseSays(t *testing.T) {
	s, reg := collected(t)
	series := labels.FromStrings("__name__", "m", "i", "0")
	app := s.Appender(t.Context())
	for at, want := range map[int64]error{980: storage.ErrOutOfOrderSample, 990: storage.ErrDuplicateSampleForTimestamp, 10: storage.ErrOutOfBounds} {
		_, err := app.Append(0, series, at, -1)
		require.ErrorIs(t, err, want)
	}
	require.NoError(t, app.Rollback())
	ours := exposed(t, reg)
	value := func(name string, labels ...string) float64 {
		require.Len(t, ours[name].values, 1, name)
		require.Equal(t, labels, ours[name].labels, name)
		return ours[name].values[0]
	}
	st := s.DB().Stats()
	for name, want := range map[string]float64{
		"prometheus_tsdb_head_series":                  10,
		"prometheus_tsdb_head_series_created_total":    10,
		"prometheus_tsdb_head_chunks":                  float64(st.HeadChunks),
		"prometheus_tsdb_head_min_time":                float64(st.MinT),
		"prometheus_tsdb_head_max_time_seconds":        0.99,
		"prometheus_tsdb_lowest_timestamp":             0,
		"prometheus_tsdb_blocks_loaded":                1,
		"prometheus_tsdb_storage_blocks_bytes":         float64(st.BlockBytes),
		"prometheus_tsdb_compactions_total":            1,
		"prometheus_tsdb_compactions_failed_total":     0,
		"prometheus_tsdb_wal_corruptions_total":        0,
		"prometheus_tsdb_wal_segment_current":          float64(st.Log.Segment),
		"prometheus_tsdb_retention_limit_seconds":      0,
		"prometheus_tsdb_data_replay_duration_seconds": s.DB().OpenReport().Duration.Seconds(),
		"tsdb_flushes_total":                           1,
		"tsdb_commits_total":                           2,
		"tsdb_duplicate_samples_total":                 1,
		"tsdb_blocks_missing":                          0,
		"tsdb_accepts_from_timestamp_seconds":          float64(st.AcceptsFrom) / 1000,
		"tsdb_open_clean":                              1,
		"tsdb_healthy":                                 1,
		"tsdb_queriers_open":                           0,
	} {
		require.Equal(t, want, value(name), name)
	}
	require.Positive(t, st.HeadChunks)
	for name, want := range map[string]float64{
		"prometheus_tsdb_head_samples_appended_total": 1000,
		"prometheus_tsdb_out_of_order_samples_total":  1,
		"prometheus_tsdb_out_of_bound_samples_total":  1,
	} {
		require.Equal(t, []string{"type=float", "type=histogram"}, ours[name].labels, name)
		require.Equal(t, []float64{want, 0}, ours[name].values, name)
	}
}

// Samples count by kind as they do in the reference.
func TestCollector_CountsSamplesByKindAsTheReferenceDoes(t *testing.T) {
	reg, theirReg := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	ours := openStorage(t)
	reg.MustRegister(prom.NewCollector(ours.DB()))
	theirs, err := reference.Open(t.TempDir(), nil, theirReg, reference.DefaultOptions(), nil)
	require.NoError(t, err)
	theirs.DisableCompactions()
	defer func() { require.NoError(t, theirs.Close()) }()
	h, fh := takenAs["ints"](1).h, takenAs["counts"](1).fh
	now := time.Now().UnixMilli() // what is far behind it is out of bounds
	for _, s := range []storage.Storage{ours, theirs} {
		app := s.Appender(t.Context())
		of := func(name string) labels.Labels { return labels.FromStrings("__name__", name) }
		for i := range int64(10) {
			_, err := app.Append(0, of("floats"), now+i, 1)
			require.NoError(t, err)
			_, err = app.AppendHistogram(0, of("ints"), now+i, h, nil)
			require.NoError(t, err)
		}
		_, err = app.AppendHistogram(0, of("counts"), now, nil, fh)
		require.NoError(t, err)
		require.NoError(t, app.Commit())
		app = s.Appender(t.Context())
		for range 3 {
			_, err = app.AppendHistogram(0, of("ints"), now, h, nil)
			require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
		}
		for range 2 {
			_, err = app.AppendHistogram(0, of("counts"), now-1, nil, fh)
			require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
		}
		_, err = app.Append(0, of("floats"), now, 1)
		require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
		require.NoError(t, app.Rollback())
	}
	our, their := exposed(t, reg), exposed(t, theirReg)
	for _, name := range []string{"prometheus_tsdb_head_samples_appended_total", "prometheus_tsdb_out_of_order_samples_total"} {
		require.Equal(t, []string{"type=float", "type=histogram"}, our[name].labels, name)
		require.Equal(t, their[name], our[name], name)
	}
}

// What is kept may change while the database is open.
func TestCollector_TellsOfTheRetentionOfNow(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true, Retention: time.Hour}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(prom.NewCollector(db))
	require.Equal(t, []float64{3600}, exposed(t, reg)["prometheus_tsdb_retention_limit_seconds"].values)
	require.NoError(t, db.SetRetention(tsdb.RetentionLimits{Duration: -1, Bytes: 7, Percent: 50}))
	ours := exposed(t, reg)
	require.Equal(t, []float64{0}, ours["prometheus_tsdb_retention_limit_seconds"].values)
	require.Equal(t, []float64{7}, ours["prometheus_tsdb_retention_limit_bytes"].values)
	require.Equal(t, []float64{50}, ours["prometheus_tsdb_retention_limit_percentage"].values)
}

// A log that was damaged, and a block that was set aside, can be told from the metrics alone.
func TestCollector_TellsOfDamage(t *testing.T) {
	dir := t.TempDir()
	open := func() *prom.Storage {
		db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true, Retention: time.Hour}})
		require.NoError(t, err)
		return prom.NewStorage(db)
	}
	s := open()
	fill(t, s)
	block := s.DB().Blocks()[0]
	require.NoError(t, s.Close())
	require.NoError(t, os.Truncate(filepath.Join(dir, block.ULID.String(), "index"), 40))
	segments, err := filepath.Glob(filepath.Join(dir, "wal", "0*"))
	require.NoError(t, err)
	damageMiddle(t, segments[len(segments)-1])
	s = open()
	defer func() { require.NoError(t, s.Close()) }()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(prom.NewCollector(s.DB()))
	ours := exposed(t, reg)
	require.Equal(t, []float64{1}, ours["tsdb_blocks_missing"].values)
	require.Equal(t, []float64{0}, ours["tsdb_open_clean"].values)
	require.Positive(t, ours["prometheus_tsdb_wal_corruptions_total"].values[0])
	require.Equal(t, []float64{3600}, ours["prometheus_tsdb_retention_limit_seconds"].values)
}

// damageMiddle flips the bits of a byte in the middle of a file.
func damageMiddle(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)/2] ^= 0xff
	require.NoError(t, os.WriteFile(path, text, 0o666))
}
