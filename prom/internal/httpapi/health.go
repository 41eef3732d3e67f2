package httpapi

import (
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed347100a3/tsdb"
)

// health says how the database is: what Open found, what it does, and what disk it has. Clients of
// Prometheus do not know it. Times are in milliseconds, durations in seconds, sizes in bytes.
func (a *API) health(*http.Request) answer {
	state := "ok"
	if err := a.DB.Health(); err != nil {
		state = err.Error()
	}
	st, report, opts, keep := a.DB.Stats(), a.DB.OpenReport(), a.DB.Options(), a.DB.Retention()
	return answer{data: healthFacts{
		Health: state, Directory: a.DB.Dir(), Options: a.Flags, Sync: syncFactsOf(opts.WAL.Sync),
		Retention: retentionFacts{max(0, keep.Duration.Seconds()), max(0, keep.Bytes), max(0, keep.Percent)},
		Missing:   missingFactsOf(a.DB.MissingBlocks()),
		Open:      openFactsOf(&report), Stats: statFactsOf(&st),
		Accepts: timeRange{st.AcceptsFrom, st.AcceptsTo},
		Disk:    diskFactsOf(a.DB.Dir()),
	}}
}

type healthFacts struct {
	Health    string            `json:"health"` // "ok", or what somebody should look at
	Directory string            `json:"directory"`
	Options   map[string]string `json:"options"` // as status/flags has them
	Sync      syncFacts         `json:"sync"`
	Retention retentionFacts    `json:"retention"`
	Missing   []missingFacts    `json:"missing"` // blocks that are not read
	Open      openFacts         `json:"open"`
	Stats     statFacts         `json:"stats"`
	Accepts   timeRange         `json:"accepts"` // times that samples may have now
	Disk      diskFacts         `json:"disk"`
}

// syncFacts say when commits go to stable storage: commit, interval, rotate or never.
type syncFacts struct {
	Policy          string  `json:"policy"`
	IntervalSeconds float64 `json:"intervalSeconds"` // of interval
}

func syncFactsOf(p tsdb.SyncPolicy) syncFacts {
	if d := p.Interval(); d > 0 {
		return syncFacts{"interval", d.Seconds()}
	}
	return syncFacts{Policy: p.String()}
}

// retentionFacts are limits of which 0 deletes nothing.
type retentionFacts struct {
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
	Percent float64 `json:"percent"` // of the disk
}

// missingFacts is a block that there should be. Nobody knows the times of some.
type missingFacts struct {
	ULID     string `json:"ulid"`
	Path     string `json:"path"`
	MinTime  *int64 `json:"minTime"`
	MaxTime  *int64 `json:"maxTime"`
	Vanished bool   `json:"vanished"`
}

func missingFactsOf(blocks []tsdb.MissingBlock) []missingFacts {
	list := []missingFacts{}
	for _, b := range blocks {
		f := missingFacts{ULID: b.ULID.String(), Path: b.Path, Vanished: b.Vanished}
		if b.MinTime != math.MinInt64 || b.MaxTime != math.MaxInt64 {
			f.MinTime, f.MaxTime = &b.MinTime, &b.MaxTime
		}
		list = append(list, f)
	}
	return list
}

type timeRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// openFacts is what of a tsdb.OpenReport people look at.
type openFacts struct {
	Clean           bool           `json:"clean"`
	Seconds         float64        `json:"seconds"`
	Segments        int            `json:"segments"`
	Bytes           int64          `json:"bytes"`
	Commits         int            `json:"commits"`
	Snapshot        string         `json:"snapshot"`
	Series          int            `json:"series"`
	Samples         uint64         `json:"samples"`
	SamplesInChunks uint64         `json:"samplesInChunks"`
	SamplesLate     uint64         `json:"samplesLate"`
	LateSamples     uint64         `json:"lateSamples"` // read, of the out-of-order log and the log
	LateUnknown     uint64         `json:"lateUnknown"` // without a series
	SamplesUnknown  uint64         `json:"samplesUnknown"`
	SamplesInvalid  uint64         `json:"samplesInvalid"`
	Blocks          int            `json:"blocks"`
	BlocksSetAside  int            `json:"blocksSetAside"`
	BlocksVanished  int            `json:"blocksVanished"`
	TornTail        bool           `json:"tornTail"`
	DroppedCommits  int            `json:"droppedCommits"`
	DroppedRecords  int            `json:"droppedRecords"`
	DroppedBytes    int64          `json:"droppedBytes"`
	UnreadRecords   map[string]int `json:"unreadRecords"`
	Damages         []damageFacts  `json:"damages"`
	Quarantined     []string       `json:"quarantined"`
}

