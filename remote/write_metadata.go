package remote

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// wireMetadata is a Metadata message of 2.0, of one series:
//
//	1 type enum   3 help_ref uint32   4 unit_ref uint32
type wireMetadata struct {
	typ              uint64
	helpRef, unitRef uint32
	help, unit       []byte
}

func (w *wireMetadata) read(message []byte) error {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			w.typ = r.varint()
		case 3:
			w.helpRef = wireRef(r.varint())
		case 4:
			w.unitRef = wireRef(r.varint())
		}
	}
	return errors.WithMessage(r.err, "metadata")
}

// resolve finds the texts. Reference 0 is none.
func (w *wireMetadata) resolve(m *writeMessageV2) (err error) {
	if w.helpRef != 0 {
		w.help, err = m.symbol(w.helpRef)
	}
	if w.unitRef != 0 && err == nil {
		w.unit, err = m.symbol(w.unitRef)
	}
	return errors.WithMessage(err, "metadata")
}

// apply gives metadata to the series under way, unless it has it already.
func (w *wireMetadata) apply(q *writeRequest) error {
	if w.typ == 0 && len(w.help) == 0 && len(w.unit) == 0 {
		return nil
	}
	if q.h.opts.NoMetadata {
		q.refused.count(itemMetadata, reasonOff)
		return nil
	}
	if len(w.help)+len(w.unit) > maxFamilyBytes {
		q.refused.count(itemMetadata, reasonLimit)
		return nil
	}
	var sum maphash.Hash
	sum.SetSeed(q.h.known.seed)
	_ = sum.WriteByte(byte(w.typ))
	_, _ = sum.Write(w.help)
	_ = sum.WriteByte(0)
	_, _ = sum.Write(w.unit)
	state := uint32(sum.Sum64()) | 1
	if !q.needsMetadata(state) {
		return nil
	}
	return q.setMetadata(state, tsdb.Metadata{Type: metricType(w.typ), Help: string(w.help), Unit: string(w.unit)})
}

// metricType returns a kind of the wire, whose numbers are those of the log.
func metricType(v uint64) tsdb.MetricType {
	if v > uint64(tsdb.MetricStateset) {
		return tsdb.MetricUnknown
	}
	return tsdb.MetricType(v)
}

// needsMetadata reports whether the series under way was not given metadata in this state.
func (q *writeRequest) needsMetadata(state uint32) bool {
	s := &q.series
	return s.stored > 0 && s.entry.ref != 0 && s.entry.meta != state
}

// setMetadata gives the series under way metadata. What the database refuses is left out, as it is
// no sample: the protocol has no number for it. An error is about the whole request.
func (q *writeRequest) setMetadata(state uint32, m tsdb.Metadata) error {
	if err := q.load.add(0, metadataMemory+2*(len(m.Help)+len(m.Unit))); err != nil {
		return err
	}
	s := &q.series
	if _, err := q.app.SetMetadata(s.entry.ref, labels.Labels{}, m); err != nil {
		q.refused.count(itemMetadata, reasonOf(err))
		q.h.opts.Logger.Debug("metadata of a remote write left out", "series", s.entry.ref, "error", logged(err))
	}
	s.entry.meta = state
	if s.key != nil {
		q.metadata.series = append(q.metadata.series, givenMetadata{q.place(s.message), s.entry})
	}
	return nil
}

// requestMetadata is that of one request. It is remembered once the request is stored: what is
// remembered is not stored again.
type requestMetadata struct {
	series   []givenMetadata
	families []place // of MetricMetadata messages
}

// givenMetadata is that of a series.
type givenMetadata struct {
	series place // TimeSeries message
	entry  knownSeries
}

func (m *requestMetadata) reset() { m.series, m.families = m.series[:0], m.families[:0] }

// remember notes what was stored.
func (m *requestMetadata) remember(q *writeRequest) {
	for _, given := range m.series {
		if key := q.message.key(q.at(given.series)); key != nil {
			q.h.known.putMeta(key, given.entry)
		}
	}
	for _, at := range m.families {
		f, _ := readFamily(q.at(at)) // as it could be before
		q.h.families.set(&f)
	}
}

// family takes a MetricMetadata message.
func (q *writeRequest) family(message []byte) error {
	if q.h.opts.NoMetadata {
		q.refused.count(itemMetadata, reasonOff)
		return nil
	}
	f, err := readFamily(message)
	if err == nil {
		err = q.load.add(weightOther, familyMemory)
	}
	switch {
	case err != nil:
	case f.size() > maxFamilyBytes:
		q.refused.count(itemMetadata, reasonLimit)
	default:
		q.metadata.families = append(q.metadata.families, q.place(message))
	}
	return err
}

