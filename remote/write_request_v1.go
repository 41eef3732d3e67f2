package remote

import (
	"encoding/binary"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of the labels of one series or exemplar, beside those of the database.
const (
	maxWireLabels     = 4096
	maxWireLabelBytes = 1 << 20
)

// writeMessageV1 decodes WriteRequest of 1.0:
//
//	1 timeseries repeated TimeSeries   3 metadata repeated MetricMetadata
type writeMessageV1 struct{}

// decode implements writeMessage.
func (m *writeMessageV1) decode(q *writeRequest) error {
	r := readFields(q.content)
	for r.next() {
		switch r.num {
		case 1:
			if err := m.series(q, r.bytes()); err != nil {
				return err
			}
		case 3:
			if err := q.family(r.bytes()); err != nil {
				return err
			}
		case 4, 5: // of 2.0
			if r.typ == protowire.BytesType {
				return errBothVersions
			}
		}
	}
	return r.err
}

// series hands over a TimeSeries message:
//
//	1 labels  repeated Label    3 exemplars  repeated Exemplar
//	2 samples repeated Sample   4 histograms repeated Histogram
func (m *writeMessageV1) series(q *writeRequest, message []byte) error {
	key, err := labelsInFront(message)
	if err == nil {
		err = q.open(message, keyOf(key))
	}
	if err != nil {
		return err
	}
	r := readFields(message)
	for r.next() && err == nil {
		switch r.num {
		case 2:
			err = q.float(r.bytes(), false)
		case 3:
			err = q.exemplar(r.bytes(), false)
		case 4:
			err = q.histogram(r.bytes(), false)
		}
	}
	if err == nil {
		err = r.err
	}
	if err == nil {
		err = q.h.families.apply(q)
	}
	return err
}

// key implements writeMessage.
func (m *writeMessageV1) key(message []byte) []byte {
	key, _ := labelsInFront(message) // as it was decoded before
	return keyOf(key)
}

// labelsInFront returns the labels of a TimeSeries as they are sent, if they stand in front, as
// they do of all senders; else none. What is behind them is looked at, because labels may stand
// there.
func labelsInFront(message []byte) ([]byte, error) {
	r := readFields(message)
	end, inFront := 0, true
	for r.next() {
		if r.num != 1 {
			inFront = false
			continue
		}
		if !inFront {
			return nil, nil
		}
		end = len(message) - len(r.rest)
	}
	return message[:end:end], r.err
}

// appendLabels implements writeMessage.
func (m *writeMessageV1) appendLabels(dst, message []byte) ([]byte, error) {
	from, n := len(dst), 0
	r := readFields(message)
	for r.next() {
		if r.num != 1 {
			continue
		}
		name, value, err := readPair(r.bytes())
		if err != nil {
			return dst, errors.WithMessage(err, "label")
		}
		if n++; n > maxWireLabels || len(dst)-from+len(name)+len(value) > maxWireLabelBytes {
			return dst, errors.WithMessagef(errSeriesLimit, "more than %d labels or %d bytes of them", maxWireLabels, maxWireLabelBytes)
		}
		dst = appendEncodedLabel(dst, name, value)
	}
	return dst, r.err
}

// appendEncodedLabel appends a label in the form of package labels.
func appendEncodedLabel(dst, name, value []byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(name))), name...)
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}
