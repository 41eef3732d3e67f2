package remote

import (
	"net/http"
	"sync"

	"github.com/seed347100a3/tsdb"
)

// Appendable is what a write handler stores into, as *tsdb.DB is. It is called by any number of
// goroutines, and is the same database as long as the handler is used: refs of series are kept.
type Appendable interface {
	Queryable // for late samples, which may be there already
	Appender() *tsdb.Appender
}

// NewWriteHandler returns a handler of remote-write requests, 1.0 and 2.0, for any path. Nil
// options are the defaults.
//
// A request is one commit. What cannot be stored of it (an invalid series, a sample that is later
// than the database takes) is left out, the rest is stored, and the answer is 400 with a line for
// each. 204: all of it is in the database, as durable as its commits are; what a repeated request
// has is there already, and counts as written. 503 and 500: it is to come again, whether some of it
// was stored or nothing. To 2.0 the answer says how much was written.
//
// It knows no users: whatever decides who may write is put in front of it. The timeouts need a
// ResponseWriter with deadlines, so a middleware that wraps it must have Unwrap.
func NewWriteHandler(db Appendable, opts *WriteOptions) *WriteHandler {
	h := &WriteHandler{db: db}
	h.intake.init(&writeProtocol, opts)
	h.known = newSeriesCache(h.opts.CacheBytes)
	h.requests.New = func() any { return &writeRequest{h: h} }
	return h
}

// WriteHandler is a handler of remote-write requests. It is safe for concurrent use.
type WriteHandler struct {
	intake
	db       Appendable
	requests sync.Pool // of *writeRequest
	known    *seriesCache
	families families
}

// ServeHTTP implements http.Handler.
func (h *WriteHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begin(w, r) {
		return
	}
	version, err := h.versionOf(r.Header)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	written, refused, err := h.take(w, r, version)
	if version == writeV2 {
		written.tell(w.Header())
	}
	switch {
	case err != nil:
		h.refuse(w, r, err)
	case refused != "":
		h.say(w, refused, http.StatusBadRequest)
	default:
		h.counters.answered(http.StatusNoContent)
		w.WriteHeader(http.StatusNoContent)
	}
}

// take receives a request and stores it. It returns what was written, and what is to be told of the
// rest. Nothing of it is held when take returns: a client may be slow to accept the answer.
func (h *WriteHandler) take(w http.ResponseWriter, r *http.Request, version writeVersion) (written writtenCounts, refused string, err error) {
	b := h.borrowBody()
	defer h.returnBody(b)
	if err := h.receive(w, r, b); err != nil {
		return written, "", err
	}
	n, err := checkBlock(b.bytes, h.opts.MaxBytes)
	if err != nil {
		return written, "", err
	}
	turn, err := h.enter(r.Context(), n > lightContent)
	if err != nil {
		return written, "", err
	}
	defer turn.leave()
	q := h.requests.Get().(*writeRequest)
	defer q.giveBack()
	if q.content, err = decompress(q.content, b.bytes, n, &b.memory); err != nil {
		return written, "", err
	}
	h.endBody(b)
	if err = q.store(r.Context(), version, &b.memory); err == nil {
		h.counters.settled(q.written[:], &q.refused)
	}
	return q.written, q.refused.message(), err
}

// Stats returns what the handler has stored and refused.
func (h *WriteHandler) Stats() ReceiverStats { return h.counters.stats(h.protocol) }

// refuse answers a request that was not stored.
func (h *WriteHandler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, text := h.failure(r, err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	h.say(w, text, status)
}
