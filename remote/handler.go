package remote

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Queryable gives snapshots of a closed range of times, as *tsdb.DB and *tsdb.Reader do.
// It is called by any number of goroutines.
type Queryable interface {
	Querier(mint, maxt int64) (*tsdb.Querier, error)
}

// ReadHandler returns a handler of remote-read requests, for any path. Nil options are the
// defaults. The snapshot of a request is let go when it is answered, when its client goes, when its
// client stops reading for WriteTimeout, and when AnswerTimeout is over. That needs a
// ResponseWriter with deadlines, so a middleware that wraps it must have Unwrap.
//
// When the database fails after the status is out, the handler panics with
// http.ErrAbortHandler, which is the way to make the server cut the connection: a client
// must not take half an answer for a whole one.
func ReadHandler(db Queryable, opts *ReadOptions) http.Handler {
	h := &readHandler{db: db, opts: opts.withDefaults()}
	for l := range h.opts.ExternalLabels.All() {
		h.external = append(h.external, l)
	}
	if h.opts.MaxInFlight > 0 {
		h.slots = make(chan struct{}, h.opts.MaxInFlight)
	}
	return h
}

type readHandler struct {
	db       Queryable
	opts     ReadOptions
	external external
	slots    chan struct{} // one for each request in flight; nil: any number
}

// retryAfter is the seconds after which a client that met the limit may come again.
const retryAfter = "1"

// ServeHTTP implements http.Handler.
func (h *readHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if h.opts.ReadTimeout > 0 {
		// Also for a body that nobody wants: the server reads some of it all the same.
		_ = control.SetReadDeadline(deadline(h.opts.ReadTimeout))
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		h.say(w, "remote read is a POST", http.StatusMethodNotAllowed)
		return
	}
	if h.slots != nil {
		select {
		case h.slots <- struct{}{}:
			defer func() { <-h.slots }()
		default:
			w.Header().Set("Retry-After", retryAfter)
			h.say(w, "too many requests are being answered", http.StatusTooManyRequests)
			return
		}
	}
	req, err := h.receive(w, r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	if h.opts.ReadTimeout > 0 {
		// Left in place it would end the request, as if the client were gone.
		_ = control.SetReadDeadline(time.Time{})
	}
	if h.opts.AnswerTimeout > 0 {
		ctx, cancel := context.WithTimeoutCause(r.Context(), h.opts.AnswerTimeout, errLate)
		defer cancel()
		r = r.WithContext(ctx)
	}
	out := newPacedWriter(w, h.opts.WriteTimeout)
	out.until, _ = r.Context().Deadline()
	if err := h.answer(r, out, req); err != nil {
		h.fail(out, r, err)
	}
}

// receive reads and decodes the body.
func (h *readHandler) receive(w http.ResponseWriter, r *http.Request) (*readRequest, error) {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		switch strings.ToLower(encoding) {
		case snappyEncoding, "identity", "":
		default:
			return nil, errEncoding
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.opts.RequestBytes)))
	if err != nil {
		return nil, bodyError(err)
	}
	content, err := decodeBlock(body, h.opts.RequestBytes)
	if err != nil {
		return nil, err
	}
	req, err := decodeReadRequest(content)
	return &req, err
}

// bodyError says what is wrong with a body that could not be read. What it is made of is
// the client's: its end before it is complete, a transfer encoding that is none.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &tooLarge):
		return errors.WithMessagef(errLimit, "body of more than %d bytes", tooLarge.Limit)
	case errors.As(err, &slow) && slow.Timeout():
		return errSlow
	default:
		return errors.WithMessage(errMalformed, "body is cut off")
	}
}

// openQuery is a query with its snapshot.
type openQuery struct {
	*tsdb.Querier
	matchers  []*labels.Matcher
	namesakes *namesakes // nil: none
	warnings  tsdb.Warnings
}

// oneByOne: an answer has written a series before it comes to the next one.
var oneByOne = &tsdb.SelectHints{Transient: true}

func (q *openQuery) selectSeries(ctx context.Context) *tsdb.SeriesSet {
	return q.Select(ctx, oneByOne, q.matchers...)
}

func (q *openQuery) selectChunks(ctx context.Context) *tsdb.ChunkSeriesSet {
	return q.SelectChunks(ctx, oneByOne, q.matchers...)
}

