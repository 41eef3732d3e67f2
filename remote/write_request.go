package remote

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// writeMessage decodes the messages of one version.
type writeMessage interface {
	// decode hands everything that is in q.content to q. An error is about the whole message.
	decode(q *writeRequest) error
	// appendLabels appends the labels of a TimeSeries message in the form of package labels, in
	// the order in which they are sent. An error is about the series.
	appendLabels(dst, message []byte) ([]byte, error)
	// key is what the series of a TimeSeries message is known by, nil if it is not to be: of one
	// that was decoded. It is good until the next call.
	key(message []byte) []byte
}

// writeRequest is one request on its way into the database. It keeps its memory.
type writeRequest struct {
	h       *WriteHandler
	content []byte
	samples int // that a heavy one has, about

	writeMessages

	app    *tsdb.Appender
	maxT   int64 // newest time that is accepted
	series writtenSeries
	hist   wireHistogram

	staged   stagedItems
	late     []lateSample
	refused  refusals
	written  writtenCounts
	metadata requestMetadata
	load     load
}

// writeMessages are decoders of both versions.
type writeMessages struct {
	message writeMessage // v1 or v2
	v1      writeMessageV1
	v2      writeMessageV2
}

// giveBack keeps a request for another one, unless it needed much.
func (q *writeRequest) giveBack() {
	kept := cap(q.content) + q.staged.sizeBytes() + int(unsafe.Sizeof(lateSample{}))*cap(q.late) +
		int(unsafe.Sizeof(givenMetadata{}))*cap(q.metadata.series) + int(unsafe.Sizeof(place{}))*(cap(q.metadata.families)+cap(q.v2.symbols))
	q.load = load{}
	if kept <= keptBytes {
		q.h.requests.Put(q)
	}
}

// writtenSeries is the series under way.
type writtenSeries struct {
	message []byte // TimeSeries
	number  int    // in the request
	key     []byte // in the cache; nil: it is not to be there
	hash    uint64 // of key
	entry   knownSeries

	encoded  []byte // its labels, from when they are asked for
	labels   labels.Labels
	exemplar []byte // labels of its last exemplar
	samples  int    // that are there, of any kind
	stored   int    // of them
	late     int    // of them, which may be there already
	invalid  bool   // the series was refused
	why      refusalReason
}

// store stores a request, but for what cannot be. An error is about the whole of it, which is to
// come again then, unless it never can be stored: written says what is stored already.
func (q *writeRequest) store(ctx context.Context, said writeVersion, memory *memoryShare) error {
	q.written = writtenCounts{}
	q.refused.reset()
	version := versionIn(q.content, said)
	if q.h.isOff(version) {
		return errVersionOff
	}
	q.message = &q.v1
	if version == writeV2 {
		q.message = &q.v2
	}
	if err := q.expect(version, memory); err != nil {
		return err
	}
	q.maxT = math.MaxInt64
	if q.h.opts.MaxFuture > 0 {
		q.maxT = q.h.opts.Clock.Now().Add(q.h.opts.MaxFuture).UnixMilli()
	}
	rejected, err := q.attempt(ctx)
	if err != nil {
		q.written = writtenCounts{}
		return err
	}
	if slices.ContainsFunc(rejected, seriesIsGone) {
		// It left the head meanwhile, and can be made again. What is stored is found to be.
		for _, r := range rejected {
			q.written[q.staged.samples[r.Index].kind()]--
		}
		before := q.written
		if rejected, err = q.attempt(ctx); err != nil {
			q.written = before
			return err
		}
	}
	q.reject(rejected)
	settleLate(ctx, q)
	if slices.ContainsFunc(rejected, seriesIsGone) {
		return errGone
	}
	return nil
}

