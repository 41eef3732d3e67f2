package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/prom/internal/bucketfile"
	"github.com/seed347100a3/tsdb/prom/internal/scrape"
	"github.com/seed347100a3/tsdb/remote"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// config is the flags. Names are those of a Prometheus server where they mean the same.
type config struct {
	dir       string
	fileName  string
	file      *fileConfig
	features  []string
	scrapes   atomic.Pointer[scrape.Runner] // once they began
	demo      bool
	interval  time.Duration
	listen    []string
	webConfig string
	tls       bool // of the configuration file
	insecure  bool
	admin     bool
	receive   bool
	otlp      bool
	origin    string

	receiveMemory   units.Base2Bytes // of each receiver
	receiveInFlight int              // of each receiver

	bucketFileName  string
	bucketFile      *bucketfile.File // nil: blocks stay here
	uploadCompacted bool

	retention     model.Duration
	blockRange    model.Duration
	maxBlockRange model.Duration
	retentionSize units.Base2Bytes
	compression   string
	sync          string

	engine     prom.EngineOptions
	lookback   model.Duration
	timeout    model.Duration
	sampleMax  int
	readers    int
	frameBytes int

	logLevel, logFormat string
	given               map[string]string // flags with their values, for clients that ask
}

// leastReceiveMemory is the least memory that a receiver may have. What never fits is answered 413,
// and senders drop it. In this much fit two thousand series with 1,000 bytes of labels each, and
// that is as many samples as Prometheus sends at a time.
const leastReceiveMemory = 16 * units.MiB

const help = `Serve a database to Grafana, promtool, browsers and whatever else speaks the Prometheus HTTP API.

The directory is opened for writing, as by a program that embeds the library; one process at a time can have it. With --demo this machine's metrics are recorded into it.

Only this machine can connect. Any other --web.listen-address needs a --web.config.file with users or client certificates, or --insecure. SIGINT and SIGTERM end the server when what is being answered is answered, within 10 s.`

// errAnswered: the help or the version was asked for, and is shown.
var errAnswered = errors.New("nothing is to be done")

