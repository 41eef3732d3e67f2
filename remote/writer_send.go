package remote

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	s.entries = b.entries(s.entries[:0])
	s.w.marks.OnTheWay(s.number, s.entries)
	s.splits = maxSplits
	if !s.sendPart(b, b.whole()) {
		return false
	}
	s.w.marks.Arrived(s.number)
	return true
}

// sendPart sends a part of a batch until it is taken or refused.
func (s *writerShard) sendPart(b *writerBatch, p batchPart) bool {
	w := s.w
	version := w.version()
	body := s.encoder.encode(b, p, version)
	backoff := w.opts.MinBackoff
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			w.stats.retries.Add(1)
		}
		a := w.post(body, version, attempt)
		if w.ctx.Err() != nil && !a.isFinal() {
			return false
		}
		if a.isFinal() {
			unknown := a.status == http.StatusUnsupportedMediaType || a.ok() && !a.told && b.hasSamples(p)
			if unknown && version == writeV2 && w.opts.Protocol == ProtocolAny {
				w.speakV1(a)
				return s.sendPart(b, p)
			}
			return s.settle(b, p, version, a)
		}
		w.report(a.err())
		pause := backoff
		if a.after > 0 {
			pause = a.after
		}
		if !w.wait(pause) {
			return false
		}
		backoff = min(2*backoff, w.opts.MaxBackoff)
	}
}

// speakV1 goes on with 1.0, which receivers know that do not know 2.0.
func (w *Writer) speakV1(a writerAnswer) {
	if w.speaks.Swap(int64(writeV1)) == int64(writeV2) {
		w.opts.Logger.Info("receiver does not know remote write 2.0, sending 1.0", "writer", w.opts.Name, "status", a.status)
	}
}

// settle counts what came of a part of a batch. Of one that was refused as a whole, halves are
// sent, so that the good samples get there.
func (s *writerShard) settle(b *writerBatch, p batchPart, version writeVersion, a writerAnswer) bool {
	w := s.w
	w.report(nil)
	counts := b.counts(p)
	all := counts[itemSample] + counts[itemHistogram]
	if a.ok() {
		took := counts
		if version == writeV2 { // who does not say what was written has written nothing
			took = a.written
		}
		w.taken(took)
		w.refused(all-took[itemSample]-took[itemHistogram], a)
		return true
	}
	if version == writeV2 && a.told && a.status == http.StatusBadRequest {
		w.taken(a.written)
		w.refused(all-a.written[itemSample]-a.written[itemHistogram], a)
		return true
	}
	if whole := a.status == http.StatusBadRequest && version == writeV1 && !b.doubtful; whole || a.status == http.StatusRequestEntityTooLarge {
		if first, second, ok := b.halves(p); ok && s.splits > 0 {
			s.splits -= 2
			return s.sendPart(b, first) && s.sendPart(b, second)
		}
	}
	w.refused(all, a)
	return true
}

func (w *Writer) taken(c writtenCounts) {
	for kind, n := range c {
		w.stats.sent[kind].Add(uint64(max(n, 0)))
	}
}

// refused counts samples that the receiver does not have, for good.
func (w *Writer) refused(n int, a writerAnswer) {
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
	r, cancel, err := w.request(body)
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
	answer, err := w.client.Do(r)
	if err != nil {
		var failed *url.Error // which names the URL with its password
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return writerAnswer{failure: err}
	}
	defer func() { _ = answer.Body.Close() }() // what is left of it does not matter
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerText))
	if err == nil {
		_, err = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection is used again
	}
	if answer.StatusCode/100 == 2 && err != nil && !errors.Is(err, io.EOF) {
		return writerAnswer{failure: errors.WithMessage(err, "answer was cut off")}
	}
	a = writerAnswer{status: answer.StatusCode, text: string(text), after: pauseOf(answer.Header.Get("Retry-After"), w.clock.Now())}
	for kind, name := range writtenHeaders {
		if n, err := strconv.Atoi(answer.Header.Get(name)); err == nil && n >= 0 {
			a.told, a.written[kind] = true, n
		}
	}
	return a
}

// pauseOf reads a Retry-After: seconds, or a time. 0: it says nothing.
func pauseOf(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// maxRetryAfter bounds what a receiver can ask for.
const maxRetryAfter = time.Hour

// request makes a request with all but what depends on the version.
func (w *Writer) request(body []byte) (*http.Request, func(), error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.opts.Timeout)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.opts.URL, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, nil, err
	}
	for name, values := range w.opts.Header {
		r.Header[name] = append([]string(nil), values...)
	}
	r.Header.Set("Content-Encoding", snappyEncoding)
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", userAgent)
	}
	return r, cancel, nil
}