// expect takes the memory that a request will need: of a heavy one as much as it has, so that none
// begins that would have to be given up later.
func (q *writeRequest) expect(version writeVersion, memory *memoryShare) error {
	q.samples = 0
	if len(q.content) <= lightContent {
		return q.load.begin(memory, int64(len(q.content))*usualMemory)
	}
	q.load = load{memory: memory}
	q.samples = q.load.weigh(q.content, version)
	return q.load.more()
}

func seriesIsGone(r tsdb.Reject) bool { return errors.Is(r.Err, tsdb.ErrNotFound) }

// attempt decodes the request and commits it.
func (q *writeRequest) attempt(ctx context.Context) ([]tsdb.Reject, error) {
	q.staged.reset(q.samples)
	q.late, q.written = q.late[:0], writtenCounts{}
	q.load.again()
	q.refused.reset()
	q.metadata.reset()
	q.series.number = -1
	q.app = q.h.db.Appender()
	q.app.AllowExemplarsWithoutLabels(true)
	q.app.Grow(q.samples)
	defer rollback(q)
	if err := q.message.decode(q); err != nil {
		return nil, err
	}
	res, err := q.app.Commit(ctx)
	if err == nil {
		q.metadata.remember(q)
	}
	return res.Rejected, err
}

// rollback ends what was not committed, also behind a panic of the database's own rules.
func rollback(q *writeRequest) {
	_ = q.app.Rollback() // nothing was asked for that could fail
	q.app = nil
	q.series = writtenSeries{encoded: q.series.encoded[:0], exemplar: q.series.exemplar[:0]}
}

// open begins a series. Without a key it is found by its labels.
func (q *writeRequest) open(message, key []byte) error {
	s := &q.series
	s.message, s.key = message, key
	s.number++
	s.labels = labels.Labels{}
	s.samples, s.stored, s.late, s.invalid = 0, 0, 0, false
	s.entry = knownSeries{}
	if key != nil {
		s.hash, s.entry = q.h.known.get(key)
	}
	return q.load.add(weightSeries, seriesMemory)
}

// labels are those of the series under way, until the next one.
func (q *writeRequest) labels() (ls labels.Labels, err error) {
	s := &q.series
	if !s.labels.IsEmpty() {
		return s.labels, nil
	}
	if s.encoded, err = q.message.appendLabels(s.encoded[:0], s.message); err != nil {
		return ls, err
	}
	if ls, err = labels.UnsafeFromEncoded(s.encoded); err != nil {
		return ls, err
	}
	if ls.Get(labels.MetricName) == "" {
		return ls, errNoMetricName
	}
	s.labels = ls
	return ls, nil
}

// float appends a Sample message.
func (q *writeRequest) float(message []byte, starts bool) error {
	s, err := decodeWritten(message)
	if err == nil {
		err = q.load.add(weightFloat, floatMemory)
	}
	if err != nil {
		return err
	}
	if !starts {
		s.ST = 0
	}
	return q.sample(message, &s, itemSample)
}

// decodeWritten reads a Sample message:
//
//	1 value double   2 timestamp int64   3 start_timestamp int64 (2.0)
func decodeWritten(message []byte) (s tsdb.Sample, err error) {
	if len(message) > 10 && message[0] == fixed64Tag(1) && message[9] == varintTag(2) {
		// As all senders write it, unless the value is 0.
		t, n := binary.Uvarint(message[10:])
		if n > 0 && 10+n == len(message) {
			return tsdb.Sample{T: int64(t), V: math.Float64frombits(binary.LittleEndian.Uint64(message[1:]))}, nil
		}
	}
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			s.V = math.Float64frombits(r.fixed64())
		case 2:
			s.T = int64(r.varint())
		case 3:
			s.ST = int64(r.varint())
		}
	}
	return s, errors.WithMessage(r.err, "sample")
}

// maxHistogramBytes bounds the message of one histogram. The most that real ones have is some
// kilobytes.
const maxHistogramBytes = 1 << 20

