package record

import "github.com/seed347100a3/tsdb/internal/encbuf"

// A metadata record:
//
//	+------+-------------------------------------------------------------------------+
//	| 0x06 | entries until the end: ref uvarint | metric type u8 | n uvarint         |
//	|      |                                    | n x ( name str, value str )        |
//	+------+-------------------------------------------------------------------------+
//
// Of several entries for a series the last one counts. Entries are moved between records
// as they are. Writers name two fields, UNIT and HELP; other names are skipped.

// MetricType is what kind of metric a series is part of. The numbers are those of the log.
type MetricType uint8

// The kinds of metrics.
const (
	MetricUnknown MetricType = iota
	MetricCounter
	MetricGauge
	MetricHistogram
	MetricGaugeHistogram
	MetricSummary
	MetricInfo
	MetricStateset
)

// metricNames are the kinds as the text formats of metrics call them.
var metricNames = [...]string{"unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"}

// String returns the name that text formats have for it; "unknown" where there is none.
func (t MetricType) String() string {
	if int(t) >= len(metricNames) {
		t = MetricUnknown
	}
	return metricNames[t]
}

// MetricTypeOf returns the kind of a name, MetricUnknown where nobody knows it.
func MetricTypeOf(name string) MetricType {
	for i, known := range metricNames {
		if name == known {
			return MetricType(i)
		}
	}
	return MetricUnknown
}

// Metadata is what is known of the metric that a series is part of.
type Metadata struct {
	Type       MetricType
	Unit, Help string
}

// Names of the fields.
const (
	fieldUnit = "UNIT"
	fieldHelp = "HELP"
)

// BeginMetadata starts a metadata record at the end of dst. Entries of AppendMetadata and
// MetadataDecoder follow.
func BeginMetadata(dst []byte) []byte { return append(dst, byte(TypeMetadata)) }

// AppendMetadata appends the entry of one series.
func AppendMetadata(dst []byte, ref uint64, m Metadata) []byte {
	return AppendMetadataValue(encbuf.AppendUvarint(dst, ref), m)
}

// AppendMetadataEntry appends the entry of one series whose value is encoded: one of
// AppendMetadataValue or MetadataDecoder.Value.
//
//go:noinline
func AppendMetadataEntry(dst []byte, ref uint64, value string) []byte {
	return append(encbuf.AppendUvarint(dst, ref), value...)
}

// AppendMetadataValue appends what an entry has behind the ref.
func AppendMetadataValue(dst []byte, m Metadata) []byte {
	dst = append(dst, byte(m.Type))
	dst = encbuf.AppendUvarint(dst, 2)
	dst = encbuf.AppendString(dst, fieldUnit)
	dst = encbuf.AppendString(dst, m.Unit)
	dst = encbuf.AppendString(dst, fieldHelp)
	return encbuf.AppendString(dst, m.Help)
}

// MetadataDecoder is a cursor over a metadata record. The zero value is ready for Reset.
type MetadataDecoder struct {
	d     encbuf.Dec
	ref   uint64
	off   int // where the present entry begins
	value int // and its value
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Err.
func (m *MetadataDecoder) Reset(rec []byte) {
	*m = MetadataDecoder{d: encbuf.NewDec(rec)}
	beginRecord(&m.d, TypeMetadata)
}

// Next moves to the next entry. False means the end of the record or damage, see Err.
func (m *MetadataDecoder) Next() bool {
	if m.d.Len() == 0 {
		return false
	}
	m.off = m.d.Offset()
	m.ref = m.d.Uvarint()
	m.value = m.d.Offset()
	m.d.Byte()
	for range 2 * m.d.Count(minLabelBytes) {
		m.d.Str()
	}
	return m.d.Err() == nil
}

// Ref returns the series' number.
func (m *MetadataDecoder) Ref() uint64 { return m.ref }

// Metadata returns what the present entry says; its strings are copies.
func (m *MetadataDecoder) Metadata() Metadata { return DecodeMetadataValue(m.Value()) }

// Value returns the bytes of the present entry behind its ref. They alias the record.
func (m *MetadataDecoder) Value() []byte { return m.d.Since(m.value) }

// DecodeMetadataValue returns what a value says that a MetadataDecoder has found whole. Strings are
// copies. A type without a name is unknown.
func DecodeMetadataValue(value []byte) Metadata {
	d := encbuf.NewDec(value)
	out := Metadata{Type: MetricType(d.Byte())}
	if out.Type > MetricStateset {
		out.Type = MetricUnknown
	}
	for range d.Count(minLabelBytes) {
		name, value := d.Str(), d.Str()
		switch string(name) {
		case fieldUnit:
			out.Unit = string(value)
		case fieldHelp:
			out.Help = string(value)
		}
	}
	return out
}

// Entry returns the bytes of the present entry. They alias the record.
func (m *MetadataDecoder) Entry() []byte { return m.d.Since(m.off) }

// Err returns nil or the *encbuf.CorruptError that ended the record.
func (m *MetadataDecoder) Err() error { return m.d.Err() }
