package main

import (
	"context"
	stderrors "errors"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// serveCommand answers remote read with what a directory holds.
type serveCommand struct {
	dir         string
	listen      listenFlags
	external    map[string]string
	refresh     time.Duration
	sampleLimit int
	inFlight    int
	noStarts    bool
	timeout     time.Duration
}

const serveHelp = `Serve a database to Prometheus, Thanos, "tsdbutil read" and others, by remote read.

The endpoint is /api/v1/read; /-/healthy and /-/ready answer 200 when the process is up, and when the database is open. Its URL is written to standard output when it is ready. The database is only read, and may be in use. SIGINT and SIGTERM end the command when what is being answered is answered, within 10 s, with code 0.

Only this machine can connect. Any other --listen address needs --tls-cert, --tls-key and --htpasswd, or --insecure.`

func (p *program) addServe() {
	s := &serveCommand{external: map[string]string{}}
	cmd := p.app.Command("serve", serveHelp)
	cmd.Arg("dir", "Data directory; data/ if none is named.").Default("data/").StringVar(&s.dir)
	s.listen.flags(cmd)
	s.flags(cmd)
	p.add(cmd, s.run)
}

func (s *serveCommand) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("external-label", "Label to add to every series that has none of that name; can be repeated.").PlaceHolder("NAME=VALUE").StringMapVar(&s.external)
	cmd.Flag("refresh", "How often to look for new data in the directory; 0 is never. It is read anew only when a file has changed.").Default("30s").DurationVar(&s.refresh)
	cmd.Flag("sample-limit", "The most samples of a query that is not streamed; 0 is no limit.").Default("50000000").IntVar(&s.sampleLimit)
	cmd.Flag("answer-timeout", "How long an answer may take; 0 is as long as it takes.").Default("0").DurationVar(&s.timeout)
	cmd.Flag("no-start-timestamps", "Send chunks without start timestamps, for Thanos and other clients that do not know their encodings.").BoolVar(&s.noStarts)
	cmd.Flag("max-in-flight", "How many requests are answered at a time; others get 429.").Default("20").IntVar(&s.inFlight)
}

func (s *serveCommand) run(ctx context.Context, c *console) error {
	external, err := s.check()
	if err != nil {
		return err
	}
	if err := checkDatabase(s.dir); err != nil {
		return err
	}
	listener, guard, err := s.listen.open()
	if err != nil {
		return err
	}
	db := &servedDatabase{dir: s.dir}
	read := remote.ReadHandler(db, s.options(external, c))
	server := newServer(c, handler(db, guard.wrap(read)))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready, err := opening(ctx, ended, func() error { return db.open(c) })
	if ready {
		c.printf("%s%s\n", s.listen.url(listener.Addr()), readPath)
		err = s.wait(ctx, c, db, ended)
	}
	return stderrors.Join(err, stop(server), db.close())
}

// opening waits until the database is open, which may take long.
func opening(ctx context.Context, ended <-chan error, open func() error) (ready bool, err error) {
	opened := make(chan error, 1)
	go func() { opened <- open() }()
	select {
	case err := <-opened:
		return err == nil, err
	case err := <-ended:
		return false, errors.Wrap(err, "serve")
	case <-ctx.Done():
		return false, nil // what is being opened ends with the process
	}
}

// options are the flags for the handler.
func (s *serveCommand) options(external labels.Labels, c *console) *remote.ReadOptions {
	return &remote.ReadOptions{
		ExternalLabels: external, SampleLimit: s.limit(), MaxInFlight: s.inFlight,
		AnswerTimeout: s.timeout, NoStartTimestamps: s.noStarts,
		Logger: slog.New(slog.NewTextHandler(c.err, nil)),
	}
}

// limit is the flag as the handler wants it.
func (s *serveCommand) limit() int {
	if s.sampleLimit == 0 {
		return -1
	}
	return s.sampleLimit
}

func (s *serveCommand) check() (external labels.Labels, err error) {
	switch {
	case s.refresh < 0:
		return external, usageError("--refresh: want a duration, or 0")
	case s.sampleLimit < 0:
		return external, usageError("--sample-limit: want 0 or more")
	case s.timeout < 0:
		return external, usageError("--answer-timeout: want a duration, or 0")
	case s.inFlight < 1:
		return external, usageError("--max-in-flight: want 1 or more")
	}
	return labelFlag("--external-label", s.external)
}

// wait serves until a signal comes, and looks for new data meanwhile.
func (s *serveCommand) wait(ctx context.Context, c *console, db *servedDatabase, ended <-chan error) error {
	var tick <-chan time.Time
	if s.refresh > 0 {
		ticker := time.NewTicker(s.refresh)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil // that is how it is meant to end
		case err := <-ended:
			return errors.Wrap(err, "serve")
		case <-tick:
			if err := db.refresh(ctx); err != nil && ctx.Err() == nil {
				c.message("warning: %v; going on with what was read before", err)
			}
		}
	}
}

// Bounds of what clients may take. The read handler has its own for bodies and answers.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = time.Minute
	textTimeout   = time.Minute // to take a status; the read handler has its own for answers
	idleTimeout   = time.Minute
	maxHeader     = 16 << 10
	maxConns      = 512
	stopPatience  = 10 * time.Second
)

func newServer(c *console, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      textTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(c.err, "tsdbutil: ", 0),
	}
}

// stop lets a server finish what it is doing, for a while.
func stop(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return nil
	}
	return errors.Wrap(server.Close(), "stop server")
}

// handler has the paths.
func handler(db *servedDatabase, read http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { answer(w, "healthy\n") })
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !db.ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		answer(w, "ready\n")
	})
	mux.HandleFunc(readPath, func(w http.ResponseWriter, r *http.Request) {
		if !db.ready() {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the database is being opened", http.StatusServiceUnavailable)
			return
		}
		read.ServeHTTP(w, r)
	})
	return mux
}

func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // nobody is left to tell
}

// labelFlag makes a set of the labels of a flag.
func labelFlag(name string, pairs map[string]string) (labels.Labels, error) {
	set := labels.FromMap(pairs)
	if len(pairs) > 0 && set.Len() < len(pairs) {
		return set, usageError(name + ": a label without a value")
	}
	if len(pairs) > 0 {
		if err := set.Validate(); err != nil {
			return set, usageError(name + ": " + err.Error())
		}
	}
	return set, nil
}