// histogram appends a Histogram message.
func (q *writeRequest) histogram(message []byte, starts bool) error {
	if err := q.load.add(weightOther, histogramBytes(message)); err != nil {
		return err
	}
	q.series.samples++
	switch {
	case q.series.invalid:
		q.refused.count(itemHistogram, q.series.why)
		return nil
	case q.h.opts.NoHistograms:
		q.refuse(itemHistogram, errNoHistograms)
		return nil
	case len(message) > maxHistogramBytes:
		q.refuse(itemHistogram, errors.WithMessagef(histogram.ErrTooManyBuckets, "message of %d bytes", len(message)))
		return nil
	}
	if err := q.hist.read(message); err != nil {
		return errors.WithMessage(err, "histogram")
	}
	if err := q.hist.settle(); err != nil {
		q.refuse(itemHistogram, err)
		return nil
	}
	s := tsdb.Sample{T: q.hist.t}
	if starts {
		s.ST = q.hist.st
	}
	if q.hist.kind == chunkenc.ValHistogram {
		s.H = &q.hist.ints
	} else {
		s.FH = &q.hist.floats
	}
	q.series.samples--
	return q.sample(message, &s, itemHistogram)
}

// sample appends one sample of any kind, which is in message. An error is about the whole request.
func (q *writeRequest) sample(message []byte, s *tsdb.Sample, kind itemKind) error {
	of := &q.series
	of.samples++
	if of.invalid {
		q.refused.count(kind, of.why)
		return nil
	}
	if s.T > q.maxT {
		q.refuse(kind, errFuture)
		return nil
	}
	if of.entry.ref != 0 {
		_, err := q.app.AppendSample(of.entry.ref, labels.Labels{}, *s)
		if err == nil {
			q.took(message, kind)
			return nil
		}
		if !errors.Is(err, tsdb.ErrNotFound) {
			return q.failed(message, s.T, kind, err)
		}
	}
	ls, err := q.labels()
	if err != nil {
		q.refuseSeries(kind, err)
		return nil
	}
	ref, err := q.app.AppendSample(0, ls, *s)
	q.found(ref)
	switch {
	case err == nil:
		q.took(message, kind)
		return nil
	case ref == 0 && !isAny(err, tsdb.ErrHistogramsOff, tsdb.ErrClosed):
		q.refuseSeries(kind, err)
		return nil
	default:
		return q.failed(message, s.T, kind, err)
	}
}

// found remembers the series under way.
func (q *writeRequest) found(ref tsdb.SeriesRef) {
	s := &q.series
	if ref == 0 || ref == s.entry.ref {
		return
	}
	s.entry = knownSeries{ref: ref}
	if s.key != nil {
		q.h.known.put(s.hash, s.key, s.entry)
	}
}

// took counts what was appended.
func (q *writeRequest) took(message []byte, kind itemKind) {
	q.series.stored++
	q.written[kind]++
	q.staged.add(kind, q.sent(), q.place(message))
}

// sent says where the series under way is.
func (q *writeRequest) sent() sentPlace {
	return sentPlace{q.series.number, q.place(q.series.message)}
}

// place says where a part of the content is.
func (q *writeRequest) place(part []byte) place {
	return place{uint32(cap(q.content) - cap(part)), uint32(len(part))}
}

func (q *writeRequest) at(p place) []byte { return q.content[p.at:][:p.size] }

// failed keeps in mind why a sample was not taken. An error is about the whole request.
func (q *writeRequest) failed(message []byte, t int64, kind itemKind, err error) error {
	switch {
	case errors.Is(err, tsdb.ErrClosed):
		return err
	case isLate(err) && len(q.late) < maxLate:
		q.series.late++
		q.late = append(q.late, lateSample{series: q.sent(), sample: q.place(message), t: t, kind: kind, err: err})
	default:
		q.refuse(kind, err)
	}
	return nil
}

// refuse tells the client of an item of the series under way that is not stored.
func (q *writeRequest) refuse(kind itemKind, err error) {
	q.refused.count(kind, reasonOf(err))
	q.refused.add(err, q.message, q.series.number, q.series.message)
}

