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
	h    *OTLPHandler
	sent otlpSent

	app  *tsdb.Appender
	maxT int64 // newest time that is accepted
	load load

	resource otlpResource
	scope    attributes  // labels of its series, sorted
	beside   []attribute // labels of all series of the scope: promoted ones, and its own
	metric   otlpWritten
	point    otlpPoint

	points  []bool  // of the request: some of it was refused
	staged  []int32 // the point of each sample that the Appender took; -1: of target_info
	stored  otlpStored
	refused refusals
	deltas  deltaRound
}

// otlpSent makes the message of what was sent.
type otlpSent struct {
	inflater inflater
	json     jsonConverter
}

// otlpStored is what is stored of a request.
type otlpStored struct {
	samples   int // of points, that are there
	exemplars int // that the Appender took
	late      otlpLateList
}

func (s *otlpStored) reset() {
	s.samples, s.exemplars = 0, 0
	s.late.reset()
}

// otlpWritten is the metric under way.
type otlpWritten struct {
	name        []byte // of its series, but for what is behind it
	sent        []byte
	about       tsdb.Metadata
	temporality uint64
	over        []attribute // labels of its series that win, sorted
	names       otlpNameCache
}

// shown is the name of the metric, as much as is told of it.
func (m *otlpWritten) shown() string { return shownMetric(m.sent) }

func shownMetric(sent []byte) string {
	return cutText(string(sent[:min(len(sent), maxLabelText+1)]), maxLabelText)
}

// maxTextBytes bounds names, units and descriptions of metrics: each point counts with them.
const maxTextBytes = 16 << 10

// store stores a request of that content, but for what cannot be. An error is about the whole of
// it: nothing is stored then, but behind tsdb.ErrIndeterminate.
func (q *otlpRequest) store(ctx context.Context, content []byte, memory *memoryShare) error {
	if err := q.load.begin(memory, int64(len(content))*usualMemory); err != nil {
		return err
	}
	q.maxT = math.MaxInt64
	if q.h.opts.MaxFuture > 0 {
		q.maxT = q.h.opts.Clock.Now().Add(q.h.opts.MaxFuture).UnixMilli()
	}
	rejected, err := q.attempt(ctx, content)
	if err == nil && slices.ContainsFunc(rejected, seriesIsGone) {
		rejected, err = q.attempt(ctx, content) // it left the head meanwhile, and can be made again
	}
	for _, n := range q.staged {
		if n >= 0 {
			q.stored.samples++
		}
	}
	for _, r := range rejected {
		if q.staged[r.Index] >= 0 {
			q.stored.samples--
		}
		if n := q.staged[r.Index]; n >= 0 && !q.points[n] {
			q.points[n] = true
			q.refused.count(itemPoint, reasonOf(r.Err))
			if q.refused.line(r.Err) {
				q.refused.text.WriteByte('\n')
			}
		}
	}
	if err == nil {
		settleLateOTLP(ctx, q)
	}
	q.stored.late.reset()
	return err
}

