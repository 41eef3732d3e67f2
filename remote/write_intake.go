package remote

import (
	"net/http"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// intake takes requests that write, and holds them to their limits.
type intake struct {
	protocol *receiverProtocol
	counters receiverCounters
	opts     WriteOptions
	slots    slots         // of requests that are stored
	memory   requestMemory // of all that requests take
	buffered requestMemory // of bodies: a part of it
	bodies   sync.Pool     // of *writeBody
}

func (in *intake) init(protocol *receiverProtocol, opts *WriteOptions) {
	in.protocol, in.opts = protocol, opts.withDefaults()
	in.slots = newSlots(in.opts.MaxInFlight)
	in.memory.most, in.buffered.most = in.opts.MaxMemoryBytes, in.opts.MaxBufferedBytes
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

// failure says how a request is answered that was not stored. Clients drop what they are answered
// 4xx for, so that is for what is no better when it comes again.
func (in *intake) failure(r *http.Request, err error) (status int, text string) {
	status, text = http.StatusBadRequest, err.Error()
	switch {
	case isAny(err, errBodyLimit, errMemory):
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
