package remote

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// intake takes requests that write, and holds them to their limits.
type intake struct {
	protocol *receiverProtocol
	counters receiverCounters
	opts     WriteOptions
	slots    chan struct{} // one for each request that is stored; nil: any number
	buffered atomic.Int64  // memory for bodies, in bytes
	bodies   sync.Pool     // of *writeBody
}

func (in *intake) init(protocol *receiverProtocol, opts *WriteOptions) {
	in.protocol, in.opts = protocol, opts.withDefaults()
	if in.opts.MaxInFlight > 0 {
		in.slots = make(chan struct{}, in.opts.MaxInFlight)
	}
	in.bodies.New = func() any { return &writeBody{} }
}

// fromPages knows requests that a page of another host has a browser make: without a content type
// they are sent unasked, to where only this browser may write.
var fromPages = http.NewCrossOriginProtection()

// begin reports whether a request may write; else it is answered.
func (in *intake) begin(w http.ResponseWriter, r *http.Request) bool {
	if in.opts.ReadTimeout > 0 {
		// Also for a body that nobody wants: the server reads some of it all the same.
		_ = http.NewResponseController(w).SetReadDeadline(deadline(in.opts.ReadTimeout))
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		in.say(w, "writes are sent by POST", http.StatusMethodNotAllowed)
		return false
	}
	if err := fromPages.Check(r); err != nil {
		in.say(w, err.Error(), http.StatusForbidden)
		return false
	}
	return true
}

// enter waits until a request may be stored.
func (in *intake) enter(ctx context.Context) error {
	if in.slots == nil {
		return nil
	}
	select {
	case in.slots <- struct{}{}:
		return nil
	default:
	}
	if in.opts.ReadTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, in.opts.ReadTimeout, errBusy)
		defer cancel()
	}
	select {
	case in.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (in *intake) leave() {
	if in.slots != nil {
		<-in.slots
	}
}

// failure says how a request is answered that was not stored. Clients drop what they are answered
// 4xx for, so that is for what is no better when it comes again.
func (in *intake) failure(r *http.Request, err error) (status int, text string) {
	status, text = http.StatusBadRequest, err.Error()
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
		in.report(r, err)
		status, text = http.StatusServiceUnavailable, "the disk is full"
	case r.Context().Err() != nil:
		status, text = http.StatusServiceUnavailable, "the request was cancelled"
	default:
		in.report(r, err)
		status, text = http.StatusInternalServerError, "internal error"
	}
	return status, cutText(text, maxReasonText)
}

// report tells the program what the client is not told.
func (in *intake) report(r *http.Request, err error) {
	in.opts.Logger.Error("remote write failed", "protocol", in.protocol.shown, "client", r.RemoteAddr, "error", logged(err))
}

// say answers with a status and a text.
func (in *intake) say(w http.ResponseWriter, text string, status int) {
	in.counters.answered(status)
	if in.opts.WriteTimeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(deadline(in.opts.WriteTimeout))
	}
	http.Error(w, text, status)
}