// attempt decodes the request and commits it.
func (q *otlpRequest) attempt(ctx context.Context, content []byte) (_ []tsdb.Reject, err error) {
	q.points, q.staged = q.points[:0], q.staged[:0]
	q.stored.reset()
	q.load.again()
	q.refused.reset()
	q.deltas.begin(ctx, &q.h.deltas)
	q.app = q.h.db.Appender()
	q.app.AllowExemplarsWithoutLabels(true)
	defer func() {
		_ = q.app.Rollback() // nothing was asked for that could fail
		q.app = nil
		q.deltas.end(err == nil)
	}()
	r := readFields(content)
	for r.next() {
		if r.num == 1 {
			if err := q.resourceMetrics(ctx, r.bytes()); err != nil {
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
func (q *otlpRequest) resourceMetrics(ctx context.Context, message []byte) error {
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
			if err := q.scopeMetrics(ctx, r.bytes()); err != nil {
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
func (q *otlpRequest) scopeMetrics(ctx context.Context, message []byte) error {
	q.scope.reset()
	if q.h.options.PromoteScope {
		if err := q.promoteScope(message); err != nil {
			return err
		}
	}
	q.beside = appendUnion(q.beside[:0], q.resource.promoted.list, q.scope.list)
	r := readFields(message)
	for r.next() {
		if r.num == 2 {
			if err := q.metrics(ctx, r.bytes()); err != nil {
				return err
			}
		}
	}
	return r.err
}

// promoteScope makes labels of the scope of a ScopeMetrics message.
func (q *otlpRequest) promoteScope(message []byte) error {
	var sent attributes
	var named []attribute
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			scope := readFields(r.bytes())
			for scope.next() {
				switch scope.num {
				case 1:
					named = append(named, attribute{[]byte("otel_scope_name"), scope.bytes()})
				case 2:
					named = append(named, attribute{[]byte("otel_scope_version"), scope.bytes()})
				case 3:
					if err := sent.read(scope.bytes()); err != nil {
						return err
					}
				}
			}
			if scope.err != nil {
				return scope.err
			}
		case 3:
			named = append(named, attribute{[]byte("otel_scope_schema_url"), r.bytes()})
		}
	}
	if r.err != nil {
		return r.err
	}
	for i := range sent.list {
		sent.list[i].name = slices.Concat([]byte("otel_scope_"), sent.list[i].name)
	}
	var labels attributes
	q.h.options.Names.appendLabels(&labels, sent.list)
	sortByName(named)
	q.scope.list = appendUnion(q.scope.list, named, labels.list)
	q.scope.large = sent.large
	return nil
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
func (q *otlpRequest) metrics(ctx context.Context, message []byte) error {
	var kind int
	var data, unit []byte
	m := &q.metric
	*m = otlpWritten{name: m.name[:0], over: m.over[:0], names: m.names}
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			m.sent = r.bytes()
		case 2:
			if b := r.bytes(); len(b) <= maxTextBytes {
				m.about.Help = string(b)
			} else {
				q.refused.count(itemMetadata, reasonLimit)
				q.h.opts.Logger.Debug("metadata of an OTLP request left out", "metric", m.shown(), "error", logged(errDescription))
			}
		case 3:
			unit = r.bytes()
		case otlpGauge, otlpSum, otlpHistogram, otlpExponential, otlpSummary:
			kind, data = int(r.num), r.bytes()
		}
	}
	if r.err != nil {
		return r.err
	}
	if q.h.opts.NoMetadata {
		q.refused.count(itemMetadata, reasonOff)
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
	q.name(kind, unit)
	why := q.cannotStore(kind)
	r = readFields(data)
	for r.next() {
		if r.num != 1 {
			continue
		}
		q.points = append(q.points, false)
		if len(q.points)%looksAround == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
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

// looksAround is after how many points it is looked whether the client is still there.
const looksAround = 256

// name gives the metric under way its name, and the labels that all of its series have.
func (q *otlpRequest) name(kind int, unit []byte) {
	m := &q.metric
	m.over = append(m.over, q.resource.ids...)
	if len(m.sent)+len(unit) > maxTextBytes {
		return
	}
	// Only what is a gauge from the start is a ratio.
	ratio := kind != otlpSum || m.about.Type != tsdb.MetricGauge
	named := m.names.of(q.h.options.Names, m.sent, unit, m.about.Type, ratio)
	m.name = append(m.name, named.name...)
	m.about.Unit = named.unit
	if m.temporality == otlpDelta && q.h.options.Delta == OTLPDeltaStored {
		m.about.Type = tsdb.MetricUnknown
	}
	if q.h.options.TypeAndUnitLabels {
		m.over = append(m.over[:0], attribute{typeLabel, metricTypes[m.about.Type]}, attribute{unitLabel, []byte(m.about.Unit)})
		m.over = append(m.over, q.resource.ids...)
	}
}

// cannotStore says why no point of the metric under way can be stored.
func (q *otlpRequest) cannotStore(kind int) error {
	m := &q.metric
	switch {
	case len(m.sent) > maxTextBytes:
		return errors.WithMessagef(errSeriesLimit, "the name has %d bytes", len(m.sent))
	case q.resource.sent.large != nil:
		return errors.WithMessage(q.resource.sent.large, "resource")
	case q.scope.large != nil:
		return errors.WithMessage(q.scope.large, "scope")
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
func (q *otlpRequest) refuse(err error) { q.refusePoint(len(q.points)-1, q.metric.sent, err) }

// refusePoint tells the client of a point of a metric.
func (q *otlpRequest) refusePoint(n int, metric []byte, err error) {
	if q.points[n] {
		return
	}
	q.points[n] = true
	q.refused.count(itemPoint, reasonOf(err))
	if q.refused.line(err) {
		q.refused.text.WriteString(" for metric ")
		q.refused.text.WriteString(strconv.Quote(shownMetric(metric)))
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

// settleLabels makes the labels of the point under way, but for its name.
func (q *otlpRequest) settleLabels() {
	p := &q.point
	p.own.reset()
	q.h.options.Names.appendLabels(&p.own, p.sent.list)
	p.more = appendUnion(p.more[:0], p.own.list, q.beside)
	p.labels = appendUnion(p.labels[:0], q.metric.over, p.more)
}

// append appends a sample of the series of the point under way whose name ends so and that has more
// labels. exemplars are those of the series. An error is about the whole request.
func (q *otlpRequest) append(suffix string, s tsdb.Sample, exemplars []exemplar.Exemplar, more ...attribute) error {
	p := &q.point
	p.name = append(append(p.name[:0], q.metric.name...), suffix...)
	p.more = append(append(p.more[:0], attribute{nameLabel, p.name}), more...)
	p.encoded = encodeLabels(p.encoded[:0], p.labels, p.more)
	about := &q.metric.about
	memory := seriesMemory + len(p.encoded) + 2*(len(about.Help)+len(about.Unit))
	if err := q.load.add(weightFloat+weight(len(p.encoded)/bytesOfWeight), memory); err != nil {
		return err
	}
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
	if p.start > 0 && p.start <= s.T && q.h.options.StartTimestamps {
		s.ST = p.start
	}
	summed := q.metric.temporality == otlpDelta && q.h.options.Delta == OTLPDeltaSummed && !p.stale
	if summed {
		if err := q.deltas.add(p.encoded, &s); err != nil {
			if ended := q.deltas.ctx.Err(); ended != nil {
				return ended
			}
			q.refuse(err)
			return nil
		}
	}
	ref, err := q.app.AppendSample(0, ls, s)
	switch {
	case errors.Is(err, tsdb.ErrClosed):
		return err
	case err != nil:
		if summed || !keepLate(q, ls, s, err) {
			q.refuse(err)
		}
		return nil
	}
	if summed {
		q.deltas.keep(p.encoded)
	}
	q.staged = append(q.staged, int32(len(q.points)-1))
	q.besideSamples(ref, exemplars)
	return nil
}

// bytesOfWeight is how many bytes of labels count as one more sample.
const bytesOfWeight = 256

// besideSamples stores what a series has beside its samples. What the database does not take of it
// is left out: the points are stored.
func (q *otlpRequest) besideSamples(ref tsdb.SeriesRef, exemplars []exemplar.Exemplar) {
	m := &q.metric
	if !q.h.opts.NoMetadata {
		if _, err := q.app.SetMetadata(ref, labels.Labels{}, m.about); err != nil {
			q.refused.count(itemMetadata, reasonOf(err))
			q.h.opts.Logger.Debug("metadata of an OTLP request left out", "metric", string(m.name), "error", logged(err))
		}
	}
	for i := range exemplars {
		switch _, err := q.app.AppendExemplar(ref, labels.Labels{}, exemplars[i]); {
		case err == nil:
			q.stored.exemplars++
		case errors.Is(err, tsdb.ErrExemplarsOff):
			q.refused.count(itemExemplar, reasonOff)
		default:
			q.refused.count(itemExemplar, reasonOf(err))
			q.h.opts.Logger.Debug("exemplar of an OTLP request left out", "metric", string(m.name), "error", logged(err))
		}
	}
}

// infoInterval is how far apart the samples of target_info are at most: half of how far queries
// look back.
const infoInterval = int64(150 * time.Second / time.Millisecond)

// maxInfos bounds them for one resource of a request.
const maxInfos = 1000

// targetInfo tells what is known of the resource under way, at the times of its points. What is
// refused of it is told, and is no point that is refused.
func (q *otlpRequest) targetInfo() error {
	r, p := &q.resource, &q.point
	if r.from > r.to || !r.further || len(r.ids) == 0 {
		return nil
	}
	p.labels = appendUnion(p.labels[:0], r.ids, r.info.list)
	p.more = append(p.more[:0], attribute{nameLabel, []byte("target_info")})
	p.encoded = encodeLabels(p.encoded[:0], p.labels, p.more)
	ls, err := labels.UnsafeFromEncoded(p.encoded)
	for t := max(r.from, r.to-maxInfos*infoInterval); err == nil; t = min(t+infoInterval, r.to) {
		if err := q.load.add(weightFloat, floatMemory); err != nil {
			return err
		}
		if _, err = q.app.Append(0, ls, t, 1); err == nil {
			q.staged = append(q.staged, -1)
		} else if isLate(err) {
			err = nil // it is there already, or between what is
		}
		if t == r.to {
			break
		}
	}
	if errors.Is(err, tsdb.ErrClosed) {
		return err
	}
	if err != nil {
		q.refused.count(itemSeries, reasonOf(err))
		if q.refused.line(err) {
			q.refused.text.WriteString(" for target_info, of which nothing is stored\n")
		}
	}
	return nil
}

// stale says that nothing was recorded.
func stale() tsdb.Sample { return tsdb.Sample{V: math.Float64frombits(histogram.StaleNaN)} }
