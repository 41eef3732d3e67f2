package remote

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// otlpRequest is one request on its way into the database. It keeps its memory.
//
// An ExportMetricsServiceRequest has ResourceMetrics, these have ScopeMetrics, these metrics, and
// these points. A point becomes one sample, or those of several series.
type otlpRequest struct {
	h       *otlpHandler
	content []byte

	app    *tsdb.Appender
	maxT   int64 // newest time that is accepted
	weight weight

	resource otlpResource
	scope    attributes // labels of its series
	metric   otlpWritten
	point    otlpPoint

	points  []bool  // of the request: some of it was refused
	staged  []int32 // the point of each sample that the Appender took; -1: of target_info
	refused refusals
	deltas  deltaRound
}

// otlpWritten is the metric under way.
type otlpWritten struct {
	name        []byte // of its series, but for what is behind it
	sent        []byte
	about       tsdb.Metadata
	temporality uint64
}

// store stores a request, but for what cannot be. An error is about the whole of it: nothing is
// stored then, but behind tsdb.ErrIndeterminate.
func (q *otlpRequest) store(ctx context.Context) error {
	q.maxT = math.MaxInt64
	if q.h.opts.MaxFuture > 0 {
		q.maxT = q.h.opts.Clock.Now().Add(q.h.opts.MaxFuture).UnixMilli()
	}
	rejected, err := q.attempt(ctx)
	if err == nil && slices.ContainsFunc(rejected, seriesIsGone) {
		rejected, err = q.attempt(ctx) // it left the head meanwhile, and can be made again
	}
	for _, r := range rejected {
		if n := q.staged[r.Index]; n >= 0 && !q.points[n] {
			q.points[n] = true
			if q.refused.line(r.Err) {
				q.refused.text.WriteByte('\n')
			}
		}
	}
	return err
}

