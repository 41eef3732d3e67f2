package remote

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/marks"
)

// writerShard sends batches one after the other.
type writerShard struct {
	w       *Writer
	number  int
	batches chan *writerBatch
	filling *writerBatch // by the reader
	// doubts are filled, too: what is in doubt, by its groups. They go before filling does.
	doubts  map[uint32]*writerBatch
	encoder writerEncoder
	entries []marks.Entry
	splits  int // requests that may still be made of the batch under way
}

// run sends batches until there are no more. Each is given back, sent or not.
func (s *writerShard) run(back func(*writerBatch, bool)) {
	for b := range s.batches {
		back(b, !s.w.isStopped() && s.send(b))
	}
}

// maxSplits is how many more requests are made of a batch that is refused as a whole for some of
// its samples.
const maxSplits = 64

// send sends a batch. false: the Writer was closed before its fate was known.
func (s *writerShard) send(b *writerBatch) bool {
	s.w.tryV2()
	s.splits = maxSplits
	return s.sendPart(b, b.whole())
}

// fate is what became of a request.
type fate uint8

const (
	fateKnown fate = iota // it was taken, or refused for good
	fateOpen              // the Writer was closed
	fateHalve             // it was refused as a whole, and its halves may be taken
	fateOlder             // the receiver does not know 2.0
)

// sendPart sends a part of a batch until it is taken or refused.
func (s *writerShard) sendPart(b *writerBatch, p batchPart) bool {
	s.entries = b.entries(p, s.entries[:0])
	s.w.marks.OnTheWay(s.number, s.entries)
	for {
		switch s.request(b, p) {
		case fateOpen:
			return false
		case fateOlder:
		case fateHalve: // nothing of it is there
			first, second, _ := b.halves(p) // it has two
			return s.sendPart(b, first) && s.sendPart(b, second)
		default:
			s.w.marks.Arrived(s.number)
			return true
		}
	}
}

// request sends a request until it is answered for good.
func (s *writerShard) request(b *writerBatch, p batchPart) fate {
	w := s.w
	version := w.version()
	body := s.encoder.encode(b, p, version)
	backoff := w.opts.MinBackoff
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			w.stats.retries.Add(1)
		}
		a := w.post(body, version, attempt)
		if !a.read { // who answers early may read on
			s.encoder.body = nil
		}
		if w.ctx.Err() != nil && !a.isFinal() {
			return fateOpen
		}
		if version == writeV2 && w.isOlder(&a, b, p) {
			w.speakV1(a)
			return fateOlder
		}
		if a.isFinal() {
			return s.settle(b, p, version, &a)
		}
		w.report(a.err())
		pause := backoff
		if a.after > 0 {
			pause = a.after
		}
		if !w.wait(pause) {
			return fateOpen
		}
		backoff = min(2*backoff, w.opts.MaxBackoff)
	}
}

// isOlder reports whether an answer to 2.0 is that of a receiver which does not know it. One that
// says nothing of what was written has read an empty message of 1.0.
func (w *Writer) isOlder(a *writerAnswer, b *writerBatch, p batchPart) bool {
	if a.told {
		w.knowsV2.Store(true)
	}
	if w.opts.Protocol != ProtocolAny || a.told {
		return false
	}
	switch a.status {
	case http.StatusUnsupportedMediaType:
		return true
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusNotImplemented:
		return !w.knowsV2.Load()
	default:
		return a.ok() && b.hasSamples(p)
	}
}

// speakV1 goes on with 1.0, which receivers know that do not know 2.0.
func (w *Writer) speakV1(a writerAnswer) {
	w.olderSince.Store(w.clock.Now().UnixMilli())
	if w.speaks.Swap(int64(writeV1)) == int64(writeV2) {
		w.opts.Logger.Info("receiver does not know remote write 2.0, sending 1.0", "writer", w.opts.Name, "status", a.status)
	}
}

// tryAgain is how long 1.0 is spoken before 2.0 is tried again: the receiver may be a newer one.
const tryAgain = time.Hour

// tryV2 tries 2.0 again now and then.
func (w *Writer) tryV2() {
	since := w.olderSince.Load()
	if since != 0 && w.clock.Now().UnixMilli()-since > tryAgain.Milliseconds() && w.olderSince.CompareAndSwap(since, 0) {
		w.knowsV2.Store(false)
		w.speaks.Store(int64(writeV2))
	}
}

// settle counts what came of a part of a batch.
func (s *writerShard) settle(b *writerBatch, p batchPart, version writeVersion, a *writerAnswer) fate {
	w := s.w
	w.report(nil)
	counts := b.counts(p)
	all := counts[itemSample] + counts[itemHistogram]
	took := writtenCounts{}
	switch {
	case version == writeV2 && (a.ok() || a.status == http.StatusBadRequest):
		took = a.written // none, if it does not say so
	case a.ok():
		took = counts
	case a.status == http.StatusRequestEntityTooLarge, a.status == http.StatusBadRequest && version == writeV1:
		if _, _, ok := b.halves(p); ok && s.splits > 0 {
			s.splits -= 2
			return fateHalve
		}
	}
	w.taken(took)
	for _, e := range s.entries {
		if a.ok() && e.T > w.stats.newestSent.Load() {
			w.stats.newestSent.Store(e.T) // of shards that do so at once any may win, for a moment
		}
	}
	left := all - took[itemSample] - took[itemHistogram]
	if b.doubt != 0 && a.status == http.StatusBadRequest {
		w.stats.dropped[droppedRepeated].Add(uint64(max(left, 0)))
		return fateKnown
	}
	w.refused(left, a)
	return fateKnown
}

