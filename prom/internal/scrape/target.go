package scrape

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb/prom"
)

// target is a program that is read.
type target struct {
	endpoint
	job    *Job
	client *http.Client
	starts bool // start timestamps are stored
	types  bool // types and units are, in labels
	to     storage.AppendableV2
	logger *slog.Logger

	round  uint64
	cache  map[string]*cached // by the text of a series
	buffer []byte
	now    func() time.Time
	kind   string // content type of the last answer
	failed bool   // the last time: a failure is logged once

	state struct { // what others are told
		sync.Mutex
		lastError string
		last      time.Time // zero: it was not read yet
		took      time.Duration
	}
}

// tell says how the target was when it was last read.
func (t *target) tell() prom.Target {
	state := &t.state
	state.Lock()
	defer state.Unlock()
	told := prom.Target{
		Discovered: t.discovered, Labels: t.labels.Map(), Pool: t.job.Name, URL: t.url, GlobalURL: t.url, LastError: state.lastError,
		LastScrape: state.last, Seconds: state.took.Seconds(), Health: "up", Interval: model.Duration(t.interval).String(), Timeout: model.Duration(t.timeout).String(),
	}
	switch {
	case state.last.IsZero():
		told.Health = "unknown"
	case state.lastError != "":
		told.Health = "down"
	}
	return told
}

// note notes how a scrape went.
func (t *target) note(at time.Time, took time.Duration, err error) {
	t.state.Lock()
	defer t.state.Unlock()
	t.state.last, t.state.took, t.state.lastError = at, took, ""
	if err != nil {
		t.state.lastError = err.Error()
	}
}

const (
	// maxAhead is how far ahead the time of a sample may be, as with Prometheus: a series with one of a
	// wrong clock takes no others until then.
	maxAhead   = 10 * time.Minute
	keptBuffer = 4 << 20 // bytes of an answer that is kept for the next one in any case

	acceptText       = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
	acceptHistograms = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.8," + acceptText
)

// scrape reads the target once, and appends what it says, or that it says nothing.
func (t *target) scrape(ctx context.Context, at time.Time) {
	t.round++
	begun := time.Now()
	body, err := t.fetch(ctx)
	if ctx.Err() != nil {
		return
	}
	r := report{at: at.UnixMilli(), begun: begun}
	if err == nil {
		err = t.append(ctx, &r, body)
	}
	if ctx.Err() != nil {
		return
	}
	t.note(at, time.Since(begun), err)
	if err != nil { // nothing of it is stored, but that it failed
		t.forget()
		r.failed = true
		t.round++
		if err := t.append(ctx, &r, nil); err != nil {
			t.logger.Warn("append what a scrape reports", "error", err.Error())
		}
		if !t.failed {
			t.logger.Warn("scrape failed", "error", err.Error())
		}
	}
	t.failed = r.failed
}

// forget drops what was believed of samples that are not stored, except for which series have to end.
func (t *target) forget() {
	for key, c := range t.cache {
		if c.meta, c.last = (metadata.Metadata{}), (exemplar.Exemplar{}); !c.stored && !c.dropped {
			delete(t.cache, key)
		}
	}
}

// fetch gets an answer.
func (t *target) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", acceptText)
	if *t.job.Histograms {
		req.Header.Set("Accept", acceptHistograms)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if *t.job.Compression {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	req.Header.Set("User-Agent", "tsdbserve")
	req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", strconv.FormatFloat(t.timeout.Seconds(), 'f', -1, 64))
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is used again
		_ = resp.Body.Close()
	}()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the target answers %s", resp.Status)
	}
	from := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if from, err = gzip.NewReader(resp.Body); err != nil {
			return nil, err
		}
	}
	t.kind = resp.Header.Get("Content-Type")
	if cap(t.buffer) > keptBuffer && cap(t.buffer) > 4*len(t.buffer) { // the last answer was far shorter than one before
		t.buffer = nil
	}
	limit := int64(t.job.BodySizeLimit)
	b, err := readAll(t.buffer[:0], io.LimitReader(from, limit+1))
	t.buffer = b
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("the answer is longer than body_size_limit, %s", t.job.BodySizeLimit)
	}
	return b, err
}

func readAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// report is what is stored of a scrape itself.
type report struct {
	at      int64
	begun   time.Time
	failed  bool
	samples int // of the answer
	kept    int // of them behind the rules of the job
	added   int // series that are new
	refused int // older than what is stored, or too far ahead
}

// append appends an answer, that series have ended which are not in it, and the report, in one
// commit. When the context ends while it is parsed nothing is stored.
func (t *target) append(ctx context.Context, r *report, body []byte) (err error) {
	app := t.to.AppenderV2(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, app.Rollback())
		}
	}()
	if !r.failed {
		if err := t.parse(ctx, app, r, body); err != nil {
			return err
		}
	}
	t.end(app, r.at)
	for _, own := range []struct {
		name string
		v    float64
	}{
		{"up", number(!r.failed)}, {"scrape_duration_seconds", time.Since(r.begun).Seconds()},
		{"scrape_samples_scraped", float64(r.samples)}, {"scrape_samples_post_metric_relabeling", float64(r.kept)}, {"scrape_series_added", float64(r.added)},
	} {
		b := labels.NewBuilder(t.labels)
		b.Set(model.MetricNameLabel, own.name)
		if _, err := app.Append(0, b.Labels(), 0, r.at, own.v, nil, nil, storage.AppendV2Options{}); err != nil && !isOld(err) {
			return err
		}
	}
	if err := app.Commit(); err != nil {
		return err
	}
	if r.refused > 0 {
		t.logger.Warn("samples of a scrape are out of order or out of bounds: they are left out", "samples", r.refused)
	}
	for key, c := range t.cache {
		switch {
		case c.round == t.round:
			c.stored, c.ended = !c.dropped, false
		case r.failed:
			c.ended = true // it is no new one when it comes again
		default:
			delete(t.cache, key)
		}
	}
	return nil
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// isOld reports whether a sample was refused for what is there already: the rest is stored.
func isOld(err error) bool {
	return errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp) ||
		errors.Is(err, storage.ErrOutOfBounds) || errors.Is(err, storage.ErrTooOldSample)
}

