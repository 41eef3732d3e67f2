package compat

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/metadata"
	reference "github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// metas are metadata of series, by their keys.
type metas map[string]metadata.Metadata

func (m metas) of(s series) tsdb.Metadata {
	d := m[s.key]
	return tsdb.Metadata{Type: tsdb.MetricTypeOf(string(d.Type)), Unit: d.Unit, Help: d.Help}
}

// describe commits a sample and the metadata of each series.
func (r *theirs) describe(set []series, t int64, m metas) {
	r.t.Helper()
	app := r.db.Appender(context.Background())
	for _, s := range set {
		ref, err := app.Append(0, s.theirs, t, 1)
		require.NoError(r.t, err)
		_, err = app.UpdateMetadata(ref, s.theirs, m[s.key])
		require.NoError(r.t, err)
	}
	require.NoError(r.t, app.Commit())
}

func (o *ours) describe(set []series, t int64, m metas) {
	o.t.Helper()
	app := o.db.Appender()
	for _, s := range set {
		ref, err := app.Append(0, s.ours, t, 1)
		require.NoError(o.t, err)
		_, err = app.SetMetadata(ref, s.ours, m.of(s))
		require.NoError(o.t, err)
	}
	_, err := app.Commit(context.Background())
	require.NoError(o.t, err)
}

// requireMetadata compares what the head has of these series.
func (o *ours) requireMetadata(set []series, m metas) {
	o.t.Helper()
	got, want := map[string]tsdb.Metadata{}, map[string]tsdb.Metadata{}
	for _, s := range set {
		want[s.key] = m.of(s)
	}
	for key, one := range o.metadata() {
		if want[key] != (tsdb.Metadata{}) {
			got[key] = one
		}
	}
	require.Equal(o.t, want, got)
}

// metadata is all that the head has, by the keys of the series.
func (o *ours) metadata() map[string]tsdb.Metadata {
	o.t.Helper()
	q, err := o.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, q.Close()) }()
	list, err := q.Metadata(context.Background())
	require.NoError(o.t, err)
	all := map[string]tsdb.Metadata{}
	for _, one := range list {
		all[keyOfOurs(one.Labels)] = one.Metadata
	}
	return all
}

// loggedMetadata counts the entries of metadata in a log.
func loggedMetadata(t *testing.T, dir string) (n int) {
	t.Helper()
	_, err := wal.Replay(context.Background(), wal.ReplayOptions{FS: tsdb.DefaultOptions().FS, Dir: filepath.Join(dir, "wal"), Decoders: 1,
		Apply: func(b *wal.Batch) error {
			var dec record.MetadataDecoder
			for _, rec := range b.Records {
				if record.TypeOf(rec.Data) != record.TypeMetadata {
					continue
				}
				for dec.Reset(rec.Data); dec.Next(); n++ {
				}
			}
			return dec.Err()
		}})
	require.NoError(t, err)
	return n
}

var metricTypes = []model.MetricType{
	model.MetricTypeCounter, model.MetricTypeGauge, model.MetricTypeHistogram, model.MetricTypeGaugeHistogram,
	model.MetricTypeSummary, model.MetricTypeInfo, model.MetricTypeStateset, model.MetricTypeUnknown,
}

func describedSeries(n int) ([]series, metas) {
	var set []series
	all, types := metas{}, metricTypes
	for i := range n {
		s := newSeries("__name__", fmt.Sprint("metric_", i%len(types)), "i", fmt.Sprint(i))
		set = append(set, s)
		all[s.key] = metadata.Metadata{Type: types[i%len(types)], Unit: fmt.Sprint("unit ", i%3), Help: fmt.Sprint("Größe ", i%5)}
	}
	return set, all
}

// Metadata of one engine is known to the other one, after a close and after a kill: it logs it no
// second time, and what is new of it once.
func TestMetadata_GoesBothWays(t *testing.T) {
	for i, compression := range compressions {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(compression, ", killed ", killed), func(t *testing.T) {
				set, all := describedSeries(24)
				dir := t.TempDir()
				now := int64(1_700_000_000_000)
				ended := func(close func()) {
					if killed {
						dir = copyDir(t, dir)
					}
					close()
				}
				r := openTheirs(t, dir, func(o *reference.Options) { o.WALCompression = compression })
				r.describe(set, now, all)
				ended(r.close)
				require.Equal(t, len(set), loggedMetadata(t, dir))

				db := openOurs(t, dir)
				db.requireMetadata(set, all)
				db.describe(set, now+1, all)
				changed := set[i : i+7]
				for _, s := range changed {
					all[s.key] = metadata.Metadata{Type: model.MetricTypeGauge, Help: "Another."}
				}
				db.describe(set, now+2, all)
				db.requireMetadata(set, all)
				ended(db.close)
				require.Equal(t, len(set)+len(changed), loggedMetadata(t, dir), "what is new")

				r = openTheirs(t, dir)
				r.requireUndamaged()
				r.describe(set, now+3, all)
				all[set[0].key] = metadata.Metadata{Unit: "only a unit"}
				r.describe(set, now+4, all)
				ended(r.close)
				require.Equal(t, len(set)+len(changed)+1, loggedMetadata(t, dir), "the reference knew the rest")

				db = openOurs(t, dir)
				db.requireMetadata(set, all)
				db.requireClean()
			})
		}
	}
}

// What a checkpoint of one engine keeps the other one reads.
func TestMetadata_IsInCheckpointsOfBoth(t *testing.T) {
	set, all := describedSeries(16)
	kept := set[:8]
	dir := t.TempDir()
	now := int64(1_700_000_000_000)
	small := func(o *reference.Options) { o.WALSegmentSize = 32 << 10 }
	db := openOurs(t, dir, func(o *tsdb.Options) { o.WAL.SegmentSize = 32 << 10 })
	db.describe(set, now, all)
	db.close()

	r := openTheirs(t, dir, small)
	for k := range int64(1500) {
		var rows []row
		for i := range kept {
			rows = append(rows, row{i, now + 1 + k, float64(k) / 3})
		}
		r.commit(kept, rows)
	}
	require.NoError(t, r.db.Head().Truncate(now+5000))
	r.close()
	checkpoints, err := filepath.Glob(filepath.Join(dir, "wal", "checkpoint.*"))
	require.NoError(t, err)
	require.NotEmpty(t, checkpoints)

	db = openOurs(t, dir)
	db.requireMetadata(kept, all)
	require.NoError(t, db.db.Flush(context.Background()))
	db.describe(kept, now+20_000, all)
	db.requireMetadata(kept, all)
	db.close()
	before := loggedMetadata(t, dir)

	r = openTheirs(t, dir, small)
	r.requireUndamaged()
	r.describe(kept, now+30_000, all)
	r.close()
	require.Equal(t, before, loggedMetadata(t, dir), "the reference read it from our checkpoint")
}
