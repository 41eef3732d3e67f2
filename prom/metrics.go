package prom

import "github.com/prometheus/client_golang/prometheus"

// metric is one number of a database.
type metric struct {
	desc *prometheus.Desc
	typ  prometheus.ValueType
	of   func(r *reading) float64
}

// number is what numbers of a database are.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// counter is a number that only rises until the database is closed; labels are a name and a value
// each.
func counter[N number](name, help string, of func(r *reading) N, labels ...string) metric {
	return metric{describe(name, help, labels), prometheus.CounterValue, func(r *reading) float64 { return float64(of(r)) }}
}

func gauge[N number](name, help string, of func(r *reading) N, labels ...string) metric {
	return metric{describe(name, help, labels), prometheus.GaugeValue, func(r *reading) float64 { return float64(of(r)) }}
}

func describe(name, help string, labels []string) *prometheus.Desc {
	constant := prometheus.Labels{}
	for i := 0; i < len(labels); i += 2 {
		constant[labels[i]] = labels[i+1]
	}
	return prometheus.NewDesc(name, help, nil, constant)
}

// seconds makes seconds of milliseconds.
func seconds(ms int64) float64 { return float64(ms) / 1000 }

// limit is 0 for a limit that is off.
func limit[N ~int64 | ~float64](v N) N { return max(v, 0) }

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// syncDuration has a count and a sum, no quantiles.
var syncDuration = prometheus.NewDesc("prometheus_tsdb_wal_fsync_duration_seconds", "Syncs of the log.", nil, nil)

// lowest has no value where the begin of all data cannot be found out.
var lowest = gauge("prometheus_tsdb_lowest_timestamp", "Begin of the oldest block or of the head, milliseconds.", func(r *reading) int64 { return r.start })

