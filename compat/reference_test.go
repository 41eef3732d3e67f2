package compat

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"
)

// theirs is a database of the reference. It compacts only when told to.
type theirs struct {
	t    testing.TB
	db   *reference.DB
	reg  *prometheus.Registry
	log  *damageLog
	refs map[string]storage.SeriesRef
}

// century is a block range in which the reference keeps everything in the head.
const century = int64(100*365*24) * int64(time.Hour/time.Millisecond)

func theirOptions(change ...func(*reference.Options)) *reference.Options {
	o := reference.DefaultOptions()
	o.MinBlockDuration, o.MaxBlockDuration = century, century
	o.StripeSize = 512
	for _, c := range change {
		if c != nil {
			c(o)
		}
	}
	return o
}

func openTheirs(t testing.TB, dir string, change ...func(*reference.Options)) *theirs {
	t.Helper()
	r := &theirs{t: t, reg: prometheus.NewRegistry(), log: &damageLog{}, refs: map[string]storage.SeriesRef{}}
	db, err := reference.Open(dir, slog.New(r.log), r.reg, theirOptions(change...), nil)
	require.NoError(t, err)
	db.DisableCompactions()
	r.db = db
	t.Cleanup(r.close)
	return r
}

func (r *theirs) commit(set []series, rows []row) {
	r.t.Helper()
	app := r.db.Appender(context.Background())
	for _, row := range rows {
		s := set[row.series]
		ref, err := app.Append(r.refs[s.key], s.theirs, row.t, row.v)
		require.NoError(r.t, err, "%s at %d", s.key, row.t)
		r.refs[s.key] = ref
	}
	require.NoError(r.t, app.Commit())
}

func (r *theirs) dump() data {
	r.t.Helper()
	return r.query(math.MinInt64, math.MaxInt64)
}

// everything is what the reference wants instead of no matcher.
var everything = matcher{"=~", "__name__", ".*"}

func (r *theirs) query(mint, maxt int64, ms ...matcher) data {
	r.t.Helper()
	q, err := r.db.Querier(mint, maxt)
	require.NoError(r.t, err)
	return dumpTheirs(r.t, q, ms...)
}

// dumpTheirs reads what matches and closes the querier.
func dumpTheirs(t testing.TB, q storage.Querier, ms ...matcher) data {
	t.Helper()
	defer func() { require.NoError(t, q.Close()) }()
	if len(ms) == 0 {
		ms = []matcher{everything}
	}
	all := data{}
	set := q.Select(context.Background(), true, nil, theirMatchers(t, ms)...)
	var it theirenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		var ps []point
		for kind := it.Next(); kind != theirenc.ValNone; kind = it.Next() {
			require.Equal(t, theirenc.ValFloat, kind)
			ts, v := it.At()
			ps = append(ps, point{ts, math.Float64bits(v)})
		}
		require.NoError(t, it.Err())
		if len(ps) > 0 {
			all[keyOfTheirs(set.At().Labels())] = ps
		}
	}
	require.NoError(t, set.Err())
	require.Empty(t, set.Warnings())
	return all
}

func theirMatchers(t testing.TB, ms []matcher) []*theirlabels.Matcher {
	types := map[string]theirlabels.MatchType{"=": theirlabels.MatchEqual, "!=": theirlabels.MatchNotEqual, "=~": theirlabels.MatchRegexp, "!~": theirlabels.MatchNotRegexp}
	var out []*theirlabels.Matcher
	for _, m := range ms {
		tm, err := theirlabels.NewMatcher(types[m.op], m.name, m.value)
		require.NoError(t, err)
		out = append(out, tm)
	}
	return out
}

func (r *theirs) close() {
	if r.db == nil {
		return
	}
	require.NoError(r.t, r.db.Close())
	r.db, r.reg = nil, nil // metrics know the database, and a test is kept until all others end
}

// rechunkedMetric counts head-chunk files that are made anew, see excuses.
const rechunkedMetric = "prometheus_tsdb_mmap_chunk_corruptions_total"