// parse reads arguments. Errors: errAnswered, and what is wrong with them.
func parse(args []string, out, errOut io.Writer) (*config, error) {
	c := &config{}
	app := kingpin.New("tsdbserve", help).UsageWriter(out).ErrorWriter(errOut)
	app.HelpFlag.Short('h')
	app.Version(fmt.Sprintf("tsdbserve %s, %s", version(), runtime.Version()))
	answered := false
	app.Terminate(func(int) { answered = true })
	app.Flag("storage.tsdb.path", "Data directory; it is made if there is none.").Default("data/").StringVar(&c.dir)
	app.Flag("config.file", "A prometheus.yml: global, scrape_configs with static targets, remote_write, storage and otlp are read. What is served here in another way is told at the start; what would be missed is an error.").PlaceHolder("FILE").StringVar(&c.fileName)
	app.Flag("storage.tsdb.retention.time", "How long samples are kept; 0s is for ever.").Default("0s").SetValue(&c.retention)
	app.Flag("storage.tsdb.retention.size", "How large the directory may become, as 512MB or 10GB; 0B is as large as the disk.").Default("0B").BytesVar(&c.retentionSize)
	app.Flag("storage.tsdb.min-block-duration", "How much time a block of the head has.").Default("2h").SetValue(&c.blockRange)
	app.Flag("storage.tsdb.max-block-duration", "How much time a merged block has at most; as much as min-block-duration: none are merged, as a Thanos sidecar wants it that uploads them.").Default("31d").SetValue(&c.maxBlockRange)
	app.Flag("storage.tsdb.wal-compression-type", "How the log is compressed: none, snappy, zstd.").Default("snappy").EnumVar(&c.compression, "none", "snappy", "zstd")
	app.Flag("storage.sync", "When commits are on stable storage: commit (before each is acknowledged), a duration (as 1s), or never (left to the system).").Default("1s").StringVar(&c.sync)
	app.Flag("demo", "Record this machine's metrics into the directory.").BoolVar(&c.demo)
	app.Flag("demo.interval", "Between two scrapes of the demo.").Default("1s").DurationVar(&c.interval)
	app.Flag("web.listen-address", "Address and port; port 0 is any that is free. Can be repeated.").Default("127.0.0.1:9090").StringsVar(&c.listen)
	app.Flag("web.config.file", "TLS and users, in the form of the Prometheus exporter toolkit.").PlaceHolder("FILE").StringVar(&c.webConfig)
	app.Flag("insecure", "Listen where others can connect, without users.").BoolVar(&c.insecure)
	app.Flag("web.enable-admin-api", "Let clients delete series and make snapshots.").BoolVar(&c.admin)
	app.Flag("web.enable-remote-write-receiver", "Let clients send samples, to /api/v1/write.").BoolVar(&c.receive)
	app.Flag("web.enable-otlp-receiver", "Let clients send metrics in the OpenTelemetry protocol, to /api/v1/otlp/v1/metrics.").BoolVar(&c.otlp)
	app.Flag("web.receive-memory", "Memory of all requests under way to a receiver, of remote write or OTLP, as 256MB or 1GB; at least 16MB. Each of the two has a budget of its own, of this size. Above it requests get 503 and come again; one that needs more by itself gets 413.").Default("512MB").BytesVar(&c.receiveMemory)
	app.Flag("web.receive-in-flight", "How many requests a receiver, of remote write or OTLP, stores at a time; each of the two has as many. Others wait for their turn, up to 30 s, and get 503 then.").Default("20").IntVar(&c.receiveInFlight)
	app.Flag("web.cors.origin", "Which pages of other hosts may read answers: a regular expression of whole origins.").PlaceHolder("REGEX").StringVar(&c.origin)
	app.Flag("objstore.config-file", "Upload blocks to the bucket that this file describes, "+bucketfile.Help+". Needs global.external_labels in --config.file. Blocks are not merged or removed before they are uploaded.").PlaceHolder("FILE").StringVar(&c.bucketFileName)
	app.Flag("shipper.upload-compacted", "Upload also blocks that were merged before there was a bucket.").BoolVar(&c.uploadCompacted)
	app.Flag("query.lookback-delta", "How old the newest sample of a series may be.").Default("5m").SetValue(&c.lookback)
	app.Flag("query.timeout", "How long a query may take.").Default("2m").SetValue(&c.timeout)
	app.Flag("query.max-concurrency", "How many queries are answered at a time.").Default("20").IntVar(&c.engine.Concurrency)
	app.Flag("query.max-samples", "How many samples a query may hold in memory.").Default("50000000").IntVar(&c.engine.MaxSamples)
	app.Flag("query.experimental", "Functions and syntax of PromQL that may change.").BoolVar(&c.engine.Experimental)
	app.Flag("storage.remote.read-sample-limit", "The most samples of a remote read that is not streamed; 0 is no limit.").Default("50000000").IntVar(&c.sampleMax)
	app.Flag("storage.remote.read-concurrent-limit", "How many remote reads are answered at a time.").Default("10").IntVar(&c.readers)
	app.Flag("storage.remote.read-max-bytes-in-frame", "How long a frame of a streamed remote read is.").Default("1048576").IntVar(&c.frameBytes)
	app.Flag("enable-feature", featureHelp).PlaceHolder("NAME").StringsVar(&c.features)
	app.Flag("log.level", "What is logged: debug, info, warn, error.").Default("info").EnumVar(&c.logLevel, "debug", "info", "warn", "error")
	app.Flag("log.format", "How: text or json.").Default("text").EnumVar(&c.logFormat, "text", "json")
	if _, err := app.Parse(args); err != nil || answered {
		return nil, cmp.Or(err, errAnswered)
	}
	err := c.settleFeatures()
	if err != nil {
		return nil, err
	}
	if c.file, err = readFile(c.fileName); err != nil {
		return nil, err
	}
	c.given = map[string]string{}
	for _, f := range app.Model().Flags {
		if !f.Hidden && f.Name != "help" && f.Name != "version" {
			c.given[f.Name] = f.Value.String()
		}
	}
	return c, c.check()
}

func (c *config) check() error {
	switch {
	case c.interval < 10*time.Millisecond:
		return fmt.Errorf("--demo.interval %s: want 10ms or more", c.interval)
	case c.receiveMemory < leastReceiveMemory:
		return fmt.Errorf("--web.receive-memory %s: want 16MB or more", c.receiveMemory)
	case c.receiveInFlight < 1:
		return fmt.Errorf("--web.receive-in-flight %d: want 1 or more", c.receiveInFlight)
	case c.engine.Concurrency < 1:
		return fmt.Errorf("--query.max-concurrency %d: want 1 or more", c.engine.Concurrency)
	case c.engine.MaxSamples < 1:
		return fmt.Errorf("--query.max-samples %d: want 1 or more", c.engine.MaxSamples)
	case c.timeout <= 0:
		return fmt.Errorf("--query.timeout %s: want more than 0", c.timeout)
	case c.blockRange < model.Duration(time.Minute), c.maxBlockRange < c.blockRange:
		return fmt.Errorf("--storage.tsdb.min-block-duration %s and max-block-duration %s: want a minute or more, and no less", c.blockRange, c.maxBlockRange)
	case c.lookback <= 0:
		return fmt.Errorf("--query.lookback-delta %s: want more than 0", c.lookback)
	case c.sampleMax < 0, c.readers < 1, c.frameBytes < 1:
		return fmt.Errorf("limits of remote reads: want 1 or more; 0 for no limit of samples")
	}
	if _, err := c.syncPolicy(); err != nil {
		return err
	}
	return c.readBucketFile()
}

