package remote

import (
	"math"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxSymbols bounds the symbols of a request. One of two thousand series has some thousand.
const maxSymbols = 1 << 20

// writeMessageV2 decodes Request of 2.0:
//
//	4 symbols repeated string   5 timeseries repeated TimeSeries
type writeMessageV2 struct {
	content []byte  // of the request under way
	symbols []place // in content
	refs    []uint32
	// named is what the series under way is known by: keyV2, and its labels in the order in which
	// they are sent.
	named []byte
}

// keyV2 is in front of keys of 2.0. None of 1.0 begins so: a message cannot.
const keyV2 = 0xff

// decode implements writeMessage.
func (m *writeMessageV2) decode(q *writeRequest) error {
	m.content = q.content
	if err := m.readSymbols(q); err != nil {
		return err
	}
	r := readFields(q.content)
	for r.next() {
		switch r.num {
		case 1, 3: // of 1.0
			if r.typ == protowire.BytesType {
				return errBothVersions
			}
		case 5:
			if err := m.series(q, r.bytes()); err != nil {
				return err
			}
		}
	}
	return r.err
}

// readSymbols notes where the symbols are. They may stand anywhere.
func (m *writeMessageV2) readSymbols(q *writeRequest) error {
	m.symbols = m.symbols[:0]
	r := readFields(q.content)
	for r.next() {
		if r.num != 4 {
			continue
		}
		if len(m.symbols) == maxSymbols {
			return errors.WithMessagef(errLimit, "more than %d symbols", maxSymbols)
		}
		m.symbols = append(m.symbols, q.place(r.bytes()))
	}
	return r.err
}

// symbol returns the text of a reference.
func (m *writeMessageV2) symbol(ref uint32) ([]byte, error) {
	if int64(ref) >= int64(len(m.symbols)) {
		return nil, errors.WithMessagef(errReference, "reference %d, there are %d symbols", ref, len(m.symbols))
	}
	p := m.symbols[ref]
	return m.content[p.at:][:p.size], nil
}

// series hands over a TimeSeries message:
//
//	1 labels_refs repeated uint32   3 histograms repeated Histogram   5 metadata Metadata
//	2 samples     repeated Sample   4 exemplars  repeated Exemplar
func (m *writeMessageV2) series(q *writeRequest, message []byte) error {
	m.refs = m.refs[:0]
	var metadata []byte
	var items [itemKinds]int
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			m.refs = appendRefs(m.refs, &r)
		case 2:
			items[itemSample]++
		case 3:
			items[itemHistogram]++
		case 4:
			items[itemExemplar]++
		case 5:
			metadata = r.bytes()
		}
	}
	if r.err != nil {
		return r.err
	}
	var about wireMetadata
	err := about.read(metadata)
	if err != nil {
		return err
	}
	var key []byte
	if m.named, err = m.encode(append(m.named[:0], keyV2)); err == nil {
		key = keyOf(m.named)
		err = about.resolve(m)
	}
	// Symbols are sent once, and each series that has one takes its time.
	texts := len(m.named)/bytesOfWeight + (len(about.help)+len(about.unit))/bytesOfWeight
	if err := q.load.add(weight(texts), len(m.named)); err != nil {
		return err
	}
	if err := q.open(message, key); err != nil {
		return err
	}
	if err == nil && items == ([itemKinds]int{}) {
		err = errNoSamples
	}
	if err != nil {
		q.refuseSeries(itemSeries, err)
		for kind, n := range items {
			q.refused.counts[kind][q.series.why] += n
		}
		return nil
	}
	if err := m.items(q, message); err != nil {
		return err
	}
	return about.apply(q)
}

// key implements writeMessage.
func (m *writeMessageV2) key(message []byte) (key []byte) {
	var err error
	if m.named, err = m.appendLabels(append(m.named[:0], keyV2), message); err == nil {
		key = keyOf(m.named)
	}
	return key
}

// items hands over what a TimeSeries has.
func (m *writeMessageV2) items(q *writeRequest, message []byte) (err error) {
	starts := !q.h.opts.NoStartTimestamps
	r := readFields(message)
	for r.next() && err == nil {
		switch r.num {
		case 2:
			err = q.float(r.bytes(), starts)
		case 3:
			err = q.histogram(r.bytes(), starts)
		case 4:
			err = q.exemplar(r.bytes(), true)
		}
	}
	if err == nil {
		err = r.err
	}
	return err
}

// appendRefs reads references, packed or one by one, of which more than are allowed are left out.
func appendRefs(dst []uint32, r *fieldReader) []uint32 {
	if r.typ == protowire.VarintType {
		if len(dst) <= 2*maxWireLabels {
			dst = append(dst, wireRef(r.v))
		}
		return dst
	}
	for b := r.bytes(); len(b) > 0; {
		if b[0] < 0x80 {
			dst, b = append(dst, uint32(b[0])), b[1:]
		} else {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				r.malformed("a reference is")
				return dst
			}
			dst, b = append(dst, wireRef(v)), b[n:]
		}
		if len(dst) > 2*maxWireLabels {
			break
		}
	}
	return dst
}

// wireRef makes a number that no symbol has of one that is none.
func wireRef(v uint64) uint32 { return uint32(min(v, math.MaxUint32)) }

// encode appends the labels of m.refs in the form of package labels.
func (m *writeMessageV2) encode(dst []byte) ([]byte, error) {
	switch {
	case len(m.refs) > 2*maxWireLabels:
		return dst, errors.WithMessagef(errSeriesLimit, "more than %d labels", maxWireLabels)
	case len(m.refs)%2 != 0:
		return dst, errors.WithMessagef(errOddLabels, "%d", len(m.refs))
	}
	from := len(dst)
	for i := 0; i < len(m.refs); i += 2 {
		name, err := m.symbol(m.refs[i])
		if err != nil {
			return dst, err
		}
		value, err := m.symbol(m.refs[i+1])
		if err != nil {
			return dst, err
		}
		if len(dst)-from+len(name)+len(value) > maxWireLabelBytes {
			return dst, errors.WithMessagef(errSeriesLimit, "labels of more than %d bytes", maxWireLabelBytes)
		}
		dst = appendEncodedLabel(dst, name, value)
	}
	return dst, nil
}

// appendLabels implements writeMessage. TimeSeries and Exemplar have references in the same field.
func (m *writeMessageV2) appendLabels(dst, message []byte) ([]byte, error) {
	m.refs = m.refs[:0]
	r := readFields(message)
	for r.next() {
		if r.num == 1 {
			m.refs = appendRefs(m.refs, &r)
		}
	}
	if r.err != nil {
		return dst, r.err
	}
	return m.encode(dst)
}
