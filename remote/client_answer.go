package remote

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// answerBody is the body of an answer that is given up when nothing arrives for too long.
type answerBody struct {
	res    *http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer // runs only while something is expected
}

// errIdle is why a request is cancelled that a server does not answer.
type errIdle struct{ after time.Duration }

func (e *errIdle) Error() string { return "the server sent nothing for " + e.after.String() }

// Unwrap makes it context.DeadlineExceeded, which is a net.Error that says Timeout.
func (e *errIdle) Unwrap() error { return context.DeadlineExceeded }

func newAnswerBody(ctx context.Context, cancel context.CancelCauseFunc, idle time.Duration) *answerBody {
	b := &answerBody{ctx: ctx, cancel: cancel, idle: idle}
	b.timer = time.AfterFunc(idle, func() { cancel(&errIdle{idle}) })
	return b
}

// expect and got stand around what waits for the server.
func (b *answerBody) expect() { b.timer.Reset(b.idle) }
func (b *answerBody) got()    { b.timer.Stop() }

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	b.expect()
	n, err := b.res.Body.Read(p)
	b.got()
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, b.cause(err)
}

// cause is why the request was cancelled, if it was, and err if it was not.
func (b *answerBody) cause(err error) error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	return err
}

// close gives up what was not read.
func (b *answerBody) close() {
	b.timer.Stop()
	if b.res != nil {
		_ = b.res.Body.Close() // nobody waits for what it would say
	}
	b.cancel(nil)
}

// endKnown is whether the end of the body can be told from a connection that broke. Only
// bodies of HTTP/1 without a length and without chunks end with their connection.
func (b *answerBody) endKnown() bool {
	return b.res.ContentLength >= 0 || b.res.ProtoMajor != 1 || len(b.res.TransferEncoding) > 0
}

// StatusError is an answer that is an error.
type StatusError struct {
	Code int    // of HTTP
	Text string // what the server says, its first line
	// RetryAfter is how long to wait before asking again, 0 if the server says nothing.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	text := "the server answers " + strconv.Itoa(e.Code) + " " + http.StatusText(e.Code)
	if e.Text != "" && e.Text != http.StatusText(e.Code) {
		text += ": " + e.Text
	}
	return text
}

// maxErrorText is what is read of an error's text, in bytes.
const maxErrorText = 1 << 10

// statusError reads what a server says of an error, which may take as long as one pause of
// an answer.
func statusError(b *answerBody) error {
	b.expect()
	text, _ := io.ReadAll(io.LimitReader(b.res.Body, maxErrorText)) // what there is of it
	b.got()
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(line, "?"))
	return &StatusError{Code: b.res.StatusCode, Text: line, RetryAfter: retryAfterOf(b.res.Header)}
}

// retryAfterOf reads the header that has seconds or a date; 0 if it has neither.
func retryAfterOf(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if s, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// maxSeriesLabelBytes is what the labels of one series may have. Empty ones cost a sender
// two bytes, and a reader thirty-two.
const maxSeriesLabelBytes = 1 << 20

func checkLabelBytes(n int64) error {
	if n > maxSeriesLabelBytes {
		return errors.WithMessagef(errLimit, "labels of a series have more than %d bytes", maxSeriesLabelBytes)
	}
	return nil
}

// answerSource is what the series of an answer are read from.
type answerSource interface {
	// nextSeries moves to the next series, past what is left of the present one, and
	// returns its labels in a slice that is used again. The end of the answer is io.EOF.
	nextSeries() ([]labels.Label, error)
	// samples replaces b's content by floats that follow. If the next sample is none it moves to
	// that and returns its kind. ValNone is the end of the series. tsdb.ErrUnsupported is for the
	// rest of the series, any other error for the rest of the answer.
	samples(b *chunkenc.Batch) (chunkenc.ValueType, error)
	// other returns the sample that samples has moved to, until the next call of a method.
	other() otherSample
}

// newSource picks the decoder by what the answer says it is.
func newSource(b *answerBody, opts *ReadClientOptions) (answerSource, error) {
	media, parameters, err := mime.ParseMediaType(b.res.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	encoding := b.res.Header.Get("Content-Encoding")
	switch {
	case media == "application/x-streamed-protobuf" && (encoding == "" || encoding == "identity"):
		if proto := parameters["proto"]; proto != "" && proto != "prometheus.ChunkedReadResponse" {
			break
		}
		return newChunkSource(b, opts.MaxFrameBytes), nil
	case media == samplesContentType && (encoding == snappyEncoding || encoding == ""):
		return newSampleSource(b, opts.MaxBufferBytes)
	}
	return nil, errors.WithMessagef(tsdb.ErrUnsupported, "an answer of the type %q, encoded as %q", b.res.Header.Get("Content-Type"), encoding)
}

// answerError is the error of an answer under the name that callers know.
type answerError struct{ sentinel, why error }

func (e *answerError) Error() string   { return e.why.Error() }
func (e *answerError) Unwrap() []error { return []error{e.sentinel, e.why} }

// named gives what was found wrong with an answer the name that callers know.
func named(err error) error {
	switch {
	case errors.Is(err, errMalformed):
		return &answerError{ErrAnswer, errors.WithMessage(err, "bad answer")}
	case errors.Is(err, errLimit):
		return &answerError{tsdb.ErrLimit, err}
	default:
		return err
	}
}