func (w *Writer) taken(c writtenCounts) {
	for kind, n := range c {
		w.stats.sent[kind].Add(uint64(max(n, 0)))
	}
}

// refused counts samples that the receiver does not have, for good.
func (w *Writer) refused(n int, a *writerAnswer) {
	if n <= 0 {
		return
	}
	w.stats.dropped[droppedRefused].Add(uint64(n))
	err := a.err()
	text := err.Error()
	w.stats.refusal.Store(&text)
	w.opts.Logger.Warn("receiver refused samples", "writer", w.opts.Name, "samples", n, "status", a.status, "error", fileutil.Logged(err))
}

// writerAnswer is what a receiver said, or why it said nothing.
type writerAnswer struct {
	status  int // 0: there was no answer
	text    string
	failure error
	read    bool          // the body was read to its end
	after   time.Duration // what it asks for; 0: nothing
	told    bool          // what was written
	written writtenCounts
}

func (a *writerAnswer) ok() bool { return a.status/100 == 2 }

// isFinal reports whether the request must not be sent again: it was taken or refused.
func (a *writerAnswer) isFinal() bool {
	return a.ok() || a.status/100 == 4 && a.status != http.StatusTooManyRequests
}

// err says what was wrong.
func (a *writerAnswer) err() error {
	if a.failure != nil {
		return a.failure
	}
	text := strings.TrimSpace(a.text)
	if line, _, more := strings.Cut(text, "\n"); more {
		text = line + " ..."
	}
	if text == "" {
		text = http.StatusText(a.status)
	}
	return errors.Errorf("status %d: %s", a.status, text)
}

// Header names of remote write.
const (
	versionHeader = "X-Prometheus-Remote-Write-Version"
	attemptHeader = "Retry-Attempt"
	userAgent     = "tsdb-remote-write"
)

// maxAnswerText is how much of an answer is kept.
const maxAnswerText = 2 << 10

// post sends a body once.
func (w *Writer) post(body []byte, version writeVersion, attempt int) (a writerAnswer) {
	var unread atomic.Int32
	r, cancel, err := w.request(body, &unread)
	if err != nil {
		return writerAnswer{failure: err}
	}
	defer cancel()
	media, number := writeMediaType, "0.1.0"
	if version == writeV2 {
		media, number = writeMediaType+";proto="+writeNameV2, "2.0.0"
	}
	r.Header.Set("Content-Type", media)
	r.Header.Set(versionHeader, number)
	if attempt > 0 {
		r.Header.Set(attemptHeader, strconv.Itoa(attempt))
	}
	w.stats.requests.Add(1)
	w.stats.bytes.Add(uint64(len(body)))
	answer, err := w.conns.client.Do(r)
	if err != nil {
		var failed *url.Error // which names the URL with its password
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return writerAnswer{failure: err}
	}
	defer func() { _ = answer.Body.Close() }() // what is left of it does not matter
	a = writerAnswer{status: answer.StatusCode, after: pauseOf(answer.Header.Get("Retry-After"), w.clock.Now()), read: unread.Load() == 0}
	for kind, name := range writtenHeaders {
		if n, err := strconv.Atoi(answer.Header.Get(name)); err == nil && n >= 0 {
			a.told, a.written[kind] = true, n
		}
	}
	if !a.ok() || answer.ContentLength > 0 && answer.ContentLength <= maxAnswerText {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswerText)) // as much as comes of it
		a.text = string(text)
	}
	return a
}

// pauseOf reads a Retry-After: seconds, or a time. 0: it says nothing.
func pauseOf(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// maxRetryAfter bounds what a receiver can ask for.
const maxRetryAfter = time.Hour

// request makes a request with all but what depends on the version. unread counts bodies that were
// not read to their end: there is another one behind a redirect.
func (w *Writer) request(body []byte, unread *atomic.Int32) (*http.Request, func(), error) {
	content := func() *sentBody {
		unread.Add(1)
		return &sentBody{bytes.NewReader(body), sync.OnceFunc(func() { unread.Add(-1) })}
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.opts.Timeout)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.opts.URL, content())
	if err != nil {
		cancel()
		return nil, nil, err
	}
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(content()), nil }
	for name, values := range w.opts.Header {
		r.Header[name] = slices.Clone(values)
	}
	r.Header.Set("Content-Encoding", snappyEncoding)
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", userAgent)
	}
	return r, cancel, nil
}

// sentBody says when it was read to its end.
type sentBody struct {
	*bytes.Reader
	end func()
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.look()
	return n, err
}

// WriteTo implements io.WriterTo.
func (b *sentBody) WriteTo(w io.Writer) (int64, error) {
	n, err := b.Reader.WriteTo(w)
	b.look()
	return n, err
}

func (b *sentBody) look() {
	if b.Len() == 0 {
		b.end()
	}
}