// looksAround is after how many entries it is looked whether the target is still to be read.
const looksAround = 1024

// parse appends the samples of an answer.
func (t *target) parse(ctx context.Context, app storage.AppenderV2, r *report, body []byte) error {
	p, err := textparse.New(body, t.kind, labels.NewSymbolTable(), textparse.ParserOptions{
		FallbackContentType: "text/plain", IgnoreNativeHistograms: !*t.job.Histograms, ConvertClassicHistogramsToNHCB: *t.job.CustomBuckets,
		KeepClassicOnClassicAndNativeHistograms: *t.job.BothHistograms, OpenMetricsSkipSTSeries: t.starts, EnableTypeAndUnitLabels: t.types,
	})
	if p == nil {
		return err
	}
	var about family
	for n := 1; ; n++ {
		entry, err := p.Next()
		if err == io.EOF {
			break
		}
		if err == nil && n%looksAround == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		s := sample{t: r.at}
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			about.named(name).Type = kind
			continue
		case textparse.EntryHelp:
			name, help := p.Help()
			about.named(name).Help = string(help)
			continue
		case textparse.EntryUnit:
			name, unit := p.Unit()
			about.named(name).Unit = string(unit)
			continue
		case textparse.EntrySeries:
			s.key, s.own, s.v = p.Series()
		case textparse.EntryHistogram:
			s.key, s.own, s.h, s.fh = p.Histogram()
		default:
			continue
		}
		r.samples++
		if t.isOver(r) { // they are counted, to tell by how much
			if c := t.cache[string(s.key)]; c == nil || !c.dropped {
				r.kept++
			}
			continue
		}
		if err := t.sample(app, p, &about, &s, r); err != nil {
			return err
		}
	}
	if t.isOver(r) {
		return fmt.Errorf("the answer has %d samples, sample_limit is %d", r.kept, t.job.SampleLimit)
	}
	return nil
}

// isOver reports whether an answer has more samples than it may have.
func (t *target) isOver(r *report) bool {
	return t.job.SampleLimit > 0 && r.kept > t.job.SampleLimit
}

// sample is one of an answer.
type sample struct {
	key []byte // the text of its series
	own *int64 // the time that it says
	t   int64
	v   float64
	h   *histogram.Histogram
	fh  *histogram.FloatHistogram
}

func (t *target) sample(app storage.AppenderV2, p textparse.Parser, about *family, s *sample, r *report) error {
	c, fresh, err := t.series(p, s.key)
	if err != nil {
		return err
	}
	if c.dropped {
		c.round = t.round
		return nil
	}
	if r.kept++; t.isOver(r) {
		return nil
	}
	if fresh {
		r.added++
	}
	timed := s.own != nil && *t.job.HonorTimestamps
	if c.round == t.round && !timed {
		return nil // twice in one answer: the first one counts
	}
	if c.round, c.timed = t.round, timed && !t.job.TrackTimestamps; timed {
		if s.t = *s.own; s.t > t.now().Add(maxAhead).UnixMilli() {
			r.refused++
			return nil
		}
	}
	var beside storage.AppendV2Options
	if about.has(c.labels.Get(model.MetricNameLabel)) && c.meta != about.meta {
		beside.Metadata = about.meta
	}
	start := int64(0)
	if t.starts {
		start = p.StartTimestamp()
	}
	last := c.last
	beside.Exemplars, last = exemplars(p, s.t, last)
	c.ref, err = app.Append(c.ref, c.labels, start, s.t, s.v, s.h, s.fh, beside)
	var refused *storage.AppendPartialError
	if errors.As(err, &refused) {
		for _, err := range refused.ExemplarErrors {
			t.logger.Debug("exemplar of a scrape left out", "series", c.labels.String(), "error", err.Error())
		}
		err = nil
	}
	if isOld(err) {
		r.refused++
		return nil
	}
	if err == nil {
		c.last = last
		if beside.Metadata != (metadata.Metadata{}) {
			c.meta = beside.Metadata
		}
	}
	return err
}

// exemplars returns those of the present sample, in the order of their times. One without a time of
// its own is told once: last is the newest such.
func exemplars(p textparse.Parser, at int64, last exemplar.Exemplar) (list []exemplar.Exemplar, _ exemplar.Exemplar) {
	for e := (exemplar.Exemplar{}); p.Exemplar(&e); e = (exemplar.Exemplar{}) {
		if !e.HasTs {
			if e.Equals(last) {
				continue
			}
			last = e
			e.Ts = at
		}
		list = append(list, e)
	}
	slices.SortStableFunc(list, func(a, b exemplar.Exemplar) int { return cmp.Compare(a.Ts, b.Ts) })
	return list, last
}

// end says of series that were in the last answer and are not in this one that they have ended.
func (t *target) end(app storage.AppenderV2, at int64) {
	for _, c := range t.cache {
		if c.round != t.round && !c.timed && c.stored && !c.ended {
			if _, err := app.Append(c.ref, c.labels, 0, at, math.Float64frombits(value.StaleNaN), nil, nil, storage.AppendV2Options{}); err != nil && !isOld(err) {
				t.logger.Debug("the end of a series could not be told", "series", c.labels.String(), "error", err.Error())
			}
		}
	}
}