func (c *config) syncPolicy() (tsdb.SyncPolicy, error) {
	switch c.sync {
	case "commit":
		return tsdb.SyncCommit(), nil
	case "never":
		return tsdb.SyncNever(), nil
	}
	d, err := time.ParseDuration(c.sync)
	if err != nil || d <= 0 {
		return tsdb.SyncPolicy{}, fmt.Errorf("--storage.sync %q: want commit, never or a duration above 0", c.sync)
	}
	return tsdb.SyncInterval(d), nil
}

// longestBlock is how much time a merged block has at most. As it is by itself the database decides:
// that depends on retention, too.
func (c *config) longestBlock() time.Duration {
	if longest := time.Duration(c.maxBlockRange); longest != 31*24*time.Hour {
		return longest
	}
	return 0
}

// targets are those of the scrapes.
func (c *config) targets() []prom.Target {
	if r := c.scrapes.Load(); r != nil {
		return r.Targets()
	}
	return nil
}

// options returns those of the database.
func (c *config) options(logger *slog.Logger, progress func(tsdb.RecoveryProgress)) (*tsdb.Options, error) {
	policy, err := c.syncPolicy()
	if err != nil {
		return nil, err
	}
	compressions := map[string]tsdb.Compression{"none": tsdb.CompressionNone, "snappy": tsdb.CompressionSnappy, "zstd": tsdb.CompressionBy(zstd.Codec)}
	o := &tsdb.Options{
		WAL: tsdb.WALOptions{Sync: policy, Compression: compressions[c.compression]},
		Blocks: tsdb.BlockOptions{
			Range: time.Duration(c.blockRange), MaxRange: c.longestBlock(), Retention: time.Duration(c.retention), RetentionBytes: int64(c.retentionSize),
		},
		Logger: logger, Progress: progress,
	}
	c.file.apply(o)
	return o, nil
}

// handlerOptions returns those of the API.
func (c *config) handlerOptions(logger *slog.Logger) (*prom.HandlerOptions, error) {
	o := &prom.HandlerOptions{
		Engine: c.engine, Admin: c.admin, Targets: c.targets, Config: c.file.text, Flags: c.given, Version: version(), Logger: logger,
		Read:    c.readOptions(logger),
		Receive: c.receive, Write: c.writeOptions(),
		ReceiveOTLP: c.otlp, OTLP: c.otlpOptions(),
	}
	o.Engine.Lookback, o.Engine.Timeout = time.Duration(c.lookback), time.Duration(c.timeout)
	o.Engine.TypeAndUnitLabels = c.has(featureTypes)
	if c.origin != "" {
		re, err := regexp.Compile("^(?:" + c.origin + ")$")
		if err != nil {
			return nil, fmt.Errorf("--web.cors.origin: %w", err)
		}
		o.Origins = re
	}
	return o, nil
}

// readOptions are those of remote reads. No reader can say that it knows chunks with start
// timestamps, and Thanos, for which there are external labels, does not.
func (c *config) readOptions(logger *slog.Logger) remote.ReadOptions {
	external := labels.FromMap(c.file.Scrape.Global.External)
	o := remote.ReadOptions{
		SampleLimit: c.sampleMax, MaxInFlight: c.readers, FrameBytes: c.frameBytes, ExternalLabels: external,
		NoStartTimestamps: !external.IsEmpty() || !c.startsAreStored(), Logger: logger,
	}
	if c.sampleMax == 0 {
		o.SampleLimit = -1
	}
	return o
}

// writeOptions are those of the receiver of remote write.
func (c *config) writeOptions() remote.WriteOptions {
	o := c.receiveOptions()
	o.NoStartTimestamps = !c.startsAreStored()
	return o
}

// receiveOptions are what the receivers have in common. Each has limits of its own, of these sizes.
func (c *config) receiveOptions() remote.WriteOptions {
	return remote.WriteOptions{MaxMemoryBytes: int64(c.receiveMemory), MaxInFlight: c.receiveInFlight}
}

// otlpOptions are those of the receiver of OTLP.
func (c *config) otlpOptions() remote.OTLPOptions {
	o := c.file.otlpOptions()
	o.Write = c.receiveOptions()
	o.StartTimestamps, o.TypeAndUnitLabels = c.startsAreStored(), c.has(featureTypes)
	switch {
	case c.has(featureDeltaSummed):
		o.Delta = remote.OTLPDeltaSummed
	case c.has(featureDeltaStored):
		o.Delta = remote.OTLPDeltaStored
	}
	return o
}

// logger returns what the flags ask for.
func (c *config) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(c.logLevel))); err != nil {
		panic(err) // the flag has only these
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