// Bounds of the families of 1.0; maxFamilyBytes holds for a series of 2.0, too.
const (
	maxFamilies      = 1 << 15 // of a generation
	maxFamiliesBytes = 8 << 20 // of a generation
	maxFamilyBytes   = 64 << 10
)

// wireFamily is a MetricMetadata message:
//
//	1 type enum   2 metric_family_name string   4 help string   5 unit string
type wireFamily struct {
	typ              uint64
	name, help, unit []byte
}

func readFamily(message []byte) (f wireFamily, _ error) {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			f.typ = r.varint()
		case 2:
			f.name = r.bytes()
		case 4:
			f.help = r.bytes()
		case 5:
			f.unit = r.bytes()
		}
	}
	return f, errors.WithMessage(r.err, "metadata")
}

func (f *wireFamily) size() int { return len(f.name) + len(f.help) + len(f.unit) }

func (f *wireFamily) is(m tsdb.Metadata) bool {
	return m.Type == metricType(f.typ) && m.Help == string(f.help) && m.Unit == string(f.unit)
}

// families are the metadata of 1.0, which is about metric families: senders give it in requests of
// their own, once a minute, and a series gets it with its next sample. There are two generations:
// when the young one is full the old one, of what no sender has any more, is forgotten.
type families struct {
	mu struct {
		sync.RWMutex
		young, old map[string]tsdb.Metadata
		bytes      int // of the young ones
	}
	state atomic.Uint32 // changes with what they say
}

// set takes what a message says.
func (f *families) set(w *wireFamily) {
	f.mu.RLock()
	known, there := f.mu.young[string(w.name)]
	f.mu.RUnlock()
	if there && w.is(known) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old, there := f.mu.young[string(w.name)]
	if !there {
		old = f.mu.old[string(w.name)]
	}
	m := old
	if !w.is(old) {
		m = tsdb.Metadata{Type: metricType(w.typ), Help: string(w.help), Unit: string(w.unit)}
		f.state.Add(1)
	}
	if there {
		f.mu.bytes -= len(w.name) + len(old.Help) + len(old.Unit)
		delete(f.mu.young, string(w.name))
	}
	if f.mu.young == nil || len(f.mu.young) == maxFamilies || f.mu.bytes+w.size() > maxFamiliesBytes {
		f.mu.old, f.mu.young, f.mu.bytes = f.mu.young, map[string]tsdb.Metadata{}, 0
	}
	f.mu.bytes += w.size()
	f.mu.young[string(w.name)] = m
}

// ofLocked returns the metadata of a family.
func (f *families) ofLocked(name string) (m tsdb.Metadata, there bool) {
	if m, there = f.mu.young[name]; !there {
		m, there = f.mu.old[name]
	}
	return m, there
}

// apply gives the series under way the metadata of its family.
func (f *families) apply(q *writeRequest) error {
	state := f.state.Load()
	if state == 0 || !q.needsMetadata(state) {
		return nil
	}
	ls, err := q.labels()
	if err != nil {
		return nil // it was stored, so it has labels
	}
	if m, ok := f.find(ls.Get(labels.MetricName)); ok {
		return q.setMetadata(state, m)
	}
	if s := &q.series; s.key != nil {
		s.entry.meta = state // nothing is stored that could fail
		q.h.known.put(s.hash, s.key, s.entry)
	}
	return nil
}

// suffixes are what the series of a family have behind its name, by kind.
var suffixes = map[tsdb.MetricType][]string{
	tsdb.MetricCounter:        {"_total", "_created"},
	tsdb.MetricHistogram:      {"_bucket", "_count", "_sum", "_created"},
	tsdb.MetricGaugeHistogram: {"_bucket", "_gcount", "_gsum"},
	tsdb.MetricSummary:        {"_count", "_sum", "_created"},
	tsdb.MetricInfo:           {"_info"},
}

// find returns the metadata of the family that a metric belongs to: the one of its name, or the one
// whose kind has series of its name.
func (f *families) find(metric string) (tsdb.Metadata, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if m, ok := f.ofLocked(metric); ok {
		return m, true
	}
	for i := len(metric) - 1; i > 0; i-- {
		if metric[i] != '_' {
			continue
		}
		m, ok := f.ofLocked(metric[:i])
		for _, suffix := range suffixes[m.Type] {
			if ok && suffix == metric[i:] {
				return m, true
			}
		}
		break
	}
	return tsdb.Metadata{}, false
}
