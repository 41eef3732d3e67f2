package prom

import (
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom/internal/httpapi"
	"github.com/seed347100a3/tsdb/prom/internal/page"
	"github.com/seed347100a3/tsdb/remote"
)

// HandlerOptions configure NewHandler. The zero value of each field means its default.
type HandlerOptions struct {
	// Engine is about how queries are answered.
	Engine EngineOptions
	// Read is about remote reads.
	Read remote.ReadOptions
	// Receive lets clients send samples, by remote write 1.0 and 2.0, and Write is about those.
	// Default: they may not.
	Receive bool
	Write   remote.WriteOptions
	// ReceiveOTLP lets clients send metrics in the OpenTelemetry protocol, to
	// /api/v1/otlp/v1/metrics, and OTLP is about those. Default: they may not.
	ReceiveOTLP bool
	OTLP        remote.OTLPOptions

	// MaxQueryBytes is how long an expression may be. Default 128 KiB.
	MaxQueryBytes int
	// MaxFormBytes is how long the body of a request may be, but for remote reads and writes. Default 10 MiB.
	MaxFormBytes int64
	// Admin lets clients delete series and make snapshots. Default: they may not.
	Admin bool
	// Origins is of pages of other hosts that may read answers in a browser: a regular expression
	// of whole origins. Default: none may.
	Origins *regexp.Regexp

	// Targets returns what the program scrapes, for clients that ask. Default: nothing.
	Targets func() []Target

	// Flags and Config are what clients are told of how the program was started: names with
	// values, and YAML. Default: what is known of the database.
	Flags  map[string]string
	Config string
	// Version of the program. Clients are told it as the revision; as the version they are told
	// APIVersion.
	Version string
	// Registry has the metrics of /metrics; those of the database, the engine, the API and of what is
	// received are added. It serves one handler: NewHandler panics if it has metrics of these names
	// already. Default: a new one.
	Registry *prometheus.Registry
	// Logger gets what goes wrong. Default: nothing is logged.
	Logger *slog.Logger
	// Clock tells the time. Default: the system's.
	Clock interface{ Now() time.Time }
}

// Target is what a program tells of another one that it scrapes.
type Target = httpapi.Target

// APIVersion is the version of Prometheus whose HTTP API is served. Clients choose their calls by
// it: Thanos asks for labels that match only from 2.24 on.
const APIVersion = "3.15.0"

// NewHandler returns a server of the Prometheus HTTP API v1 over a database, of /metrics, of the
// endpoints by which others see whether it runs (/-/healthy, /-/ready), and of a page at /. Nil
// options are the defaults. It knows no users: whatever decides who may ask is put in front of it.
func NewHandler(db *tsdb.DB, opts *HandlerOptions) http.Handler {
	o := opts.withDefaults()
	o.Registry.MustRegister(NewCollector(db))
	o.Engine.Registerer = o.Registry
	store := NewStorage(db)
	o.Engine = o.Engine.withDefaults()
	var write, otlp http.Handler
	if o.Receive {
		h := remote.NewWriteHandler(db, &o.Write)
		o.Registry.MustRegister(NewReceiverCollector(h))
		write = h
	}
	if o.ReceiveOTLP {
		h := remote.NewOTLPHandler(db, &o.OTLP)
		o.Registry.MustRegister(NewReceiverCollector(h))
		otlp = h
	}
	api := httpapi.New(httpapi.Config{
		DB: db, Storage: store, Engine: NewEngine(&o.Engine), Parser: o.Engine.parser(), Matchers: store.matchers.translate,
		Read: remote.ReadHandler(db, &o.Read), Write: write, OTLP: otlp,
		QueryTimeout: o.Engine.Timeout, Concurrency: o.Engine.Concurrency,
		SubqueryStep: o.Engine.SubqueryStep, MaxSubqueryPoints: o.Engine.subquerySteps(), MaxQueryBytes: o.MaxQueryBytes, MaxFormBytes: o.MaxFormBytes,
		Admin: o.Admin, Origins: o.Origins, Targets: o.Targets, Flags: o.flags(db), YAML: o.Config,
		Build: httpapi.BuildInfo{Version: APIVersion, Revision: o.Version, GoVersion: runtime.Version()}, Logger: o.Logger, Now: o.Clock.Now,
	})
	mux := http.NewServeMux()
	api.Register(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /-/healthy", saying("The server is healthy.\n"))
	mux.HandleFunc("GET /-/ready", ready(db))
	mux.Handle("GET /version", api.Version())
	files := page.Handler()
	mux.Handle("/{$}", files)
	mux.Handle("/assets/", files)
	return compressed(mux)
}

func (o *HandlerOptions) withDefaults() HandlerOptions {
	var c HandlerOptions
	if o != nil {
		c = *o
	}
	setDefault(&c.MaxQueryBytes, 128<<10)
	setDefault(&c.MaxFormBytes, 10<<20)
	setDefault(&c.Config, "{}\n")
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Read.Logger == nil {
		c.Read.Logger = c.Logger
	}
	for _, write := range []*remote.WriteOptions{&c.Write, &c.OTLP.Write} {
		if write.Logger == nil {
			write.Logger = c.Logger
		}
		if write.Clock == nil {
			write.Clock = clockOf{tsdb.DefaultOptions().Clock, c.Clock.Now}
		}
	}
	return c
}

// clockOf shows the time of another clock.
type clockOf struct {
	tsdb.Clock
	now func() time.Time
}

func (c clockOf) Now() time.Time { return c.now() }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// flags returns what clients are told of how the program was started.
func (o *HandlerOptions) flags(db *tsdb.DB) map[string]string {
	flags := map[string]string{
		"storage.tsdb.path":     db.Dir(),
		"web.enable-admin-api":  strconv.FormatBool(o.Admin),
		"query.lookback-delta":  o.Engine.Lookback.String(),
		"query.max-concurrency": strconv.Itoa(o.Engine.Concurrency),
		"query.max-samples":     strconv.Itoa(o.Engine.MaxSamples),
		"query.timeout":         o.Engine.Timeout.String(),
		"web.enable-lifecycle":  "false",

		"web.enable-remote-write-receiver": strconv.FormatBool(o.Receive),
		"web.enable-otlp-receiver":         strconv.FormatBool(o.ReceiveOTLP),
	}
	for name, value := range o.Flags {
		flags[name] = value
	}
	return flags
}

// ready says that the database is open, until it is closed.
func ready(db *tsdb.DB) http.HandlerFunc {
	yes := saying("The server is ready.\n")
	return func(w http.ResponseWriter, r *http.Request) {
		if errors.Is(db.Health(), tsdb.ErrClosed) {
			http.Error(w, "The server is not ready: the database is closed.", http.StatusServiceUnavailable)
			return
		}
		yes(w, r)
	}
}

func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text)) // who asked and went does not want to know
	}
}

// compressed compresses answers for clients that can take it. Remote reads bring their own, and remote writes have none.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(gzhttp.DefaultMinSize), gzhttp.ContentTypes([]string{"application/json", "text/html", "text/css", "text/javascript", "image/svg+xml"}))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap(h)
}
