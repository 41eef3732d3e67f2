package ship

import "github.com/prometheus/client_golang/prometheus"

// metric is a number of Stats under its name. Where Thanos' own uploader counts the same, the name
// is that one, so that dashboards and alerts for it serve here as well.
type metric struct {
	desc *prometheus.Desc
	typ  prometheus.ValueType
	of   func(*Stats) float64
}

func newMetric(name, help string, typ prometheus.ValueType, of func(*Stats) float64) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), typ, of}
}

var metrics = []metric{
	newMetric("thanos_shipper_dir_syncs_total", "Looks for blocks to upload.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.Syncs) }),
	newMetric("thanos_shipper_dir_sync_failures_total", "Such looks that failed.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.SyncFailures) }),
	newMetric("thanos_shipper_uploads_total", "Blocks that were uploaded.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.Uploads) }),
	newMetric("thanos_shipper_upload_failures_total", "Uploads of blocks that failed.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.UploadFailures) }),
	newMetric("tsdb_ship_uploaded_bytes_total", "Bytes that were sent to the bucket.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.UploadedBytes) }),
	newMetric("tsdb_ship_pending_blocks", "Blocks that are to be uploaded still.", prometheus.GaugeValue, func(s *Stats) float64 { return float64(s.Pending) }),
	newMetric("tsdb_ship_skipped_blocks", "Blocks that are not uploaded; the log has the reasons.", prometheus.GaugeValue, func(s *Stats) float64 { return float64(len(s.Skipped)) }),
	newMetric("tsdb_ship_blocks_skipped_total", "Blocks that were found not to be uploaded.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.Skips) }),
	newMetric("tsdb_ship_lost_blocks_total", "Blocks that retention took, and that were not uploaded.", prometheus.CounterValue, func(s *Stats) float64 { return float64(s.Lost) }),
	newMetric("tsdb_ship_last_sync_timestamp_seconds", "When all blocks were last seen to be uploaded; 0: never.", prometheus.GaugeValue, func(s *Stats) float64 {
		if s.LastSync.IsZero() {
			return 0
		}
		return float64(s.LastSync.UnixMilli()) / 1000
	}),
}

// Describe implements prometheus.Collector.
func (s *Shipper) Describe(ch chan<- *prometheus.Desc) {
	for i := range metrics {
		ch <- metrics[i].desc
	}
}

// Collect implements prometheus.Collector.
func (s *Shipper) Collect(ch chan<- prometheus.Metric) {
	stats := s.Stats()
	for i := range metrics {
		ch <- prometheus.MustNewConstMetric(metrics[i].desc, metrics[i].typ, metrics[i].of(&stats))
	}
}
