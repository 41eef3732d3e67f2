package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// recoveryJSON is an OpenReport in JSON. Durations are seconds.
type recoveryJSON struct {
	Seconds         float64        `json:"seconds"`
	Clean           bool           `json:"clean"`
	Snapshot        string         `json:"snapshot"` // of the head; empty: none
	SnapshotBytes   int64          `json:"snapshot_bytes"`
	Ignored         []string       `json:"snapshots_ignored"`
	Segments        int            `json:"segments"`
	ForeignSegments int            `json:"foreign_segments"`
	Bytes           int64          `json:"bytes"`
	Records         int            `json:"records"`
	Commits         int            `json:"commits"`
	LastSeq         uint64         `json:"last_seq"`
	SyncedSeq       uint64         `json:"synced_seq"`
	Series          int            `json:"series"`
	Samples         uint64         `json:"samples"`
	SamplesInChunks uint64         `json:"samples_in_chunks"`
	SamplesLate     uint64         `json:"samples_late"`
	SamplesUnknown  uint64         `json:"samples_unknown"`
	SamplesInvalid  uint64         `json:"samples_invalid"`
	Tombstones      uint64         `json:"tombstones"`
	OutOfOrder      lateJSON       `json:"out_of_order"`
	HeadChunkFiles  int            `json:"head_chunk_files"`
	HeadChunks      int            `json:"head_chunks"`
	SeriesRebuilt   int            `json:"series_rebuilt"`
	ChunksBeyondLog int            `json:"chunks_beyond_log"`
	ChunksUnknown   int            `json:"chunks_unknown"`
	UnreadRecords   map[string]int `json:"unread_records"`
	UnreadSamples   int            `json:"unread_sample_records"`
	TornTail        bool           `json:"torn_tail"`
	DroppedCommits  int            `json:"dropped_commits"`
	DroppedRecords  int            `json:"dropped_records"`
	DroppedBytes    int64          `json:"dropped_bytes"`
	Damages         []damageJSON   `json:"damages"`
	Quarantined     []string       `json:"quarantined"`
	ReaderSeconds   float64        `json:"reader_busy_seconds"`
	DecoderSeconds  float64        `json:"decoder_busy_seconds"`
	WorkerSeconds   float64        `json:"worker_busy_seconds"`
}

// lateJSON is what a recovery found of late samples.
type lateJSON struct {
	Segments  int    `json:"segments"` // of the out-of-order log
	Bytes     int64  `json:"bytes"`
	Samples   uint64 `json:"samples"`
	Unknown   uint64 `json:"samples_unknown"` // without a series
	Invalid   uint64 `json:"samples_invalid"` // histograms that make no sense
	Void      uint64 `json:"samples_void"`    // of commits that never were
	Chunks    int    `json:"foreign_chunks"`  // of another engine
	Rewritten bool   `json:"log_rewritten"`
}

type damageJSON struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	Reason   string `json:"reason"`
	Tail     bool   `json:"tail"`
	Rebuilt  bool   `json:"rebuilt"`
	Harmless bool   `json:"harmless"`
}

func newRecoveryJSON(r *tsdb.OpenReport) recoveryJSON {
	j := recoveryJSON{
		Seconds: r.Duration.Seconds(), Clean: r.Clean(),
		Snapshot: r.Snapshot, SnapshotBytes: r.SnapshotBytes, Ignored: append([]string{}, r.SnapshotsIgnored...),
		Segments: r.Segments, ForeignSegments: r.ForeignSegments, Bytes: r.Bytes,
		Records: r.Records, Commits: r.Commits, LastSeq: r.LastSeq, SyncedSeq: r.SyncedSeq,
		Series: r.Series, Samples: r.Samples, SamplesInChunks: r.SamplesInChunks,
		SamplesLate: r.SamplesLate, SamplesUnknown: r.SamplesUnknown, SamplesInvalid: r.SamplesInvalid, Tombstones: r.Tombstones,
		HeadChunkFiles: r.HeadChunkFiles, HeadChunks: r.HeadChunks, SeriesRebuilt: r.SeriesRebuilt,
		ChunksBeyondLog: r.ChunksBeyondLog, ChunksUnknown: r.ChunksUnknown,
		UnreadRecords: r.UnreadRecords, UnreadSamples: r.UnreadSampleRecords, TornTail: r.TornTail,
		DroppedCommits: r.DroppedCommits, DroppedRecords: r.DroppedRecords, DroppedBytes: r.DroppedBytes,
		OutOfOrder: lateJSON{Segments: r.LateSegments, Bytes: r.LateBytes, Samples: r.LateSamples, Unknown: r.LateUnknown,
			Invalid: r.LateInvalid, Void: r.LateVoid, Chunks: r.OutOfOrderChunks, Rewritten: r.LateLogRewritten},
		Damages: []damageJSON{}, Quarantined: append([]string{}, r.Quarantined...),
		ReaderSeconds: r.ReaderBusy.Seconds(), DecoderSeconds: r.DecoderBusy.Seconds(), WorkerSeconds: r.WorkerBusy.Seconds(),
	}
	for _, d := range r.Damages {
		j.Damages = append(j.Damages, damageJSON{File: d.File, Offset: d.Offset, Reason: d.Reason, Tail: d.Tail, Rebuilt: d.Rebuilt, Harmless: d.Harmless})
	}
	return j
}

