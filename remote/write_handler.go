package remote

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

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
func NewWriteHandler(db Appendable, opts *WriteOptions) http.Handler {
	h := &writeHandler{db: db, opts: opts.withDefaults()}
	h.known = newSeriesCache(h.opts.CacheBytes)
	if h.opts.MaxInFlight > 0 {
		h.slots = make(chan struct{}, h.opts.MaxInFlight)
	}
	h.bodies.New = func() any { return &writeBody{} }
	h.requests.New = func() any { return &writeRequest{h: h} }
	return h
}

type writeHandler struct {
	db       Appendable
	opts     WriteOptions
	slots    chan struct{} // one for each request that is stored; nil: any number
	buffered atomic.Int64  // memory for bodies, in bytes
	bodies   sync.Pool     // of *writeBody
	requests sync.Pool     // of *writeRequest
	known    *seriesCache
	families families
}

// fromPages knows requests that a page of another host has a browser make: without a content type
// they are sent unasked, to where only this browser may write.
var fromPages = http.NewCrossOriginProtection()

// ServeHTTP implements http.Handler.
func (h *writeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if h.opts.ReadTimeout > 0 {
		// Also for a body that nobody wants: the server reads some of it all the same.
		_ = control.SetReadDeadline(deadline(h.opts.ReadTimeout))
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.say(w, "remote write is a POST", http.StatusMethodNotAllowed)
		return
	}
	if err := fromPages.Check(r); err != nil {
		h.say(w, err.Error(), http.StatusForbidden)
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
		w.WriteHeader(http.StatusNoContent)
	}
}

// take receives a request and stores it. It returns what was written, and what is to be told of the
// rest. Nothing of it is held when take returns: a client may be slow to accept the answer.
func (h *writeHandler) take(w http.ResponseWriter, r *http.Request, version writeVersion) (written writtenCounts, refused string, err error) {
	b := h.borrowBody()
	defer h.returnBody(b)
	if err := h.receive(w, r, b); err != nil {
		return written, "", err
	}
	if h.opts.ReadTimeout > 0 {
		// Left in place it would end the request, as if the client were gone.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	if err := h.enter(r.Context()); err != nil {
		return written, "", err
	}
	defer h.leave()
	q := h.requests.Get().(*writeRequest)
	defer h.requests.Put(q)
	if q.content, err = decompress(q.content, b.bytes, h.opts.MaxBytes); err != nil {
		return written, "", err
	}
	err = q.store(r.Context(), version)
	return q.written, q.refused.message(), err
}

// enter waits until a request may be stored.
func (h *writeHandler) enter(ctx context.Context) error {
	if h.slots == nil {
		return nil
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	if h.opts.ReadTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.opts.ReadTimeout, errBusy)
		defer cancel()
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *writeHandler) leave() {
	if h.slots != nil {
		<-h.slots
	}
}

// refuse answers a request that was not stored. Clients drop what they are answered 4xx for, so
// that is for what is no better when it comes again.
func (h *writeHandler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusBadRequest, err.Error()
	switch {
	case errors.Is(err, errBodyLimit):
		status = http.StatusRequestEntityTooLarge
	case isAny(err, errMalformed, errBothVersions, errLimit):
	case isAny(err, errMediaType, errVersionOff, errWriteEncoding):
		status = http.StatusUnsupportedMediaType
	case isAny(err, errBusy, errSlow, errGone):
		status = http.StatusServiceUnavailable
	case errors.Is(err, tsdb.ErrClosed):
		status, text = http.StatusServiceUnavailable, "the database is closed"
	case errors.Is(err, tsdb.ErrDiskFull):
		h.report(r, err)
		status, text = http.StatusServiceUnavailable, "the disk is full"
	case r.Context().Err() != nil:
		status, text = http.StatusServiceUnavailable, "the request was cancelled"
	default:
		h.report(r, err)
		status, text = http.StatusInternalServerError, "internal error"
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	h.say(w, text, status)
}

// report tells the program what the client is not told.
func (h *writeHandler) report(r *http.Request, err error) {
	h.opts.Logger.Error("remote write failed", "client", r.RemoteAddr, "error", logged(err))
}

// say answers with a status and a text.
func (h *writeHandler) say(w http.ResponseWriter, text string, status int) {
	if h.opts.WriteTimeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(deadline(h.opts.WriteTimeout))
	}
	http.Error(w, text, status)
}
