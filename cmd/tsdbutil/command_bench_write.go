package main

import (
	"context"
	stderrors "errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// benchWriteCommand measures appending and committing.
type benchWriteCommand struct {
	dir        string
	series     int
	samples    int
	commitSize int
	writers    int
	interval   time.Duration
	sync       string
	compress   string
	values     string
	labels     string
	noClose    bool
	output     string
}

const benchWriteHelp = `Measure writing: create series, append samples of all of them in turn, commit.

Without DIR the data goes to a temporary directory that is removed. DIR has to be empty or new, and is kept: "bench replay DIR" measures its recovery; with --no-close, that of what a kill leaves.`

// defaultSeries is what is written without --series and --labels.
const defaultSeries = 10_000

func (p *program) addBenchWrite(bench *kingpin.CmdClause) {
	b := &benchWriteCommand{}
	cmd := bench.Command("write", benchWriteHelp)
	cmd.Arg("dir", "Data directory, empty or new.").StringVar(&b.dir)
	cmd.Flag("series", "Series. Default: 10000, or all of --labels.").IntVar(&b.series)
	cmd.Flag("samples", "Samples of each series.").Default("1000").IntVar(&b.samples)
	cmd.Flag("commit-size", "Samples in a commit.").Default("1000").IntVar(&b.commitSize)
	cmd.Flag("writers", "Goroutines that write, each its share of the series.").Default("1").IntVar(&b.writers)
	cmd.Flag("interval", "Time between samples of a series.").Default("15s").DurationVar(&b.interval)
	cmd.Flag("sync", "When commits go to stable storage: commit, interval (each second), rotate, never.").
		Default("interval").HintOptions("commit", "interval", "rotate", "never").EnumVar(&b.sync, "commit", "interval", "rotate", "never")
	cmd.Flag("compression", "Of the log: snappy, zstd, none.").
		Default("snappy").HintOptions("snappy", "zstd", "none").EnumVar(&b.compress, "snappy", "zstd", "none")
	cmd.Flag("values", "Values: "+strings.Join(valueKinds, ", ")+".").
		Default(valuesCounter).HintOptions(valueKinds...).EnumVar(&b.values, valueKinds...)
	cmd.Flag("labels", "Label sets, a JSON object a line, as \"dump --format seriesjson\" writes them.").PlaceHolder("FILE").StringVar(&b.labels)
	cmd.Flag("no-close", "End without closing the database, as a kill would. Wants DIR.").BoolVar(&b.noClose)
	outputFlag(cmd, &b.output, "table", "json")
	p.add(cmd, b.run)
}

func (b *benchWriteCommand) run(ctx context.Context, c *console) (err error) {
	if err := b.validate(); err != nil {
		return err
	}
	sets, err := b.labelSets()
	if err != nil {
		return err
	}
	dir := b.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tsdbutil-bench-"); err != nil {
			return errors.Wrap(err, "create temporary directory")
		}
		defer func() { err = stderrors.Join(err, errors.Wrap(os.RemoveAll(dir), "remove temporary directory")) }()
	} else if err := checkEmpty(dir); err != nil {
		return err
	}
	r, err := b.measure(ctx, c, dir, sets)
	if err != nil {
		return err
	}
	if b.output == "json" {
		return c.printJSON(r)
	}
	return r.print(c)
}

func (b *benchWriteCommand) validate() error {
	switch {
	case b.series < 0 || b.samples < 1 || b.commitSize < 1 || b.writers < 1:
		return usageError("--series, --samples, --commit-size and --writers want 1 or more")
	case b.noClose && b.dir == "":
		return usageError("--no-close wants a directory, which is kept")
	case b.interval < time.Millisecond:
		return usageError("--interval: want a millisecond or more")
	default:
		return nil
	}
}

func (b *benchWriteCommand) labelSets() ([]labels.Labels, error) {
	if b.labels == "" {
		if b.series == 0 {
			b.series = defaultSeries
		}
		return makeLabels(b.series), nil
	}
	sets, err := readLabels(b.labels, b.series)
	if err == nil && len(sets) < b.series {
		err = errors.Errorf("%s has %d label sets, --series asks for %d", b.labels, len(sets), b.series)
	}
	b.series = len(sets)
	return sets, err
}

func (b *benchWriteCommand) options() *tsdb.Options {
	o := &tsdb.Options{}
	switch b.sync {
	case "commit":
		o.WAL.Sync = tsdb.SyncCommit()
	case "rotate":
		o.WAL.Sync = tsdb.SyncRotate()
	case "never":
		o.WAL.Sync = tsdb.SyncNever()
	}
	switch b.compress {
	case "zstd":
		o.WAL.Compression = tsdb.CompressionBy(zstd.Codec)
	case "none":
		o.WAL.Compression = tsdb.CompressionNone
	}
	return o
}

// measure writes everything and closes the database; or leaves it to the end of the process,
// lock, loops and all.
func (b *benchWriteCommand) measure(ctx context.Context, c *console, dir string, sets []labels.Labels) (r *benchWriteResult, err error) {
	db, err := tsdb.Open(dir, b.options())
	if err != nil {
		return nil, err
	}
	bar := c.startProgress("Writing", int64(len(sets))*int64(b.samples), false)
	defer bar.finish()
	r, err = b.write(ctx, db, sets, bar)
	bar.finish()
	if err != nil {
		return nil, stderrors.Join(err, db.Close())
	}
	r.log(db.Stats().Log)
	r.PeakBytes, r.Flushes, r.Snapshots = takeResources().peak, db.Stats().Flushes, db.Stats().HeadSnapshots
	if !b.noClose {
		closing := time.Now()
		if err := db.Close(); err != nil {
			return nil, err
		}
		r.CloseSeconds = time.Since(closing).Seconds()
	}
	if r.DiskBytes, r.Disk, err = diskUsage(dir); err != nil {
		return nil, err
	}
	r.BytesPerSample = float64(r.DiskBytes) / float64(r.Samples)
	return r, nil
}