// samplesOf counts the samples that a recovery found, wherever they were.
func samplesOf(r *tsdb.OpenReport) uint64 { return r.Samples + r.SamplesInChunks }

// summary says in a line what is not there any more.
func summary(r *tsdb.OpenReport) string {
	var parts []string
	if r.DroppedCommits+r.DroppedRecords > 0 {
		parts = append(parts, fmt.Sprintf("dropped %s and %s, %s", things(r.DroppedCommits, "commit"), things(r.DroppedRecords, "record"), things(r.DroppedBytes, "byte")))
	}
	if r.SamplesUnknown > 0 {
		parts = append(parts, things(r.SamplesUnknown, "sample")+" without a series")
	}
	if n := r.SamplesInvalid + r.LateInvalid; n > 0 {
		parts = append(parts, things(n, "sample")+" without sense")
	}
	if r.LateUnknown > 0 {
		parts = append(parts, things(r.LateUnknown, "late sample")+" without a series")
	}
	if r.ChunksUnknown > 0 {
		parts = append(parts, things(r.ChunksUnknown, "full chunk")+" without a series")
	}
	if r.ChunksBeyondLog > 0 {
		parts = append(parts, things(r.ChunksBeyondLog, "full chunk")+" that the log has lost, also what was deleted of them")
	}
	if len(r.Damages) > 0 {
		d := r.Damages[0]
		parts = append(parts, fmt.Sprintf("%s at offset %d: %s", d.File, d.Offset, d.Reason))
	}
	if more := len(r.Damages) - 1; more > 0 {
		parts = append(parts, things(more, "more place"))
	}
	if len(r.Quarantined) > 0 {
		parts = append(parts, "originals in "+strings.Join(r.Quarantined, ", "))
	}
	return strings.Join(parts, "; ")
}

// printRecovery shows a report as two columns of facts.
func (c *console) printRecovery(r *tsdb.OpenReport) error {
	none := func(n int, text string) string {
		if n == 0 {
			return "none"
		}
		return text
	}
	torn := "no"
	if r.TornTail {
		torn = "yes, " + c.bytes(r.DroppedBytes) + " dropped"
	}
	snapshot := "none"
	if r.Snapshot != "" {
		snapshot = c.bytes(r.SnapshotBytes)
	}
	facts := []table.Row{
		{"snapshot of the head", snapshot, "snapshots not used", count(len(r.SnapshotsIgnored))},
		{"log read", c.bytes(r.Bytes) + " in " + things(r.Segments, "segment"), "commits", count(r.Commits)},
		{"series", count(r.Series), "samples in log and snapshot", count(r.Samples)},
		{"head chunks", count(r.HeadChunks), "samples in chunks", count(r.SamplesInChunks)},
		{"torn end", torn, "damaged places", none(len(r.Damages), count(len(r.Damages)))},
		{"quarantined", none(len(r.Quarantined), strings.Join(r.Quarantined, ", ")), "dropped commits", count(r.DroppedCommits)},
	}
	if r.LateSegments > 0 || r.LateSamples > 0 {
		facts = append(facts, table.Row{"out-of-order log read", c.bytes(r.LateBytes) + " in " + things(r.LateSegments, "segment"), "late samples", count(r.LateSamples)})
	}
	if n := r.SamplesInvalid + r.LateInvalid; n > 0 {
		facts = append(facts, table.Row{"left out, as they make no sense", things(n, "sample")})
	}
	if len(r.UnreadRecords) > 0 {
		facts = append(facts, table.Row{"not read by this version", unread(r.UnreadRecords)})
	}
	if r.UnreadSampleRecords > 0 {
		facts = append(facts, table.Row{"the head cannot be made into blocks", things(r.UnreadSampleRecords, "record") + " with samples not read"})
	}
	return c.printFacts(facts)
}

// unread lists record types and their numbers.
func unread(records map[string]int) string {
	parts := make([]string, 0, len(records))
	for name, n := range records {
		parts = append(parts, fmt.Sprintf("%s %s", count(n), name))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}