// refuseSeries refuses a series with all that it has. The item that it is refused for is of a kind;
// itemSeries: there is none.
func (q *writeRequest) refuseSeries(kind itemKind, err error) {
	q.refuse(itemSeries, err)
	q.series.invalid, q.series.why = true, reasonOf(err)
	if kind != itemSeries {
		q.refused.count(kind, q.series.why)
	}
}

// reject takes back what Commit did not take.
func (q *writeRequest) reject(rejected []tsdb.Reject) {
	for _, r := range rejected {
		item := &q.staged.samples[r.Index]
		q.written[item.kind()]--
		l := lateSample{series: q.staged.seriesOf(r.Index), sample: item.place(), kind: item.kind(), err: r.Err}
		if isLate(r.Err) && len(q.late) < maxLate {
			l.t = q.read(&l).T
			q.late = append(q.late, l)
		} else {
			q.refuseSample(&l)
		}
	}
}

// refuseSample tells the client of a sample of any series.
func (q *writeRequest) refuseSample(l *lateSample) {
	q.refused.count(l.kind, reasonOf(l.err))
	q.refused.add(l.err, q.message, l.series.number, q.at(l.series.at))
}

// exemplar appends an exemplar, given as its message, to the series under way. It may have no
// samples: senders give exemplars a series of their own. Those whose samples were refused go with
// them. tell: of labels that cannot be stored the client is told.
func (q *writeRequest) exemplar(message []byte, tell bool) error {
	if err := q.load.add(weightExemplar, exemplarMemory); err != nil {
		return err
	}
	e, err := q.series.readExemplar(message, q.message)
	switch {
	case errors.Is(err, errMalformed):
		return err
	case err != nil && tell:
		q.refuse(itemExemplar, errors.WithMessage(err, "exemplar"))
		return nil
	case err != nil:
		q.refused.count(itemExemplar, reasonOf(err))
		return nil
	}
	if why, isRefused := q.series.refusesExemplar(q.h.opts.NoExemplars); isRefused {
		q.refused.count(itemExemplar, why)
		return nil
	}
	if e.T > q.maxT {
		q.refuse(itemExemplar, errFuture)
		return nil
	}
	ls, err := q.labels()
	if err != nil {
		q.refuseSeries(itemExemplar, err)
		return nil
	}
	ref, err := q.app.AppendExemplar(0, ls, e)
	q.found(ref)
	switch {
	case err == nil:
		q.written[itemExemplar]++
	case errors.Is(err, tsdb.ErrClosed):
		return err
	case isAny(err, tsdb.ErrExemplarsOff, exemplar.ErrLabelLength):
		// With 400 a sender would count all of the request as lost.
		q.refused.count(itemExemplar, reasonOf(err))
	default:
		q.refuse(itemExemplar, err)
	}
	return nil
}

// refusesExemplar reports whether the series takes no exemplar just now, or exemplars are off. The
// client is not told.
func (s *writtenSeries) refusesExemplar(off bool) (why refusalReason, _ bool) {
	switch {
	case s.invalid:
		return s.why, true
	case off:
		return reasonOff, true
	default:
		return reasonSample, s.samples > 0 && s.stored+s.late == 0
	}
}

// readExemplar reads an Exemplar message:
//
//	1 labels, as the version has them   2 value double   3 timestamp int64
//
// Its labels are good until the next one.
func (s *writtenSeries) readExemplar(message []byte, version writeMessage) (e exemplar.Exemplar, err error) {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 2:
			e.Value = math.Float64frombits(r.fixed64())
		case 3:
			e.T, e.HasT = int64(r.varint()), true
		}
	}
	if r.err != nil {
		return e, errors.WithMessage(r.err, "exemplar")
	}
	if s.exemplar, err = version.appendLabels(s.exemplar[:0], message); err == nil {
		e.Labels, err = labels.UnsafeFromEncoded(s.exemplar)
	}
	return e, err
}
