package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/hostmetrics"
)

// demoCommand records this machine, kills the recorder, recovers, and shows what is
// there.
type demoCommand struct {
	dir      string
	duration time.Duration
	interval time.Duration
	output   string
}

const (
	demoHelp = `Record this machine's metrics, kill the recorder, recover, compact, and show what is there.`
	demoLong = demoHelp + `

A child process records for about ten seconds and is then killed without warning. The directory is opened again, every scrape that the child had acknowledged is looked for, bit by bit, and some selections show what can be asked. Then everything becomes blocks, and is looked for once more. A second run on the same directory goes on where the first stopped.

Metrics, as far as this system has them:

`
)

func (p *program) addDemo() {
	d := &demoCommand{}
	cmd := p.app.Command("demo", demoHelp).HelpLong(demoLong + metricList())
	cmd.Arg("dir", "Data directory; ./tsdb-demo if none is named.").Default("./tsdb-demo").StringVar(&d.dir)
	cmd.Flag("duration", "How long to record.").Default("10s").DurationVar(&d.duration)
	cmd.Flag("interval", "Between scrapes.").Default("150ms").DurationVar(&d.interval)
	outputFlag(cmd, &d.output, "table", "json")
	p.add(cmd, d.run)
}

// metricList lays out the documentation of metrics; indented lines are not wrapped.
func metricList() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, m := range append(hostmetrics.Docs[:len(hostmetrics.Docs):len(hostmetrics.Docs)], demoDocs...) {
		name := m.Name
		if m.Labels != "" {
			name += "{" + m.Labels + "}"
		}
		_, _ = fmt.Fprintf(w, "\t%s\n\t    %s\n", name, m.Help)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func (d *demoCommand) run(ctx context.Context, c *console) error {
	if d.duration <= 0 || d.interval < time.Millisecond {
		return usageError("--duration and --interval want more than that")
	}
	if err := checkDemoDir(d.dir); err != nil {
		return err
	}
	show := newDemoText(c, d)
	if d.output == "json" {
		show = nil
	}
	show.title()
	rec, err := d.record(ctx, c)
	if err != nil {
		return err
	}
	show.recorded(rec)
	r, err := d.inspect(ctx, c, rec, show)
	if err != nil {
		return err
	}
	if d.output == "json" {
		if err := c.printJSON(r); err != nil {
			return err
		}
	}
	if r.Check.bad() || r.Compacted.Check.bad() || !r.Recovery.Clean {
		return errProblem
	}
	return nil
}

// checkDemoDir accepts what can be recorded into: nothing, or a database.
func checkDemoDir(dir string) error {
	if checkEmpty(dir) == nil {
		return nil
	}
	if err := checkDatabase(dir); err != nil {
		return errors.WithMessage(err, "demo needs an empty directory, or one with a database")
	}
	return nil
}

// demoResult is all that the demo finds out.
type demoResult struct {
	Dir        string          `json:"dir"`
	Recorded   recording       `json:"recorded"`
	Recovery   recoveryJSON    `json:"recovery"`
	Check      demoCheck       `json:"check"`
	Selections []demoSelection `json:"selections"`
	Metrics    []demoMetric    `json:"metrics"`
	Commits    *demoCommits    `json:"commits"`
	Compacted  demoBlocks      `json:"compacted"`
	Disk       demoDisk        `json:"disk"`
	Next       []string        `json:"next"`
}

// demoDisk is what the samples take.
type demoDisk struct {
	Samples        uint64  `json:"samples"`
	Series         int     `json:"series"`
	Bytes          int64   `json:"bytes"`
	BytesPerSample float64 `json:"bytes_per_sample"`
	Entries        []usage `json:"entries"`
}

// inspect opens what the killed recorder left and looks at it from all sides.
func (d *demoCommand) inspect(ctx context.Context, c *console, rec *recording, show *demoText) (r *demoResult, err error) {
	r = &demoResult{Dir: d.dir, Recorded: *rec, Next: nextCommands(d.dir)}
	db, err := c.openExisting(d.dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Range: demoRange, Manual: true}})
	if err != nil {
		return nil, err
	}
	defer closeDB(db, &err)
	report := db.OpenReport()
	r.Recovery = newRecoveryJSON(&report)
	if err := show.recovered(&report); err != nil {
		return nil, err
	}
	querier, err := db.Querier(rec.acks[0].T, rec.maxT())
	if err != nil {
		return nil, err
	}
	defer func() { _ = querier.Close() }()
	if r.Check, err = checkScrapes(ctx, querier, rec.acks); err != nil {
		return nil, err
	}
	show.checked(r.Check)
	if r.Selections, err = runSelections(ctx, querier); err != nil {
		return nil, err
	}
	show.selected(r.Selections)
	metrics, err := readMetrics(ctx, querier)
	if err != nil {
		return nil, err
	}
	r.Metrics = metrics
	if err := show.metrics(r.Metrics); err != nil {
		return nil, err
	}
	if r.Commits, err = readCommits(ctx, querier); err != nil {
		return nil, err
	}
	show.commits(r.Commits)
	if r.Compacted, err = makeBlocks(ctx, db, rec); err != nil {
		return nil, err
	}
	if err := show.blocks(&r.Compacted); err != nil {
		return nil, err
	}
	if r.Disk, err = measureDisk(ctx, db); err != nil {
		return nil, err
	}
	show.end(r)
	return r, nil
}

// measureDisk counts when everything is in blocks.
func measureDisk(ctx context.Context, db *tsdb.DB) (m demoDisk, err error) {
	m.Samples = blockSamples(db)
	found, err := db.Cardinality(ctx, tsdb.CardinalityOptions{})
	if err != nil {
		return m, err
	}
	m.Series = int(found.Series)
	if m.Bytes, m.Entries, err = diskUsage(db.Dir()); err != nil {
		return m, err
	}
	m.BytesPerSample = float64(m.Bytes) / float64(max(m.Samples, 1))
	return m, nil
}

// nextCommands are worth a try on the directory of the demo.
func nextCommands(dir string) []string {
	self, dir := self(), shellQuote(dir)
	return []string{
		self + " query " + dir + ` 'host_cpu_seconds_total{cpu="0"}'`,
		self + " query " + dir + ` host_network_bytes_total --start=-5m -o csv`,
		self + " query " + dir + ` go_gc_heap_live_bytes -o plot`,
		self + " query " + dir + ` demo_commit_seconds`,
		self + " dump " + dir + ` --match='{__name__=~"host_load.*"}'`,
		self + " list " + dir + ` -r`,
		self + " analyze " + dir,
		self + " verify " + dir,
		self + " demo " + dir,
	}
}

// self is how the user called this program.
func self() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(filepath.ToSlash(exe), "/go-build") {
		return "go run ./cmd/tsdbutil"
	}
	return shellQuote(os.Args[0])
}