// attempt decodes the request and commits it.
func (q *otlpRequest) attempt(ctx context.Context) (_ []tsdb.Reject, err error) {
	q.points, q.staged, q.weight = q.points[:0], q.staged[:0], 0
	q.refused.reset()
	q.h.deltas.begin(&q.deltas)
	q.app = q.h.db.Appender()
	defer func() {
		_ = q.app.Rollback() // nothing was asked for that could fail
		q.app = nil
		q.h.deltas.end(&q.deltas, err == nil)
	}()
	r := readFields(q.content)
	for r.next() {
		if r.num == 1 {
			if err := q.resourceMetrics(r.bytes()); err != nil {
				return nil, err
			}
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	res, err := q.app.Commit(ctx)
	return res.Rejected, err
}

// resourceMetrics hands over a ResourceMetrics message:
//
//	1 resource Resource (1 attributes repeated)   2 scope_metrics repeated ScopeMetrics
func (q *otlpRequest) resourceMetrics(message []byte) error {
	q.resource.sent.reset()
	for r := readFields(message); r.next() || r.err != nil; {
		if r.err != nil {
			return r.err
		}
		if r.num != 1 {
			continue
		}
		if err := eachAttribute(r.bytes(), 1, &q.resource.sent); err != nil {
			return err
		}
	}
	q.resource.settle(&q.h.options)
	r := readFields(message)
	for r.next() {
		if r.num == 2 {
			if err := q.scopeMetrics(r.bytes()); err != nil {
				return err
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	return q.targetInfo()
}

// eachAttribute reads the attributes in a field of a message.
func eachAttribute(message []byte, field int, into *attributes) error {
	r := readFields(message)
	for r.next() {
		if int(r.num) == field {
			if err := into.read(r.bytes()); err != nil {
				return err
			}
		}
	}
	return r.err
}

// scopeMetrics hands over a ScopeMetrics message:
//
//	1 scope InstrumentationScope (1 name, 2 version, 3 attributes)
//	2 metrics repeated Metric   3 schema_url string
func (q *otlpRequest) scopeMetrics(message []byte) error {
	q.scope.reset()
	r := readFields(message)
	for q.h.options.PromoteScope && r.next() {
		switch r.num {
		case 1:
			if err := q.promoteScope(r.bytes()); err != nil {
				return err
			}
		case 3:
			q.scope.set([]byte("otel_scope_schema_url"), r.bytes())
		}
	}
	if r.err != nil {
		return r.err
	}
	r = readFields(message)
	for r.next() {
		if r.num == 2 {
			if err := q.metrics(r.bytes()); err != nil {
				return err
			}
		}
	}
	return r.err
}

func (q *otlpRequest) promoteScope(message []byte) error {
	var sent attributes
	if err := eachAttribute(message, 3, &sent); err != nil {
		return err
	}
	for i := range sent.list {
		sent.list[i].name = slices.Concat([]byte("otel_scope_"), sent.list[i].name)
	}
	q.h.options.Names.appendLabels(&q.scope, sent.list)
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			q.scope.set([]byte("otel_scope_name"), r.bytes())
		case 2:
			q.scope.set([]byte("otel_scope_version"), r.bytes())
		}
	}
	return r.err
}

// Kinds of metrics, by the field that they stand in.
const (
	otlpGauge       = 5
	otlpSum         = 7
	otlpHistogram   = 9
	otlpExponential = 10
	otlpSummary     = 11
)

// Temporalities.
const (
	otlpDelta      = 1
	otlpCumulative = 2
)

// metrics hands over a Metric message:
//
//	1 name   2 description   3 unit   5 gauge   7 sum   9 histogram
//	10 exponential_histogram   11 summary
//
// The kinds have:
//
//	1 data_points repeated   2 aggregation_temporality enum   3 is_monotonic bool
func (q *otlpRequest) metrics(message []byte) error {
	var kind int
	var data, unit []byte
	m := &q.metric
	*m = otlpWritten{name: m.name[:0]}
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			m.sent = r.bytes()
		case 2:
			m.about.Help = r.string()
		case 3:
			unit = r.bytes()
		case otlpGauge, otlpSum, otlpHistogram, otlpExponential, otlpSummary:
			kind, data = int(r.num), r.bytes()
		}
	}
	if r.err != nil {
		return r.err
	}
	monotonic := false
	r = readFields(data)
	for r.next() {
		switch r.num {
		case 2:
			m.temporality = r.varint()
		case 3:
			monotonic = r.varint() != 0
		}
	}
	if r.err != nil {
		return r.err
	}
	switch kind {
	case otlpHistogram, otlpExponential:
		m.about.Type = tsdb.MetricHistogram
	case otlpSummary:
		m.about.Type, m.temporality = tsdb.MetricSummary, otlpCumulative
	case otlpSum:
		if m.about.Type = tsdb.MetricGauge; monotonic {
			m.about.Type = tsdb.MetricCounter
		}
	default:
		m.about.Type, m.temporality = tsdb.MetricGauge, otlpCumulative
	}
	named := otlpMetric{string(m.sent), string(unit), m.about.Type}
	if kind == otlpSum && m.about.Type == tsdb.MetricGauge && named.unit == "1" {
		named.unit = "" // only what is a gauge from the start is a ratio
	}
	m.name = append(m.name, q.h.options.Names.metricName(named)...)
	m.about.Unit = unitName(string(unit))
	why := q.cannotStore(kind)
	r = readFields(data)
	for r.next() {
		if r.num != 1 {
			continue
		}
		q.points = append(q.points, false)
		if why != nil {
			q.refuse(why)
			continue
		}
		if err := q.dataPoint(kind, r.bytes()); err != nil {
			return errors.WithMessagef(err, "metric %.100q", m.sent)
		}
	}
	return r.err
}

// cannotStore says why no point of the metric under way can be stored.
func (q *otlpRequest) cannotStore(kind int) error {
	m := &q.metric
	switch {
	case len(m.name) == 0:
		return errNoMetricName
	case m.temporality == otlpDelta && q.h.options.Delta == OTLPDeltaRefused:
		return errDelta
	case m.temporality != otlpDelta && m.temporality != otlpCumulative:
		return errTemporality
	case q.h.opts.NoHistograms && (kind == otlpExponential || kind == otlpHistogram && q.h.options.CustomBuckets):
		return errNoHistograms
	}
	return nil
}

// refuse tells the client of the point under way, of which something is not stored.
func (q *otlpRequest) refuse(err error) {
	n := len(q.points) - 1
	if q.points[n] {
		return
	}
	q.points[n] = true
	if q.refused.line(err) {
		q.refused.text.WriteString(" for metric ")
		q.refused.text.WriteString(strconv.Quote(cutText(string(q.metric.sent), maxLabelText)))
		q.refused.text.WriteByte('\n')
	}
}

// refusedPoints is how many points were refused, whole or in part.
func (q *otlpRequest) refusedPoints() (n int) {
	for _, refused := range q.points {
		if refused {
			n++
		}
	}
	return n
}

// settleLabels makes the labels of the point under way, but for its name, and sorts them.
func (q *otlpRequest) settleLabels() {
	o, p := &q.h.options, &q.point
	p.labels.reset()
	o.Names.appendLabels(&p.labels, p.sent.list)
	p.labels.add(q.resource.promoted.list)
	p.labels.add(q.scope.list)
	q.resource.identify(&p.labels)
	if o.TypeAndUnitLabels {
		p.labels.set([]byte("__type__"), metricTypes[q.metric.about.Type])
		if q.metric.about.Unit != "" {
			p.labels.set([]byte("__unit__"), []byte(q.metric.about.Unit))
		}
	}
	sortByName(p.labels.list)
}

// append appends a sample of the series of the point under way whose name ends so and that has more
// labels. exemplars are those of the series. An error is about the whole request.
func (q *otlpRequest) append(suffix string, s tsdb.Sample, exemplars []exemplar.Exemplar, more ...attribute) error {
	p := &q.point
	if err := q.weight.add(weightFloat); err != nil {
		return err
	}
	p.name = append(append(p.name[:0], q.metric.name...), suffix...)
	p.more = append(append(p.more[:0], attribute{nameLabel, p.name}), more...)
	p.encoded = encodeLabels(p.encoded[:0], p.labels.list, p.more...)
	ls, err := labels.UnsafeFromEncoded(p.encoded)
	if err != nil {
		q.refuse(err)
		return nil
	}
	s.T = p.t
	if s.T > q.maxT {
		q.refuse(errFuture)
		return nil
	}
	if q.metric.temporality == otlpDelta && q.h.options.Delta == OTLPDeltaSummed && !p.stale {
		if err := q.deltas.add(p.encoded, &s); err != nil {
			q.refuse(err)
			return nil
		}
	}
	if p.start > 0 && p.start <= s.T && q.h.options.StartTimestamps {
		s.ST = p.start
	}
	ref, err := q.app.AppendSample(0, ls, s)
	switch {
	case errors.Is(err, tsdb.ErrClosed):
		return err
	case err != nil:
		q.refuse(err)
		return nil
	}
	q.staged = append(q.staged, int32(len(q.points)-1))
	return q.beside(ref, exemplars)
}

// beside stores what a series has beside its samples. What the database does not take of it is left
// out: the points are stored.
func (q *otlpRequest) beside(ref tsdb.SeriesRef, exemplars []exemplar.Exemplar) error {
	m := &q.metric
	if !q.h.opts.NoMetadata {
		if _, err := q.app.SetMetadata(ref, labels.Labels{}, m.about); err != nil {
			q.h.opts.Logger.Debug("metadata of an OTLP request left out", "metric", string(m.name), "error", logged(err))
		}
	}
	for i := range exemplars {
		if _, err := q.app.AppendExemplar(ref, labels.Labels{}, exemplars[i]); err != nil {
			q.h.opts.Logger.Debug("exemplar of an OTLP request left out", "metric", string(m.name), "error", logged(err))
		}
	}
	return nil
}

// infoInterval is how far apart the samples of target_info are at most: half of how far queries
// look back.
const infoInterval = int64(150 * time.Second / time.Millisecond)

// maxInfos bounds them for one resource of a request.
const maxInfos = 1000

// targetInfo tells what is known of the resource under way, at the times of its points.
func (q *otlpRequest) targetInfo() error {
	r, p := &q.resource, &q.point
	if r.from > r.to || !r.further || len(r.job)+len(r.instance) == 0 {
		return nil
	}
	p.labels.reset()
	p.labels.add(r.info.list)
	r.identify(&p.labels)
	sortByName(p.labels.list)
	p.encoded = encodeLabels(p.encoded[:0], p.labels.list, attribute{nameLabel, []byte("target_info")})
	ls, err := labels.UnsafeFromEncoded(p.encoded)
	if err != nil {
		return nil // its points say so
	}
	for t := max(r.from, r.to-maxInfos*infoInterval); ; t = min(t+infoInterval, r.to) {
		switch _, err := q.app.Append(0, ls, t, 1); {
		case err == nil:
			q.staged = append(q.staged, -1)
		case errors.Is(err, tsdb.ErrClosed):
			return err
		} // what is late is there already, or between what is
		if t == r.to {
			return nil
		}
	}
}

// stale says that nothing was recorded.
func stale() tsdb.Sample { return tsdb.Sample{V: math.Float64frombits(histogram.StaleNaN)} }
