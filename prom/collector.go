package prom

import (
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed347100a3/tsdb"
)

// Collector gives the numbers of a database to a registry of metrics: those that a Prometheus
// server has, too, under its names (prometheus_tsdb_...), others as tsdb_...
type Collector struct{ store *Storage }

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of the numbers of a database.
func NewCollector(db *tsdb.DB) *Collector { return &Collector{NewStorage(db)} }

// reading is what a database says of itself at one collection.
type reading struct {
	tsdb.Stats
	open      tsdb.OpenReport
	retention tsdb.RetentionLimits
	start     int64 // of all data, milliseconds
	health    error
	// logDamages counts places of the log that Open found damaged.
	logDamages int
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range metrics {
		ch <- metrics[i].desc
	}
	ch <- syncDuration
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	db := c.store.db
	start, err := c.store.StartTime()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(lowest.desc, err)
		return
	}
	r := reading{Stats: db.Stats(), open: db.OpenReport(), retention: db.Retention(), start: start, health: db.Health()}
	r.logDamages = logDamages(db.Dir(), r.open.Damages)
	for i := range metrics {
		ch <- prometheus.MustNewConstMetric(metrics[i].desc, metrics[i].typ, metrics[i].of(&r))
	}
	ch <- prometheus.MustNewConstSummary(syncDuration, r.Log.Syncs, r.Log.SyncTime.Seconds(), nil)
}

// logDamages counts the damages of the log, but for the unfinished end that a crash leaves.
func logDamages(dir string, all []tsdb.Damage) (n int) {
	for _, d := range all {
		file := d.File
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
		first, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		if first == "wal" && !d.Tail {
			n++
		}
	}
	return n
}