// damageFacts is one place that was damaged. Lost: something that was promised is not there.
type damageFacts struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
	Lost   bool   `json:"lost"`
}

func openFactsOf(r *tsdb.OpenReport) openFacts {
	f := openFacts{
		Clean: r.Clean(), Seconds: r.Duration.Seconds(), Segments: r.Segments, Bytes: r.Bytes, Commits: r.Commits, Snapshot: r.Snapshot,
		Series: r.Series, Samples: r.Samples, SamplesInChunks: r.SamplesInChunks, SamplesLate: r.SamplesLate, LateSamples: r.LateSamples, LateUnknown: r.LateUnknown, SamplesUnknown: r.SamplesUnknown, SamplesInvalid: r.SamplesInvalid + r.LateInvalid,
		Blocks: r.Blocks, BlocksSetAside: r.BlocksSetAside, BlocksVanished: r.BlocksVanished,
		TornTail: r.TornTail, DroppedCommits: r.DroppedCommits, DroppedRecords: r.DroppedRecords, DroppedBytes: r.DroppedBytes,
		UnreadRecords: map[string]int{}, Damages: []damageFacts{}, Quarantined: append([]string{}, r.Quarantined...),
	}
	for kind, n := range r.UnreadRecords {
		f.UnreadRecords[kind] = n
	}
	for _, d := range r.Damages {
		f.Damages = append(f.Damages, damageFacts{d.File, d.Offset, d.Reason, !d.Tail && !d.Rebuilt && !d.Harmless})
	}
	return f
}

// statFacts is what of tsdb.Stats people look at. Counters begin when the database is opened.
type statFacts struct {
	Series        int   `json:"series"`
	MinTime       int64 `json:"minTime"` // closed; minTime > maxTime: the head is empty
	MaxTime       int64 `json:"maxTime"`
	HeadSizeBytes int64 `json:"headSizeBytes"`

	Commits         uint64 `json:"commits"`
	CommitsFailed   uint64 `json:"commitsFailed"`
	SamplesAppended uint64 `json:"samplesAppended"`
	SamplesRejected uint64 `json:"samplesRejected"` // that commits found late
	// By the reason, those that were refused before included.
	SamplesOutOfOrder   uint64 `json:"samplesOutOfOrder"`
	SamplesDuplicate    uint64 `json:"samplesDuplicate"`
	SamplesOutOfBounds  uint64 `json:"samplesOutOfBounds"`
	SamplesTooOld       uint64 `json:"samplesTooOld"` // for the window of late samples
	LateSamplesAppended uint64 `json:"lateSamplesAppended"`
	LateSamples         int64  `json:"lateSamples"` // in memory
	LateBytes           int64  `json:"lateBytes"`
	LateFlushes         uint64 `json:"lateFlushes"`
	SeriesCreated       uint64 `json:"seriesCreated"`
	SeriesRemoved       uint64 `json:"seriesRemoved"`

	HeadChunkFiles    int    `json:"headChunkFiles"`
	HeadChunkBytes    int64  `json:"headChunkBytes"`
	HeadChunksDamaged uint64 `json:"headChunksDamaged"`
	HeadSamplesLost   uint64 `json:"headSamplesLost"`

	Blocks        int    `json:"blocks"`
	BlockBytes    int64  `json:"blockBytes"`
	BlocksMissing int    `json:"blocksMissing"`
	BlocksRemoved uint64 `json:"blocksRemoved"`
	Flushes       uint64 `json:"flushes"`
	FlushErrors   uint64 `json:"flushErrors"`
	Merges        uint64 `json:"merges"`
	MergeErrors   uint64 `json:"mergeErrors"`
	Deletes       uint64 `json:"deletes"`

	RetentionBehindSeconds    float64 `json:"retentionBehindSeconds"`
	Queriers                  uint64  `json:"queriers"`
	QueriersOpen              int     `json:"queriersOpen"`
	OldestQuerierSinceSeconds float64 `json:"oldestQuerierSinceSeconds"`

	Log logFacts `json:"log"`
}

