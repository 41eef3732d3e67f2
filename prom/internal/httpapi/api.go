// Package httpapi is the Prometheus HTTP API v1 over a database. It knows parameters, answers and
// their JSON; what a query means is the engine's business, and what is stored the database's.
package httpapi

import (
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
)

// Storage is what queries read.
type Storage interface {
	storage.Queryable
	storage.ExemplarQueryable
}

// Config is what an API works on, and its limits. All fields are set but those that say otherwise.
type Config struct {
	DB      *tsdb.DB
	Storage Storage
	Engine  *promql.Engine
	Parser  parser.Parser
	// Matchers returns matchers as the database has them.
	Matchers func([]*labels.Matcher) ([]*tsdblabels.Matcher, error)
	Read     http.Handler // answers remote reads
	Write    http.Handler // answers remote writes; nil: 404
	OTLP     http.Handler // answers writes by OTLP; nil: 404

	QueryTimeout      time.Duration
	Concurrency       int           // queries that the engine answers at a time
	SubqueryStep      time.Duration // of subqueries that name none
	MaxSubqueryPoints int           // of one subquery, for one series
	MaxQueryBytes     int           // of one expression
	MaxFormBytes      int64
	Admin             bool           // deletes and snapshots may be asked for
	Origins           *regexp.Regexp // of pages of other hosts that may read answers; nil: none

	Targets func() []Target // what is scraped; nil: nothing is

	Flags  map[string]string // of status/flags
	YAML   string            // of status/config
	Build  BuildInfo
	Logger *slog.Logger
	Now    func() time.Time
}

// BuildInfo says which program answers.
type BuildInfo struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	Branch    string `json:"branch"`
	BuildUser string `json:"buildUser"`
	BuildDate string `json:"buildDate"`
	GoVersion string `json:"goVersion"`
}

// API answers requests. It is safe for concurrent use.
type API struct {
	Config
	started time.Time
	lanes   lanes
}

// New returns an API.
func New(c Config) *API { return &API{Config: c, started: c.Now(), lanes: newLanes(c.Concurrency)} }

// endpoint makes the answer to one request.
type endpoint func(r *http.Request) answer

// Register adds all endpoints to a mux.
func (a *API) Register(mux *http.ServeMux) {
	for path, e := range map[string]endpoint{
		"query":           a.query,
		"query_range":     a.queryRange,
		"query_exemplars": a.queryExemplars,
		"series":          a.series,
		"labels":          a.labelNames,
		"format_query":    a.formatQuery,
		"parse_query":     a.parseQuery,
	} {
		mux.Handle("/api/v1/"+path, a.serve(e, http.MethodGet, http.MethodPost))
	}
	for path, e := range map[string]endpoint{
		"label/{name}/values": a.labelValues,
		"metadata":            a.metadata,
		"targets":             a.targets,
		"targets/metadata":    a.targetsMetadata,
		"scrape_pools":        a.scrapePools,
		"rules":               a.rules,
		"alerts":              a.alerts,
		"alertmanagers":       a.alertmanagers,
		"notifications":       a.notifications,
		"status/buildinfo":    a.buildInfo,
		"status/runtimeinfo":  a.runtimeInfo,
		"status/config":       a.configYAML,
		"status/flags":        a.flags,
		"status/tsdb":         a.headStatus,
		"status/tsdb/blocks":  a.blocks,
		"status/tsdb/churn":   a.churn,
		"status/health":       a.health,
		"status/walreplay":    a.replay,
	} {
		mux.Handle("/api/v1/"+path, a.serve(e, http.MethodGet))
	}
	for path, e := range map[string]endpoint{
		"admin/tsdb/delete_series":    a.deleteSeries,
		"admin/tsdb/clean_tombstones": a.cleanTombstones,
		"admin/tsdb/snapshot":         a.snapshot,
	} {
		mux.Handle("/api/v1/"+path, a.serve(a.asAdmin(e), http.MethodPost, http.MethodPut))
	}
	mux.Handle("/api/v1/read", a.methods(a.Read, http.MethodPost))
	mux.Handle("/api/v1/write", a.methods(ifThere(a.Write, "remote write"), http.MethodPost))
	mux.Handle("/api/v1/otlp/v1/metrics", a.methods(ifThere(a.OTLP, "OTLP"), http.MethodPost))
}

// ifThere returns a handler, or one that says that there is none.
func ifThere(h http.Handler, what string) http.Handler {
	if h != nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, what+" is not served: the program that runs this server has not turned it on", http.StatusNotFound)
	})
}

// serve makes a handler of an endpoint. What panics there ends the request, not the program.
func (a *API) serve(e endpoint, methods ...string) http.Handler {
	return a.methods(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				a.Logger.Error("a request panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				a.respond(w, r, failed(http.StatusInternalServerError, "internal", errPanic))
			}
		}()
		if err := a.parseForm(w, r); err != nil {
			a.respond(w, r, answer{err: err})
			return
		}
		a.respond(w, r, e(r))
	}), methods...)
}
