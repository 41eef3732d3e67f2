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
func (w *wireMetadata) apply(q *writeRequest) {
	if q.h.opts.NoMetadata || w.typ == 0 && len(w.help) == 0 && len(w.unit) == 0 {
		return
	}
	var sum maphash.Hash
	sum.SetSeed(q.h.known[writeV2].seed)
	_ = sum.WriteByte(byte(w.typ))
	_, _ = sum.Write(w.help)
	_ = sum.WriteByte(0)
	_, _ = sum.Write(w.unit)
	state := uint32(sum.Sum64()) | 1
	if q.needsMetadata(state) {
		q.setMetadata(state, tsdb.Metadata{Type: metricType(w.typ), Help: string(w.help), Unit: string(w.unit)})
	}
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
// no sample: the protocol has no number for it.
func (q *writeRequest) setMetadata(state uint32, m tsdb.Metadata) {
	s := &q.series
	if _, err := q.app.SetMetadata(s.entry.ref, labels.Labels{}, m); err != nil {
		q.h.opts.Logger.Debug("metadata of a remote write left out", "series", s.entry.ref, "error", logged(err))
	}
	q.noteMetadata(state)
}

func (q *writeRequest) noteMetadata(state uint32) {
	s := &q.series
	s.entry.meta = state
	if s.key != nil {
		s.known.put(s.hash, s.key, s.entry)
	}
}

// Bounds of the families of 1.0. Above them families are not taken.
const (
	maxFamilies    = 1 << 16
	maxFamilyBytes = 16 << 20 // of all together
)

// families are the metadata of 1.0, which is about metric families: senders give it in requests of
// their own, once a minute, and a series gets it with its next sample.
type families struct {
	mu struct {
		sync.RWMutex
		of    map[string]tsdb.Metadata
		bytes int
	}
	state atomic.Uint32 // changes with of
}

// read reads a MetricMetadata message:
//
//	1 type enum   2 metric_family_name string   4 help string   5 unit string
func (f *families) read(message []byte) error {
	var typ uint64
	var family, help, unit []byte
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			typ = r.varint()
		case 2:
			family = r.bytes()
		case 4:
			help = r.bytes()
		case 5:
			unit = r.bytes()
		}
	}
	if r.err != nil {
		return errors.WithMessage(r.err, "metadata")
	}
	f.mu.RLock()
	old, there := f.mu.of[string(family)]
	f.mu.RUnlock()
	if !there || old.Type != metricType(typ) || old.Help != string(help) || old.Unit != string(unit) {
		f.set(string(family), tsdb.Metadata{Type: metricType(typ), Help: string(help), Unit: string(unit)})
	}
	return nil
}

func (f *families) set(family string, m tsdb.Metadata) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, there := f.mu.of[family]
	grown := len(m.Help) + len(m.Unit) - len(old.Help) - len(old.Unit)
	if !there {
		grown += len(family)
	}
	if f.mu.bytes+grown > maxFamilyBytes || !there && len(f.mu.of) == maxFamilies {
		return
	}
	f.mu.bytes += grown
	f.mu.of[family] = m
	f.state.Add(1)
}

// apply gives the series under way the metadata of its family.
func (f *families) apply(q *writeRequest) {
	state := f.state.Load()
	if state == 0 || !q.needsMetadata(state) {
		return
	}
	ls, err := q.labels()
	if err != nil {
		return // it was stored, so it has labels
	}
	if m, ok := f.find(ls.Get(labels.MetricName)); ok {
		q.setMetadata(state, m)
	} else {
		q.noteMetadata(state)
	}
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
	if m, ok := f.mu.of[metric]; ok {
		return m, true
	}
	for i := len(metric) - 1; i > 0; i-- {
		if metric[i] != '_' {
			continue
		}
		m, ok := f.mu.of[metric[:i]]
		for _, suffix := range suffixes[m.Type] {
			if ok && suffix == metric[i:] {
				return m, true
			}
		}
		break
	}
	return tsdb.Metadata{}, false
}