// benchWriteResult is what "bench write" found.
type benchWriteResult struct {
	Series      int    `json:"series"`
	Samples     int64  `json:"samples"`
	CommitSize  int    `json:"commit_size"`
	Writers     int    `json:"writers"`
	Sync        string `json:"sync"`
	Compression string `json:"compression"`
	Values      string `json:"values"`

	Create benchPhase `json:"create"` // series with their first sample
	Append benchPhase `json:"append"` // all further samples, by ref

	Commits        int64       `json:"commits"`
	Latency        latencyJSON `json:"commit_latency"` // of all commits
	LogBytes       uint64      `json:"log_bytes"`
	Syncs          uint64      `json:"log_syncs"`
	MaxGroup       int         `json:"log_max_group"`
	HeapBytes      uint64      `json:"heap_bytes"`
	PeakBytes      uint64      `json:"peak_rss_bytes"` // 0: not known
	Flushes        uint64      `json:"flushes"`
	Snapshots      uint64      `json:"head_snapshots"`
	CloseSeconds   float64     `json:"close_seconds"` // 0: not closed
	DiskBytes      int64       `json:"disk_bytes"`
	Disk           []usage     `json:"disk"`
	BytesPerSample float64     `json:"disk_bytes_per_sample"`
}

// benchPhase is one part of the work.
type benchPhase struct {
	Samples             int64   `json:"samples"`
	Seconds             float64 `json:"seconds"`
	CPUSeconds          float64 `json:"cpu_seconds"`
	SamplesPerSecond    float64 `json:"samples_per_second"`
	SamplesPerCPUSecond float64 `json:"samples_per_cpu_second"`
	AllocsPerSample     float64 `json:"allocs_per_sample"`
	AllocBytesPerSample float64 `json:"alloc_bytes_per_sample"`
	GCs                 uint32  `json:"gcs"`
}

func newBenchPhase(samples int64, wall time.Duration, before, after resources) benchPhase {
	p := benchPhase{Samples: samples, Seconds: wall.Seconds(), CPUSeconds: after.cpu - before.cpu, GCs: after.gcs - before.gcs}
	if samples == 0 {
		return p
	}
	n := float64(samples)
	p.AllocsPerSample = float64(after.allocs-before.allocs) / n
	p.AllocBytesPerSample = float64(after.allocB-before.allocB) / n
	p.SamplesPerSecond = n / p.Seconds
	if p.CPUSeconds > 0 {
		p.SamplesPerCPUSecond = n / p.CPUSeconds
	}
	return p
}

func (r *benchWriteResult) log(s tsdb.LogStats) {
	r.LogBytes, r.Syncs, r.MaxGroup = s.Bytes, s.Syncs, s.MaxGroup
}

func (r *benchWriteResult) print(c *console) error {
	c.printf("%s samples of %s series; %s, commits of %s samples\nsync %s, %s compression, %s values\n\n",
		count(r.Samples), count(r.Series), things(r.Writers, "writer"), count(r.CommitSize), r.Sync, r.Compression, r.Values)
	rate := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return formatNumber(v)
	}
	row := func(name string, p benchPhase) table.Row {
		return table.Row{
			name, count(p.Samples), formatSeconds(p.Seconds), rate(p.SamplesPerSecond), rate(p.SamplesPerCPUSecond),
			strconv.FormatFloat(p.AllocsPerSample, 'f', 4, 64), strconv.FormatFloat(p.AllocBytesPerSample, 'f', 2, 64),
		}
	}
	header := table.Row{"phase", "samples", "time", "samples/s", "per CPU s", "allocs/sample", "B/sample"}
	rows := []table.Row{row("create", r.Create)}
	if r.Append.Samples > 0 {
		rows = append(rows, row("append", r.Append))
	}
	if err := c.printTable(header, rows, 0, 2, 3, 4, 5, 6, 7); err != nil {
		return err
	}
	c.printf("\n")
	l := r.Latency
	header = table.Row{"commits", "p50", "p90", "p99", "p99.9", "max"}
	rows = []table.Row{{
		count(r.Commits), formatSeconds(l.P50), formatSeconds(l.P90), formatSeconds(l.P99), formatSeconds(l.P999), formatSeconds(l.Max),
	}}
	if err := c.printTable(header, rows, 0, 1, 2, 3, 4, 5, 6); err != nil {
		return err
	}
	c.printf("\n")
	c.printf("log   %s, %.2f B/sample, %s syncs, at most %s commits a write\n",
		c.bytes(int64(r.LogBytes)), float64(r.LogBytes)/float64(r.Samples), count(r.Syncs), count(r.MaxGroup))
	closed := "not closed"
	if r.CloseSeconds > 0 {
		closed = "after close (" + formatSeconds(r.CloseSeconds) + ")"
	}
	c.printf("disk  %s %s, %.2f B/sample; %s, %s of the head\n", c.bytes(r.DiskBytes), closed, r.BytesPerSample,
		things(int(r.Flushes), "block"), things(int(r.Snapshots), "snapshot"))
	c.printf("heap  %s at the end", c.bytes(int64(r.HeapBytes)))
	if r.PeakBytes > 0 {
		c.printf("; peak resident memory %s", c.bytes(int64(r.PeakBytes)))
	}
	c.printf("\n")
	return nil
}