// metrics are those of a Prometheus server as far as they mean the same here, and ours. A test
// knows which of the reference's are left out, and why (testdata/metric_families.json).
var metrics = []metric{
	lowest,
	gauge("prometheus_tsdb_lowest_timestamp_seconds", "Begin of the oldest block or of the head, seconds.", func(r *reading) float64 { return seconds(r.start) }), // Thanos reads it

	gauge("prometheus_tsdb_head_series", "Series in the head.", func(r *reading) int { return r.Series }),
	counter("tsdb_head_series_refused_total", "How often a new series was refused, for its labels or for a limit.", func(r *reading) uint64 { return r.SeriesRefused }),
	counter("prometheus_tsdb_head_series_created_total", "Series that were created in the head.", func(r *reading) uint64 { return r.SeriesCreated }),
	counter("prometheus_tsdb_head_series_removed_total", "Series that were removed from the head.", func(r *reading) uint64 { return r.SeriesRemoved }),
	gauge("prometheus_tsdb_head_min_time", "Oldest sample of the head, milliseconds.", func(r *reading) int64 { return r.MinT }),
	gauge("prometheus_tsdb_head_max_time", "Newest sample of the head, milliseconds.", func(r *reading) int64 { return r.MaxT }),
	gauge("prometheus_tsdb_head_min_time_seconds", "Oldest sample of the head, seconds.", func(r *reading) float64 { return seconds(r.MinT) }),
	gauge("prometheus_tsdb_head_max_time_seconds", "Newest sample of the head, seconds.", func(r *reading) float64 { return seconds(r.MaxT) }),
	gauge("prometheus_tsdb_head_chunks", "Chunks in the head.", func(r *reading) int { return r.HeadChunks }),
	counter("prometheus_tsdb_head_chunks_created_total", "Chunks that were begun in the head.", func(r *reading) uint64 { return r.HeadChunksCreated }),
	counter("prometheus_tsdb_head_chunks_removed_total", "Chunks that were removed from the head.", func(r *reading) uint64 { return r.HeadChunksRemoved }),
	gauge("prometheus_tsdb_head_chunks_storage_size_bytes", "Bytes of the head-chunk files.", func(r *reading) int64 { return r.HeadChunkBytes }),
	counter("prometheus_tsdb_mmap_chunks_total", "Full chunks that were put into files.", func(r *reading) uint64 { return r.HeadChunksWritten }),
	counter("prometheus_tsdb_mmap_chunk_corruptions_total", "Chunks of the head that were damaged in their files.", func(r *reading) uint64 { return r.HeadChunksDamaged }),

	counter("prometheus_tsdb_head_samples_appended_total", "Samples of commits that succeeded.", func(r *reading) uint64 { return r.FloatsAppended }, "type", "float"),
	counter("prometheus_tsdb_head_samples_appended_total", "Samples of commits that succeeded.", func(r *reading) uint64 { return r.HistogramsAppended + r.FloatHistogramsAppended }, "type", "histogram"),
	counter("prometheus_tsdb_out_of_order_samples_total", "Samples that were older than the newest of their series.", func(r *reading) uint64 { return r.SamplesOutOfOrder - r.HistogramsOutOfOrder }, "type", "float"),
	counter("prometheus_tsdb_out_of_order_samples_total", "Samples that were older than the newest of their series.", func(r *reading) uint64 { return r.HistogramsOutOfOrder }, "type", "histogram"),
	counter("prometheus_tsdb_out_of_bound_samples_total", "Samples outside of the times that are accepted.", func(r *reading) uint64 { return r.SamplesOutOfBounds - r.HistogramsOutOfBounds }, "type", "float"),
	counter("prometheus_tsdb_out_of_bound_samples_total", "Samples outside of the times that are accepted.", func(r *reading) uint64 { return r.HistogramsOutOfBounds }, "type", "histogram"),
	counter("prometheus_tsdb_too_old_samples_total", "Samples older than the out-of-order window.", func(r *reading) uint64 { return r.SamplesTooOld - r.HistogramsTooOld }, "type", "float"),
	counter("prometheus_tsdb_too_old_samples_total", "Samples older than the out-of-order window.", func(r *reading) uint64 { return r.HistogramsTooOld }, "type", "histogram"),
	counter("prometheus_tsdb_head_out_of_order_samples_appended_total", "Late samples of commits that succeeded.", func(r *reading) uint64 { return r.LateSamplesAppended - r.LateHistogramsAppended }, "type", "float"),
	counter("prometheus_tsdb_head_out_of_order_samples_appended_total", "Late samples of commits that succeeded.", func(r *reading) uint64 { return r.LateHistogramsAppended }, "type", "histogram"),
	gauge("tsdb_out_of_order_samples", "Late samples in memory.", func(r *reading) int64 { return r.LateSamples }),
	gauge("tsdb_out_of_order_size_bytes", "Memory of late samples; that of the head has it, too.", func(r *reading) int64 { return r.LateBytes }),
	counter("tsdb_out_of_order_flushes_total", "How often all late samples became blocks.", func(r *reading) uint64 { return r.LateFlushes }),
	counter("tsdb_duplicate_samples_total", "Samples of a time for which their series has another value.", func(r *reading) uint64 { return r.SamplesDuplicate }),
	counter("tsdb_late_samples_total", "Samples that commits left out, as others had made them late.", func(r *reading) uint64 { return r.SamplesRejected }),
	gauge("tsdb_accepts_from_timestamp_seconds", "Samples may have this time now, or a later one.", func(r *reading) float64 { return seconds(r.AcceptsFrom) }),
	gauge("tsdb_accepts_to_timestamp_seconds", "Samples may have this time now, or an earlier one.", func(r *reading) float64 { return seconds(r.AcceptsTo) }),
	counter("tsdb_commits_total", "Commits that succeeded.", func(r *reading) uint64 { return r.Commits }),
	counter("tsdb_deletes_total", "Calls of Delete.", func(r *reading) uint64 { return r.Deletes }),
	gauge("tsdb_head_size_bytes", "Memory of the head.", func(r *reading) int64 { return r.HeadSizeBytes }),
	gauge("tsdb_head_waiting_chunks_size_bytes", "Full chunks that wait for a file.", func(r *reading) int64 { return r.FullBytes }),
	counter("tsdb_head_chunk_writes_failed_total", "Attempts to put full chunks into files that failed; they are repeated.", func(r *reading) uint64 { return r.HeadChunkWriteErrors }),
	counter("tsdb_head_samples_lost_total", "Samples of damaged chunks that the log did not have either.", func(r *reading) uint64 { return r.HeadSamplesLost }),
	counter("tsdb_head_snapshots_total", "Snapshots of the head, for the next start.", func(r *reading) uint64 { return r.HeadSnapshots }),
	counter("tsdb_head_snapshots_failed_total", "Snapshots of the head that failed.", func(r *reading) uint64 { return r.HeadSnapshotErrors }),

	counter("prometheus_tsdb_exemplar_exemplars_appended_total", "Exemplars that were stored.", func(r *reading) uint64 { return r.ExemplarsAppended }),
	gauge("prometheus_tsdb_exemplar_exemplars_in_storage", "Exemplars that are kept.", func(r *reading) int { return r.Exemplars }),
	gauge("prometheus_tsdb_exemplar_series_with_exemplars_in_storage", "Series that have exemplars.", func(r *reading) int { return r.ExemplarSeries }),
	gauge("prometheus_tsdb_exemplar_max_exemplars", "How many exemplars are kept at most.", func(r *reading) int { return r.MaxExemplars }),
	counter("tsdb_exemplars_refused_total", "Exemplars that were refused.", func(r *reading) uint64 { return r.ExemplarsRejected }),

	counter("prometheus_tsdb_wal_writes_failed_total", "Commits that could not be written to the log.", func(r *reading) uint64 { return r.CommitsFailed }),
	counter("prometheus_tsdb_wal_record_parts_bytes_written_total", "Bytes that were written to the log.", func(r *reading) uint64 { return r.Log.Bytes }),
	gauge("prometheus_tsdb_wal_segment_current", "Number of the segment that is being written.", func(r *reading) int { return r.Log.Segment }),
	counter("prometheus_tsdb_wal_corruptions_total", "Damaged places of the log that were found.", func(r *reading) uint64 { return uint64(r.logDamages) + r.LogDamages }),
	counter("prometheus_tsdb_wal_truncations_total", "Attempts to shorten the log.", func(r *reading) uint64 { return r.Checkpoints + r.CheckpointErrors }),
	counter("prometheus_tsdb_wal_truncations_failed_total", "Attempts to shorten the log that failed.", func(r *reading) uint64 { return r.CheckpointErrors }),
	counter("prometheus_tsdb_checkpoint_creations_total", "Attempts to make a checkpoint of the log.", func(r *reading) uint64 { return r.Checkpoints + r.CheckpointErrors }),
	counter("prometheus_tsdb_checkpoint_creations_failed_total", "Checkpoints of the log that failed.", func(r *reading) uint64 { return r.CheckpointErrors }),
	counter("tsdb_wal_writes_total", "Write calls for commits; several commits may share one.", func(r *reading) uint64 { return r.Log.Writes }),
	gauge("tsdb_wal_sync_max_seconds", "Longest sync of the log.", func(r *reading) float64 { return r.Log.MaxSync.Seconds() }),
	gauge("tsdb_wal_sync_last_seconds", "Newest sync of the log.", func(r *reading) float64 { return r.Log.LastSync.Seconds() }),

	gauge("prometheus_tsdb_blocks_loaded", "Blocks that are open.", func(r *reading) int { return r.Blocks }),
	gauge("prometheus_tsdb_storage_blocks_bytes", "Bytes of all blocks.", func(r *reading) int64 { return r.BlockBytes }),
	gauge("tsdb_blocks_missing", "Blocks that there should be and that are not read.", func(r *reading) int { return r.BlocksMissing }),
	counter("prometheus_tsdb_compactions_total", "Blocks that were made of the head or of other blocks.", func(r *reading) uint64 { return r.Flushes + r.Merges }),
	counter("prometheus_tsdb_compactions_failed_total", "Blocks that could not be made.", func(r *reading) uint64 { return r.FlushErrors + r.MergeErrors }),
	counter("tsdb_flushes_total", "Blocks that were made of the head.", func(r *reading) uint64 { return r.Flushes }),
	counter("tsdb_flushes_failed_total", "Attempts to make blocks of the head that failed; they are repeated.", func(r *reading) uint64 { return r.FlushErrors }),
	counter("tsdb_merges_total", "Blocks that were made of others.", func(r *reading) uint64 { return r.Merges }),
	counter("tsdb_merges_failed_total", "Merges that failed; their blocks rest for a while.", func(r *reading) uint64 { return r.MergeErrors }),
	counter("prometheus_tsdb_reloads_total", "Looks for blocks that somebody put into the directory.", func(r *reading) uint64 { return r.Reloads }),
	counter("prometheus_tsdb_reloads_failures_total", "Such looks that found blocks which cannot be opened.", func(r *reading) uint64 { return r.ReloadErrors }),
	gauge("prometheus_tsdb_retention_limit_seconds", "How long samples are kept; 0: for ever.", func(r *reading) float64 { return limit(r.retention.Duration.Seconds()) }),
	gauge("prometheus_tsdb_retention_limit_bytes", "How large the directory may become; 0: as large as the disk.", func(r *reading) int64 { return limit(r.retention.Bytes) }),
	gauge("prometheus_tsdb_retention_limit_percentage", "How much of the disk the directory may take; 0: all.", func(r *reading) float64 { return limit(r.retention.Percent) }),
	counter("prometheus_tsdb_time_retentions_total", "How often blocks were removed because they were too old.", func(r *reading) uint64 { return r.TimeRetentions }),
	counter("prometheus_tsdb_size_retentions_total", "How often blocks were removed because all together were too large.", func(r *reading) uint64 { return r.ByteRetentions }),
	counter("tsdb_blocks_removed_total", "Blocks that retention removed, DropBlocks, or Delete on a full disk.", func(r *reading) uint64 { return r.BlocksRemoved }),
	gauge("tsdb_retention_behind_seconds", "How far retention stays behind a clock that went further than time passed.", func(r *reading) float64 { return r.RetentionBehind.Seconds() }),

	gauge("prometheus_tsdb_data_replay_duration_seconds", "How long the last start took to read what was there.", func(r *reading) float64 { return r.open.Duration.Seconds() }),
	counter("prometheus_tsdb_snapshot_replay_error_total", "Snapshots of the head that the last start could not use.", func(r *reading) int { return len(r.open.SnapshotsIgnored) }),
	gauge("tsdb_open_clean", "1: the last start lost nothing of what was promised.", func(r *reading) int { return flag(r.open.Clean()) }),
	gauge("tsdb_healthy", "1: nobody must look at anything.", func(r *reading) int { return flag(r.health == nil) }),
	counter("tsdb_queriers_opened_total", "Snapshots that queries read.", func(r *reading) uint64 { return r.Queriers }),
	gauge("tsdb_queriers_open", "Snapshots that are read now.", func(r *reading) int { return r.QueriersOpen }),
	gauge("tsdb_oldest_querier_age_seconds", "How long the oldest of them is open; it holds files and memory.", func(r *reading) float64 { return r.OldestQuerierSince.Seconds() }),
}