// unknownMetric counts what a log has of series that it does not have, by kind of record.
const unknownMetric = "prometheus_tsdb_wal_replay_unknown_refs_total"

// failureMetrics count what must not happen to a directory that is in order.
var failureMetrics = []string{
	"prometheus_tsdb_wal_corruptions_total",
	unknownMetric,
	"prometheus_tsdb_wal_writes_failed_total",
	rechunkedMetric,
	"prometheus_tsdb_snapshot_replay_error_total",
	"prometheus_tsdb_checkpoint_creations_failed_total",
	"prometheus_tsdb_compactions_failed_total",
	"prometheus_tsdb_reloads_failures_total",
}

// requireUndamaged requires that the reference found nothing to repair, to drop or to
// complain about.
func (r *theirs) requireUndamaged() {
	r.t.Helper()
	families, err := r.reg.Gather()
	require.NoError(r.t, err)
	count := map[string]float64{}
	for _, f := range families {
		count[f.GetName()] = 0
		for _, m := range f.GetMetric() {
			if f.GetName() != unknownMetric || !r.log.coversUnknown(m.GetLabel()[0].GetValue()) {
				count[f.GetName()] += m.GetCounter().GetValue()
			}
		}
	}
	for _, name := range failureMetrics {
		n, ok := count[name]
		// A vector without a child is not gathered; only this one is a vector.
		require.True(r.t, ok || name == unknownMetric, "the reference has no metric %s", name)
		if name != rechunkedMetric || !r.log.rechunked {
			require.Zero(r.t, n, "%s; log: %s", name, r.log)
		}
	}
	r.log.requireQuiet(r.t)
}

// damageLog keeps the lines of the reference that warn of something.
type damageLog struct {
	excuses

	mu    sync.Mutex
	lines []string
}

// Enabled is part of slog.Handler.
func (d *damageLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle is part of slog.Handler.
func (d *damageLog) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Level.String() + " " + rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
	return nil
}

// WithAttrs is part of slog.Handler.
func (d *damageLog) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup is part of slog.Handler.
func (d *damageLog) WithGroup(string) slog.Handler { return d }

func (d *damageLog) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n")
}

func (d *damageLog) requireQuiet(t testing.TB) {
	t.Helper()
	for line := range strings.Lines(d.String()) {
		require.True(t, d.covers(line), "the reference warns: %s", line)
	}
}

// excuses say what the reference may complain of.
type excuses struct {
	overlap   bool // blocks overlap, as they were made to
	rechunked bool // head chunks of one series overlap; it writes such itself, after deletes and restarts, and makes all of them anew from the log
	described bool // a log has metadata of series that a checkpoint left out; it writes such itself
	twice     bool // exemplars in a checkpoint of ours are in its own segments, too; it takes them once
}

// coversUnknown tells whether a count of unknownMetric is excused. That of series is of those that
// any kind of record has, and each of these has a count of its own.
func (e excuses) coversUnknown(kind string) bool {
	return e.described && (kind == "metadata" || kind == "series")
}

// covers tells whether a line of its log is excused.
func (e excuses) covers(line string) bool {
	return e.overlap && (strings.Contains(line, "Overlapping blocks found") || strings.HasPrefix(line, "[mint: ")) ||
		e.rechunked && strings.Contains(line, "out of sequence m-mapped chunk") ||
		e.described && strings.Contains(line, "Unknown series references") ||
		e.twice && strings.Contains(line, "exemplar record err=out of order exemplar")
}

// dumpReadOnly reads a directory through the path that promtool takes.
func dumpReadOnly(t testing.TB, dir string, e excuses) data {
	t.Helper()
	log := &damageLog{excuses: e}
	db, err := reference.OpenDBReadOnly(dir, t.TempDir(), slog.New(log))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	all := dumpTheirs(t, q)
	log.requireQuiet(t)
	return all
}
