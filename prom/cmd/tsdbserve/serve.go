package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/prom/internal/scrape"
	"github.com/seed347100a3/tsdb/prom/internal/sender"
)

// stopTime is how long answers that are under way have when the server is to end.
const stopTime = 10 * time.Second

// version is what the program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// run is the program. It returns the exit code: 0, 1 for a failure, 2 for wrong arguments.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	c, err := parse(args, out, errOut)
	if errors.Is(err, errAnswered) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(errOut, "tsdbserve: %v; --help lists the flags\n", err)
		return 2
	}
	logger := c.logger(errOut)
	if err := c.serve(ctx, logger, out); err != nil {
		logger.Error("the server ends", "error", err.Error())
		return 1
	}
	return 0
}

// serve listens first, so that others see how far recovery is, and serves until the context ends.
func (c *config) serve(ctx context.Context, logger *slog.Logger, out io.Writer) (err error) {
	listeners, err := c.listeners()
	if err != nil {
		return err
	}
	c.warn(logger)
	gate := &prom.Gate{}
	server := &http.Server{Handler: withProfiles(gate), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	ended := make(chan error, 1)
	go func() {
		ended <- web.ServeMultiple(listeners, server, &web.FlagConfig{WebConfigFile: &c.webConfig}, logger)
	}()
	defer func() { err = errors.Join(err, stop(server, ended)) }()
	registry := prometheus.NewRegistry()
	up, err := c.uploads(logger, registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.close()) }()
	db, err := c.open(logger, gate, registry, up)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	defer up.begin(ctx)()
	senders, err := sender.Start(db, c.file.Receivers, c.file.Scrape.Global.External, logger, registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, senders.Close()) }()
	scrapes, err := scrape.New(&c.file.Scrape, prom.NewStorage(db), scrape.Options{Starts: c.startsAreStored(), Types: c.has(featureTypes), Logger: logger})
	if err != nil {
		return err
	}
	c.scrapes.Store(scrapes)
	if kept, dropped := scrapes.Len(); kept+dropped > 0 {
		logger.Info("scraping begins", "targets", kept, "dropped", dropped)
	}
	scraping, endScraping := context.WithCancel(ctx)
	scraped := make(chan struct{})
	go func() {
		defer close(scraped)
		scrapes.Run(scraping)
	}()
	defer func() {
		endScraping()
		<-scraped
	}()
	for _, l := range listeners {
		fmt.Fprintf(out, "%s\n", c.url(l.Addr()))
	}
	if c.demo {
		return c.record(ctx, db, logger, ended)
	}
	return wait(ctx, ended)
}

// withProfiles answers with profiles of the program, from its start on, and leaves the rest to a
// handler.
func withProfiles(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// open opens the database, and the gate.
func (c *config) open(logger *slog.Logger, gate *prom.Gate, registry *prometheus.Registry, up *uploads) (*tsdb.DB, error) {
	opts, err := c.options(logger, gate.Progress)
	if err != nil {
		return nil, err
	}
	handlerOpts, err := c.handlerOptions(logger)
	if err != nil {
		return nil, err
	}
	db, err := tsdb.Open(c.dir, up.prepare(opts))
	if errors.Is(err, tsdb.ErrUnsupported) {
		return nil, fmt.Errorf("%w; nothing was changed: serve it with the version that wrote it", err)
	}
	if err != nil {
		return nil, err
	}
	handlerOpts.Registry = registry
	handlerOpts.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gate.Open(prom.NewHandler(db, handlerOpts))
	return db, nil
}

func wait(ctx context.Context, ended chan error) error {
	select {
	case <-ctx.Done():
		return nil // that is how it is meant to end
	case err := <-ended:
		ended <- err // for stop
		return fmt.Errorf("serve: %w", err)
	}
}

// stop lets answers end that are under way.
func stop(server *http.Server, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := server.Shutdown(ctx)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
