package main

import (
	"context"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// benchReplayCommand measures recovery.
type benchReplayCommand struct {
	dir     string
	workers int
	repeat  int
	log     bool
	output  string
}

const benchReplayHelp = `Measure recovery: open a database and say how fast that was.

The database is opened as any program opens it, so damage is mended, and full chunks are written out: a second run may find samples in chunk files, or in a snapshot of the head, that the first one found in the log. Use a copy if that matters. Exit code 1 if recovery found damage.`

func (p *program) addBenchReplay(bench *kingpin.CmdClause) {
	b := &benchReplayCommand{}
	cmd := bench.Command("replay", benchReplayHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&b.dir)
	cmd.Flag("workers", "Goroutines that rebuild series; 0: one per CPU.").Default("0").IntVar(&b.workers)
	cmd.Flag("log", "Read the whole log, as if there were no snapshot of the head. It is removed, like any that Open does not use.").BoolVar(&b.log)
	cmd.Flag("repeat", "Open and close so many times.").Default("1").IntVar(&b.repeat)
	outputFlag(cmd, &b.output, "table", "json")
	p.add(cmd, b.run)
}

// replayRun is one opening. Rates count the samples of the log and those of chunk
// files.
type replayRun struct {
	Recovery         recoveryJSON `json:"recovery"`
	OpenSeconds      float64      `json:"open_seconds"`
	CPUSeconds       float64      `json:"cpu_seconds"`
	SamplesPerSecond float64      `json:"samples_per_second"`
	BytesPerSecond   float64      `json:"log_bytes_per_second"`
	Allocs           uint64       `json:"allocs"`
	AllocBytes       uint64       `json:"alloc_bytes"`
	HeapBytes        uint64       `json:"heap_bytes"`     // after the opening and a collection
	PeakBytes        uint64       `json:"peak_rss_bytes"` // of the process so far; 0: not known
	report           tsdb.OpenReport
}

func (b *benchReplayCommand) run(ctx context.Context, c *console) error {
	if b.repeat < 1 || b.workers < 0 {
		return usageError("--repeat wants 1 or more, --workers 0 or more")
	}
	runs := make([]replayRun, 0, b.repeat)
	clean := true
	for range b.repeat {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := b.once(c)
		if err != nil {
			return err
		}
		clean = clean && r.Recovery.Clean
		runs = append(runs, r)
	}
	if err := b.print(c, runs); err != nil {
		return err
	}
	if !clean {
		return errProblem
	}
	return nil
}

func (b *benchReplayCommand) once(c *console) (r replayRun, err error) {
	before := takeResources()
	begin := time.Now()
	opts := &tsdb.Options{Head: tsdb.HeadOptions{ReplayWorkers: b.workers}}
	if b.log {
		opts.Head.SnapshotThreshold = -1
	}
	db, err := c.openExisting(b.dir, opts)
	if err != nil {
		return r, err
	}
	r.OpenSeconds = time.Since(begin).Seconds()
	defer closeDB(db, &err)
	after := takeResources()
	r.report = db.OpenReport()
	r.Recovery = newRecoveryJSON(&r.report)
	r.CPUSeconds, r.Allocs, r.AllocBytes = after.cpu-before.cpu, after.allocs-before.allocs, after.allocB-before.allocB
	r.HeapBytes, r.PeakBytes = liveHeap(), after.peak
	if s := r.report.Duration.Seconds(); s > 0 {
		r.SamplesPerSecond = float64(samplesOf(&r.report)) / s
		r.BytesPerSecond = float64(r.report.Bytes) / s
	}
	return r, nil
}

func (b *benchReplayCommand) print(c *console, runs []replayRun) error {
	if b.output == "json" {
		return c.printJSON(map[string]any{"runs": runs})
	}
	last := runs[len(runs)-1]
	c.printf("Recovery of %s\n\n", b.dir)
	if err := c.printRecovery(&last.report); err != nil {
		return err
	}
	c.printf("\n")
	header := table.Row{"run", "time", "samples/s", "log/s", "CPU", "reader", "decoders", "workers"}
	rows := make([]table.Row, 0, len(runs))
	for i, r := range runs {
		rows = append(rows, table.Row{
			strconv.Itoa(i + 1), formatDuration(r.report.Duration), formatNumber(r.SamplesPerSecond), unitBytesPerSecond.format(r.BytesPerSecond),
			formatSeconds(r.CPUSeconds), formatDuration(r.report.ReaderBusy), formatDuration(r.report.DecoderBusy), formatDuration(r.report.WorkerBusy),
		})
	}
	if err := c.printTable(header, rows, 0, 2, 3, 4, 5, 6, 7, 8); err != nil {
		return err
	}
	c.printf("\nheap %s", c.bytes(int64(last.HeapBytes)))
	if n := last.Recovery.Series; n > 0 {
		c.printf(", %s a series", c.bytes(int64(last.HeapBytes)/int64(n)))
	}
	if last.PeakBytes > 0 {
		c.printf("; peak resident memory %s", c.bytes(int64(last.PeakBytes)))
	}
	c.printf("\nreader, decoders, workers: how long each stage was busy, in all its goroutines\n")
	return nil
}
