package remote

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// NewOTLPHandler returns a handler of metrics in the OpenTelemetry protocol over HTTP, in protobuf
// or JSON, compressed with gzip or not, for any path; clients use /v1/metrics. Nil options are the
// defaults.
//
// A request is one commit. Points that cannot be stored are left out, the rest is stored, and the
// answer is 200 with the number of points that were refused, in whole or in part, and a line for
// each of the first ones (partial_success). If nothing of any was stored it is 400, with the lines.
// Errors are a google.rpc.Status, but for those of requests that are no POST, or that a page of
// another host has a browser send. 503: the request may come again, and clients do that.
//
// It knows no users, as NewWriteHandler.
func NewOTLPHandler(db Appendable, opts *OTLPOptions) *OTLPHandler {
	h := &OTLPHandler{db: db, options: opts.withDefaults()}
	h.intake.init(&otlpProtocol, &h.options.Write)
	h.deltas = deltaSums{most: h.options.MaxDeltaSeries, clock: h.opts.Clock, turn: make(chan struct{}, 1), of: map[string]deltaSum{}}
	h.requests.New = func() any { return &otlpRequest{h: h} }
	return h
}

// OTLPHandler is a handler of metrics in the OpenTelemetry protocol. It is safe for concurrent use.
type OTLPHandler struct {
	intake
	db       Appendable
	options  OTLPOptions
	requests sync.Pool // of *otlpRequest
	deltas   deltaSums
}

const (
	otlpProtobuf = "application/x-protobuf"
	otlpJSON     = "application/json"
)

// ServeHTTP implements http.Handler.
func (h *OTLPHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begin(w, r) {
		return
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != otlpProtobuf && media != otlpJSON {
		h.answerError(w, otlpProtobuf, http.StatusUnsupportedMediaType, "unsupported content type: use "+otlpProtobuf+" or "+otlpJSON)
		return
	}
	zipped := false
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		zipped = true
	default:
		h.answerError(w, media, http.StatusUnsupportedMediaType, "unsupported content encoding: only gzip is")
		return
	}
	refused, stored, text, err := h.take(w, r, media, zipped)
	switch {
	case err != nil:
		status, text := h.failure(r, err)
		h.answerError(w, media, status, text)
	case refused > 0 && !stored:
		h.answerError(w, media, http.StatusBadRequest, text)
	default:
		h.answer(w, media, refused, text)
	}
}

// take receives a request and stores it. It returns how many points were refused, whether something
// of points was stored, and what is to be told. Nothing of it is held when take returns.
func (h *OTLPHandler) take(w http.ResponseWriter, r *http.Request, media string, zipped bool) (refused int, stored bool, text string, err error) {
	b := h.borrowBody()
	defer h.returnBody(b)
	if err := h.receive(w, r, b); err != nil {
		return 0, false, "", err
	}
	turn, err := h.enter(r.Context(), len(b.bytes) > lightContent)
	if err != nil {
		return 0, false, "", err
	}
	defer turn.leave()
	q := h.requests.Get().(*otlpRequest)
	defer h.keep(q, &b.memory)
	content := b.bytes
	if zipped {
		content, err = q.sent.inflater.inflate(r.Context(), b, &turn)
	}
	if err == nil && media == otlpJSON {
		content, err = q.sent.json.convert(content, h.opts.MaxBytes, &b.memory)
		h.endBody(b)
		q.sent.inflater.content.reset(&b.memory, keptBytes)
	}
	if err != nil {
		return 0, false, "", err
	}
	err = q.store(r.Context(), content, &b.memory)
	refused = q.refusedPoints()
	if err == nil {
		written := [countedKinds]int{itemPoint: len(q.points) - refused, itemExemplar: q.stored.exemplars}
		h.counters.settled(written[:], &q.refused)
	}
	return refused, q.stored.samples > 0, q.refused.message(), err
}

// keep keeps a request for another one, unless it needed much.
func (h *OTLPHandler) keep(q *otlpRequest, memory *memoryShare) {
	q.sent.inflater.content.reset(memory, keptBytes)
	q.sent.json.content.reset(memory, keptBytes)
	q.load = load{}
	b, hist := &q.point.buckets, &q.point.hist
	kept := cap(q.sent.inflater.content.bytes) + cap(q.sent.json.content.bytes) + cap(q.points) + 4*cap(q.staged) + otlpLateOverhead*cap(q.stored.late.list) +
		8*(cap(b.counts)+cap(b.bounds)+cap(hist.positive.counts)+cap(hist.negative.counts))
	if kept <= keptBytes {
		h.requests.Put(q)
	}
}

// Stats returns what the handler has stored and refused.
func (h *OTLPHandler) Stats() ReceiverStats { return h.counters.stats(h.protocol) }

// answer says that a request was stored, but for some points.
//
//	1 partial_success: 1 rejected_data_points int64   2 error_message string
func (h *OTLPHandler) answer(w http.ResponseWriter, media string, refused int, text string) {
	var body []byte
	switch {
	case media == otlpJSON && text == "":
		body = []byte("{}")
	case media == otlpJSON:
		body, _ = json.Marshal(map[string]any{"partialSuccess": map[string]string{"rejectedDataPoints": strconv.Itoa(refused), "errorMessage": text}})
	case text != "":
		partial := appendInt(nil, 1, int64(refused))
		partial = protowire.AppendString(append(partial, bytesTag(2)), text)
		body = protowire.AppendBytes([]byte{bytesTag(1)}, partial)
	}
	h.write(w, media, http.StatusOK, body)
}

// statusCodes are those of google.rpc.Code.
var statusCodes = map[int]uint64{
	http.StatusInternalServerError: 13, http.StatusServiceUnavailable: 14, http.StatusRequestEntityTooLarge: 8,
}

const invalidArgument = 3

// answerError answers with a google.rpc.Status:
//
//	1 code int32   2 message string
func (h *OTLPHandler) answerError(w http.ResponseWriter, media string, status int, text string) {
	code, ok := statusCodes[status]
	if !ok {
		code = invalidArgument
	}
	body := protowire.AppendString(append(protowire.AppendVarint([]byte{varintTag(1)}, code), bytesTag(2)), text)
	if media == otlpJSON {
		body, _ = json.Marshal(map[string]any{"code": code, "message": text})
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	h.write(w, media, status, body)
}

func (h *OTLPHandler) write(w http.ResponseWriter, media string, status int, body []byte) {
	h.counters.answered(status)
	if h.opts.WriteTimeout > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(deadline(h.opts.WriteTimeout))
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who does not take it is not told
}
