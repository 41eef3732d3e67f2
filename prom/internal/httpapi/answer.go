package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/seed347100a3/tsdb"
)

// answer is what an endpoint has to say: data, or an error.
type answer struct {
	data     any // what encoder.value can write; nil with a status
	err      *failure
	status   int // of an answer without data; 0: there is some
	query    string
	warnings annotations.Annotations // query gives their positions
	done     func()                  // is called when the data is written; may be nil
}

// failure is an error with its status and its type, as clients know them.
type failure struct {
	status int
	typ    string
	err    error
}

var errPanic = errors.New("internal error: the log of the server has the details")

// statusCanceled is of requests whose client went away; nobody reads it but logs.
const statusCanceled = 499

func failed(status int, typ string, err error) answer {
	return answer{err: &failure{status, typ, err}}
}

func badData(err error) answer { return failed(http.StatusBadRequest, "bad_data", err) }

// badParam is bad data of one parameter.
func badParam(name string, err error) answer {
	return badData(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// notDone is an error of the engine or the database.
func notDone(err error) answer {
	var canceled promql.ErrQueryCanceled
	var timeout promql.ErrQueryTimeout
	var stored promql.ErrStorage
	switch {
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return failed(statusCanceled, "canceled", err)
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return failed(http.StatusServiceUnavailable, "timeout", err)
	case errors.Is(err, tsdb.ErrClosed):
		return failed(http.StatusServiceUnavailable, "unavailable", err)
	case errors.As(err, &stored):
		return failed(http.StatusInternalServerError, "internal", err)
	default:
		return failed(http.StatusUnprocessableEntity, "execution", err)
	}
}

// annotated returns warnings of the database as those of an answer.
func annotated(ws tsdb.Warnings) annotations.Annotations {
	all := annotations.Annotations{}
	for _, w := range ws {
		all.Add(w)
	}
	return all
}

// maxNotes is how many warnings, and how many infos, an answer has at most.
const maxNotes = 10

// respond writes an answer. Data is written as it is made into text, piece by piece.
func (a *API) respond(w http.ResponseWriter, r *http.Request, ans answer) {
	if ans.done != nil {
		defer ans.done()
	}
	switch ans.status {
	case http.StatusNoContent:
		w.WriteHeader(ans.status)
		return
	case http.StatusNotFound:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := newEncoder(w)
	defer e.free()
	if ans.err != nil {
		w.WriteHeader(ans.err.status)
		e.raw(`{"status":"error","errorType":`)
		e.text(ans.err.typ)
		e.raw(`,"error":`)
		e.text(ans.err.err.Error())
		e.raw(`}`)
	} else {
		e.raw(`{"status":"success","data":`)
		e.value(ans.data)
		warnings, infos := ans.warnings.AsStrings(ans.query, maxNotes, maxNotes)
		e.notes("warnings", warnings)
		e.notes("infos", infos)
		e.raw(`}`)
	}
	if err := e.flush(); err != nil && r.Context().Err() == nil {
		a.Logger.Debug("an answer could not be written", "path", r.URL.Path, "error", err)
	}
}
