package prom

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/seed347100a3/tsdb"
)

// Gate is the handler of a server that listens before its database is open. Until Open is called it
// answers /-/healthy, and everything else with 503 and how far recovery is, the API in its own
// form. The zero value is ready for that. It is safe for concurrent use.
//
//	var gate prom.Gate
//	go http.Serve(listener, &gate)
//	db, err := tsdb.Open(dir, &tsdb.Options{Progress: gate.Progress})
//	...
//	gate.Open(prom.NewHandler(db, nil))
type Gate struct {
	progress atomic.Pointer[tsdb.RecoveryProgress]
	open     atomic.Pointer[http.Handler]
}

// Progress is told how far recovery is: it is for tsdb.Options.
func (g *Gate) Progress(p tsdb.RecoveryProgress) { g.progress.Store(&p) }

// Open lets requests through to a handler, from its return on all of them. Called again, it lets
// them through to another one.
func (g *Gate) Open(h http.Handler) { g.open.Store(&h) }

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := g.open.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "/-/healthy":
		saying("The server is healthy.\n")(w, r)
	case "/api/v1/status/walreplay":
		g.replay(w)
	default:
		w.Header().Set("Retry-After", "1")
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			answer(w, http.StatusServiceUnavailable, map[string]any{"status": "error", "errorType": "unavailable", "error": g.state()})
			return
		}
		http.Error(w, g.state(), http.StatusServiceUnavailable)
	}
}

// state says how far recovery is.
func (g *Gate) state() string {
	p := g.progress.Load()
	if p == nil || p.Total == 0 {
		return "The server is not ready: the database is being opened."
	}
	return fmt.Sprintf("The server is not ready: %d%% of the log is read, %d of %d bytes.", 100*p.Done/p.Total, p.Done, p.Total)
}

// replay answers in the form of the API. Its numbers are segments there and bytes here: what
// clients make of them is a share.
func (g *Gate) replay(w http.ResponseWriter) {
	var p tsdb.RecoveryProgress
	if known := g.progress.Load(); known != nil {
		p = *known
	}
	answer(w, http.StatusOK, map[string]any{"status": "success", "data": map[string]int64{"min": 0, "max": p.Total, "current": p.Done}})
}

func answer(w http.ResponseWriter, status int, data map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // it is numbers and text
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // who asked and went does not want to know
}
