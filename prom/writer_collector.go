package prom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed347100a3/tsdb/remote"
)

// WriterCollector gives the numbers of a remote.Writer to a registry of metrics: those that a
// Prometheus server has, too, under its names (prometheus_remote_storage_...), others as
// tsdb_remote_write_...
type WriterCollector struct {
	w       *remote.Writer
	metrics []writerMetric
}

var _ prometheus.Collector = (*WriterCollector)(nil)

// writerMetric is one number of a Writer.
type writerMetric struct {
	desc *prometheus.Desc
	typ  prometheus.ValueType
	of   func(s *remote.WriterStats) float64
}

// NewWriterCollector returns a collector of the numbers of a Writer; all have its name as a label.
func NewWriterCollector(w *remote.Writer, name string) *WriterCollector {
	c := &WriterCollector{w: w}
	add := func(typ prometheus.ValueType, metric, help string, of func(s *remote.WriterStats) float64, labels ...string) {
		labels = append(labels, "remote_name", name)
		c.metrics = append(c.metrics, writerMetric{describe(metric, help, labels), typ, of})
	}
	counter := func(metric, help string, of func(s *remote.WriterStats) uint64, labels ...string) {
		add(prometheus.CounterValue, metric, help, func(s *remote.WriterStats) float64 { return float64(of(s)) }, labels...)
	}
	gauge := func(metric, help string, of func(s *remote.WriterStats) float64) {
		add(prometheus.GaugeValue, metric, help, of)
	}
	counter("prometheus_remote_storage_samples_total", "Floats that were taken.", func(s *remote.WriterStats) uint64 { return s.Samples })
	counter("prometheus_remote_storage_histograms_total", "Native histograms that were taken.", func(s *remote.WriterStats) uint64 { return s.Histograms })
	counter("prometheus_remote_storage_exemplars_total", "Exemplars that were taken.", func(s *remote.WriterStats) uint64 { return s.Exemplars })
	counter("prometheus_remote_storage_samples_failed_total", "Samples that the receiver refused for good.", func(s *remote.WriterStats) uint64 { return s.DroppedRefused })
	const dropped = "prometheus_remote_storage_samples_dropped_total"
	const why = "Samples that were not sent."
	counter(dropped, why, func(s *remote.WriterStats) uint64 { return s.DroppedLate }, "reason", "late")
	counter(dropped, why, func(s *remote.WriterStats) uint64 { return s.DroppedUnsupported }, "reason", "unsupported")
	counter(dropped, why, func(s *remote.WriterStats) uint64 { return s.DroppedUnread }, "reason", "unreadable")
	counter("tsdb_remote_write_samples_repeated_total", "Samples that an earlier process may have sent, and that the receiver refused.", func(s *remote.WriterStats) uint64 { return s.Repeated })
	counter("prometheus_remote_storage_bytes_total", "Bytes of requests, compressed.", func(s *remote.WriterStats) uint64 { return s.Bytes })
	counter("tsdb_remote_write_requests_total", "Requests that were sent.", func(s *remote.WriterStats) uint64 { return s.Requests })
	counter("tsdb_remote_write_requests_retried_total", "Requests that were sent again.", func(s *remote.WriterStats) uint64 { return s.Retries })
	counter("tsdb_remote_write_backfills_total", "How often the log did not have what came next.", func(s *remote.WriterStats) uint64 { return s.Backfills })
	gauge("prometheus_remote_storage_samples_pending", "Samples that wait to be sent or are on their way.", func(s *remote.WriterStats) float64 { return float64(s.Pending) })
	gauge("prometheus_remote_storage_shards", "Requests that may be on their way at a time.", func(s *remote.WriterStats) float64 { return float64(s.Shards) })
	gauge("prometheus_remote_storage_highest_timestamp_in_seconds", "Newest sample of the database.", func(s *remote.WriterStats) float64 { return seconds(s.NewestTaken) })
	gauge("prometheus_remote_storage_queue_highest_sent_timestamp_seconds", "Newest sample that was taken.", func(s *remote.WriterStats) float64 { return seconds(s.NewestSent) })
	gauge("tsdb_remote_write_pending_commits", "Commits that were not looked at yet.", func(s *remote.WriterStats) float64 { return float64(s.Commits) })
	gauge("tsdb_remote_write_series", "Series that are known.", func(s *remote.WriterStats) float64 { return float64(s.Series) })
	gauge("tsdb_remote_write_failing", "1: requests are sent again just now.", func(s *remote.WriterStats) float64 { return float64(flag(s.Failing != "")) })
	gauge("tsdb_remote_write_lag_seconds", "How much older the newest sample that was taken is than that of the database.", func(s *remote.WriterStats) float64 {
		return max(time.Duration(s.NewestTaken-s.NewestSent)*time.Millisecond, 0).Seconds()
	})
	return c
}

// Describe implements prometheus.Collector.
func (c *WriterCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *WriterCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.w.Stats()
	for _, m := range c.metrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.typ, m.of(&s))
	}
}