// logFacts are about the write-ahead log.
type logFacts struct {
	Bytes           uint64  `json:"bytes"` // written
	Writes          uint64  `json:"writes"`
	Syncs           uint64  `json:"syncs"`
	SyncMeanSeconds float64 `json:"syncMeanSeconds"`
	SyncMaxSeconds  float64 `json:"syncMaxSeconds"`
	Segment         int     `json:"segment"`
}

func statFactsOf(s *tsdb.Stats) statFacts {
	return statFacts{
		Series: s.Series, MinTime: s.MinT, MaxTime: s.MaxT, HeadSizeBytes: s.HeadSizeBytes,
		Commits: s.Commits, CommitsFailed: s.CommitsFailed, SamplesAppended: s.SamplesAppended, SamplesRejected: s.SamplesRejected,
		SamplesOutOfOrder: s.SamplesOutOfOrder, SamplesDuplicate: s.SamplesDuplicate, SamplesOutOfBounds: s.SamplesOutOfBounds,
		SamplesTooOld: s.SamplesTooOld, LateSamplesAppended: s.LateSamplesAppended, LateSamples: s.LateSamples, LateBytes: s.LateBytes, LateFlushes: s.LateFlushes,
		SeriesCreated: s.SeriesCreated, SeriesRemoved: s.SeriesRemoved,
		HeadChunkFiles: s.HeadChunkFiles, HeadChunkBytes: s.HeadChunkBytes, HeadChunksDamaged: s.HeadChunksDamaged, HeadSamplesLost: s.HeadSamplesLost,
		Blocks: s.Blocks, BlockBytes: s.BlockBytes, BlocksMissing: s.BlocksMissing, BlocksRemoved: s.BlocksRemoved,
		Flushes: s.Flushes, FlushErrors: s.FlushErrors, Merges: s.Merges, MergeErrors: s.MergeErrors, Deletes: s.Deletes,
		RetentionBehindSeconds: s.RetentionBehind.Seconds(), Queriers: s.Queriers, QueriersOpen: s.QueriersOpen,
		OldestQuerierSinceSeconds: s.OldestQuerierSince.Seconds(),
		Log: logFacts{
			Bytes: s.Log.Bytes, Writes: s.Log.Writes, Syncs: s.Log.Syncs,
			SyncMeanSeconds: (s.Log.SyncTime / time.Duration(max(s.Log.Syncs, 1))).Seconds(),
			SyncMaxSeconds:  s.Log.MaxSync.Seconds(), Segment: s.Log.Segment,
		},
	}
}

// diskFacts is what takes place on the disk; it has zeros for a database that is not on one.
type diskFacts struct {
	FreeBytes       int64            `json:"freeBytes"`
	TotalBytes      int64            `json:"totalBytes"`
	LogBytes        int64            `json:"logBytes"` // of segments and checkpoints
	QuarantineBytes int64            `json:"quarantineBytes"`
	BlockBytes      map[string]int64 `json:"blockBytes"` // by name
}

const (
	logDir        = "wal"
	quarantineDir = "quarantine"
	ulidLen       = 26 // of a block's name
)

func diskFactsOf(dir string) diskFacts {
	f := diskFacts{BlockBytes: map[string]int64{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f // no directory of the operating system
	}
	if disk, ok := tsdb.DefaultOptions().FS.(interface {
		DiskSpace(dir string) (free, total int64, err error)
	}); ok {
		f.FreeBytes, f.TotalBytes, _ = disk.DiskSpace(dir) // zeros are what is not known
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir():
		case name == logDir || strings.HasPrefix(name, "checkpoint."):
			f.LogBytes += sizeBytes(filepath.Join(dir, name))
		case name == quarantineDir:
			f.QuarantineBytes = sizeBytes(filepath.Join(dir, name))
		case len(name) == ulidLen:
			f.BlockBytes[name] = sizeBytes(filepath.Join(dir, name))
		}
	}
	return f
}

// sizeBytes is what the files in a directory have. Those that vanish meanwhile count nothing.
func sizeBytes(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