// warningTrailer follows an answer that is all there is but not all there was. The
// protocol has no place for it; who does not know it loses nothing.
const warningTrailer = "Tsdb-Warning"

// warn announces what is missing from the answer to these queries.
func warn(out *pacedWriter, queries []*openQuery) {
	for _, q := range queries {
		for _, w := range q.warnings {
			if errors.Is(w, tsdb.ErrMissing) {
				// The sentinel's text, as the warning's names a directory.
				out.w.Header().Set(http.TrailerPrefix+warningTrailer, tsdb.ErrMissing.Error())
			}
		}
	}
}

// answer opens the snapshots of all queries and writes what they have. They are closed on
// return.
func (h *readHandler) answer(r *http.Request, out *pacedWriter, req *readRequest) (err error) {
	typ, err := negotiate(req.accepted)
	if err != nil {
		return err
	}
	queries := make([]*openQuery, 0, len(req.queries))
	defer func() {
		for _, q := range queries {
			if err := q.Close(); err != nil {
				h.report(r, err) // the client has what it asked for
			}
		}
	}()
	for i := range req.queries {
		q := &req.queries[i]
		open := &openQuery{}
		if open.matchers, err = compileMatchers(r.Context(), h.external.strip(q.matchers)); err != nil {
			return errors.WithMessagef(err, "query %d", i)
		}
		if open.Querier, err = h.db.Querier(q.bounds()); err != nil {
			return err
		}
		queries = append(queries, open)
		if open.namesakes, err = findNamesakes(r.Context(), open, h.external); err != nil {
			return err
		}
	}
	if typ == typeChunks {
		a := chunkAnswer{out: out, external: h.external, frame: frameEncoder{limit: h.opts.FrameBytes}}
		if h.opts.NoStartTimestamps {
			a.plain = &transcoder{}
		}
		return a.write(r.Context(), queries)
	}
	a := sampleAnswer{out: out, external: h.external, limit: h.opts.SampleLimit, longest: maxBlock}
	return a.write(r.Context(), queries)
}

// fail ends an answer that could not be finished.
func (h *readHandler) fail(out *pacedWriter, r *http.Request, err error) {
	if !out.out {
		h.refuse(out.w, r, err)
		return
	}
	if out.err == nil && r.Context().Err() == nil {
		h.report(r, err)
	}
	out.spoil()
	panic(http.ErrAbortHandler)
}

// report tells the program what the client is not told.
func (h *readHandler) report(r *http.Request, err error) {
	h.opts.Logger.Error("remote read failed", "client", r.RemoteAddr, "error", logged(err))
}

// loggedError is an error as package tsdb logs it: on one line, and without the call stack,
// which a handler for text would write.
type loggedError struct{ err error }

func logged(err error) error { return loggedError{err} }

func (e loggedError) Error() string { return strings.ReplaceAll(e.err.Error(), "\n", "; ") }
func (e loggedError) Unwrap() error { return e.err }

// refuse answers with a status and a text, which says nothing of files.
func (h *readHandler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusBadRequest, err.Error()
	switch {
	case isAny(err, errMalformed, errLimit, errSampleLimit, errNoType, errTooLarge, labels.ErrSyntax, labels.ErrLimit):
	case errors.Is(err, errEncoding):
		status = http.StatusUnsupportedMediaType
	case errors.Is(err, errSlow):
		status = http.StatusRequestTimeout
	case errors.Is(err, tsdb.ErrClosed):
		status, text = http.StatusServiceUnavailable, "the database is closed"
	case errors.Is(context.Cause(r.Context()), errLate):
		status, text = http.StatusServiceUnavailable, errLate.Error()
	case r.Context().Err() != nil:
		status, text = http.StatusServiceUnavailable, "the request was cancelled"
	default:
		h.report(r, err)
		status, text = http.StatusInternalServerError, "internal error"
		if errors.Is(err, tsdb.ErrCorrupt) {
			text = "stored data is damaged"
		}
	}
	h.say(w, text, status)
}

// say answers with a status and a text. A client may send one bad request after the other
// and read nothing; and a timeout of the whole server may be over when it is known what is
// wrong.
func (h *readHandler) say(w http.ResponseWriter, text string, status int) {
	if h.opts.WriteTimeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(deadline(h.opts.WriteTimeout))
	}
	http.Error(w, text, status)
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
