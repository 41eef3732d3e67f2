package blockdir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// jsonMeta and those below give the known fields in the order in which the reference
// writes them.
type jsonMeta struct {
	ULID       string          `json:"ulid"`
	MinTime    int64           `json:"minTime"`
	MaxTime    int64           `json:"maxTime"`
	Stats      json.RawMessage `json:"stats"`
	Compaction json.RawMessage `json:"compaction"`
	Version    int             `json:"version"`
}

type jsonCompaction struct {
	Level     int          `json:"level"`
	Sources   []string     `json:"sources,omitempty"`
	Deletable bool         `json:"deletable,omitempty"`
	Parents   []jsonParent `json:"parents,omitempty"`
	Failed    bool         `json:"failed,omitempty"`
	Hints     []string     `json:"hints,omitempty"`
}

type jsonParent struct {
	ULID    string `json:"ulid"`
	MinTime int64  `json:"minTime"`
	MaxTime int64  `json:"maxTime"`
}

// EncodeMeta returns the bytes of a meta file: the bytes that the reference writes, if
// there are no unknown fields.
func EncodeMeta(m Meta) ([]byte, error) {
	stats, err := object(m.Stats, m.Extra.Stats)
	if err != nil {
		return nil, err
	}
	c := jsonCompaction{
		Level:     m.Compaction.Level,
		Deletable: m.Compaction.Deletable,
		Failed:    m.Compaction.Failed,
		Hints:     m.Compaction.Hints,
	}
	for _, id := range m.Compaction.Sources {
		c.Sources = append(c.Sources, id.String())
	}
	for _, p := range m.Compaction.Parents {
		c.Parents = append(c.Parents, jsonParent{p.ULID.String(), p.MinTime, p.MaxTime})
	}
	compaction, err := object(c, m.Extra.Compaction)
	if err != nil {
		return nil, err
	}
	all, err := object(jsonMeta{m.ULID.String(), m.MinTime, m.MaxTime, stats, compaction, m.Version}, m.Extra.Meta)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, all, "", "\t"); err != nil {
		return nil, errors.Wrap(err, "indent meta file")
	}
	return out.Bytes(), nil
}

// object returns known as an object with the fields of extra behind its own.
func object(known any, extra map[string]json.RawMessage) ([]byte, error) {
	b, err := json.Marshal(known)
	if err != nil {
		return nil, errors.Wrap(err, "encode meta file")
	}
	if len(extra) == 0 {
		return b, nil
	}
	more, err := json.Marshal(extra) // by name
	if err != nil {
		return nil, errors.Wrap(err, "encode unknown fields of meta file")
	}
	if len(b) == len("{}") {
		return more, nil
	}
	b[len(b)-1] = ','
	return append(b, more[1:]...), nil
}

// DecodeMeta reads a meta file. Damage is an *encbuf.CorruptError without the file's
// name; another version than 1 and 2 is ErrUnsupportedVersion.
func DecodeMeta(b []byte) (Meta, error) {
	var m Meta
	d := metaDecoder{input: b}
	top := d.object(b, "meta file")
	if version, ok := take(top, "version"); ok {
		d.value(version, "version", &m.Version)
	}
	if d.err == nil && m.Version != metaVersion && m.Version != metaVersionBug {
		return Meta{}, errors.WithMessagef(ErrUnsupportedVersion, "meta file has version %d", m.Version)
	}
	m.ULID = d.ulid(d.required(top, "ulid"))
	d.value(d.required(top, "minTime"), "minTime", &m.MinTime)
	d.value(d.required(top, "maxTime"), "maxTime", &m.MaxTime)
	if raw, ok := take(top, "stats"); ok {
		m.Extra.Stats = d.stats(raw, &m.Stats)
	}
	if raw, ok := take(top, "compaction"); ok {
		m.Extra.Compaction = d.compaction(raw, &m.Compaction)
	}
	m.Extra.Meta = rest(top)
	if m.MinTime > m.MaxTime {
		d.fail(fmt.Sprintf("minTime %d is behind maxTime %d", m.MinTime, m.MaxTime))
	}
	if d.err != nil {
		return Meta{}, d.err
	}
	return m, nil
}

// metaDecoder keeps the first error. Names of fields count letter by letter: package json
// alone would take MINTIME for minTime, and an unknown field for a known one.
type metaDecoder struct {
	input []byte
	err   error
}

func (d *metaDecoder) fail(reason string) {
	if d.err == nil {
		d.err = encbuf.Corrupt(0, reason)
	}
}

// value decodes raw into dst. The offset of damage is known for bad syntax only.
func (d *metaDecoder) value(raw json.RawMessage, what string, dst any) {
	if d.err != nil {
		return
	}
	err := json.Unmarshal(raw, dst)
	if err == nil {
		return
	}
	off := 0
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		off = int(min(syntax.Offset, int64(len(d.input))))
	}
	d.err = encbuf.Corrupt(off, what+" is not what a meta file has: "+err.Error())
}

func (d *metaDecoder) object(raw json.RawMessage, what string) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	d.value(raw, what, &fields)
	return fields
}

// take removes a field from an object and returns it. null is as good as no field.
func take(fields map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	raw, ok := fields[name]
	delete(fields, name)
	return raw, ok && string(raw) != "null"
}

func (d *metaDecoder) required(fields map[string]json.RawMessage, name string) json.RawMessage {
	raw, ok := take(fields, name)
	if !ok {
		d.fail("meta file has no " + name)
	}
	return raw // nil, or null: the first error stays
}

// rest returns what is left of an object, nil for nothing.
func rest(fields map[string]json.RawMessage) map[string]json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

func (d *metaDecoder) ulid(raw json.RawMessage) ulid.ULID {
	var text string
	d.value(raw, "ulid", &text)
	return d.parseULID(text)
}

func (d *metaDecoder) parseULID(text string) ulid.ULID {
	id, ok := ParseName(text)
	if !ok {
		d.fail(fmt.Sprintf("%q in the meta file is not a ULID", text))
	}
	return id
}

func (d *metaDecoder) stats(raw json.RawMessage, s *Stats) map[string]json.RawMessage {
	fields := d.object(raw, "stats")
	for _, f := range []struct {
		name string
		dst  *uint64
	}{
		{"numSamples", &s.NumSamples},
		{"numFloatSamples", &s.NumFloatSamples},
		{"numHistogramSamples", &s.NumHistogramSamples},
		{"numSeries", &s.NumSeries},
		{"numChunks", &s.NumChunks},
		{"numTombstones", &s.NumTombstones},
	} {
		if v, ok := take(fields, f.name); ok {
			d.value(v, f.name, f.dst)
		}
	}
	return rest(fields)
}

func (d *metaDecoder) compaction(raw json.RawMessage, c *Compaction) map[string]json.RawMessage {
	fields := d.object(raw, "compaction")
	var sources []string
	var parents []json.RawMessage
	for _, f := range []struct {
		name string
		dst  any
	}{
		{"level", &c.Level},
		{"sources", &sources},
		{"deletable", &c.Deletable},
		{"parents", &parents},
		{"failed", &c.Failed},
		{"hints", &c.Hints},
	} {
		if v, ok := take(fields, f.name); ok {
			d.value(v, f.name, f.dst)
		}
	}
	for _, text := range sources {
		c.Sources = append(c.Sources, d.parseULID(text))
	}
	for _, raw := range parents {
		c.Parents = append(c.Parents, d.parent(raw))
	}
	c.Hints = slices.Clip(c.Hints)
	return rest(fields)
}

// parent decodes one of the parents. Unknown fields of it are not kept: nobody has any.
func (d *metaDecoder) parent(raw json.RawMessage) Parent {
	var p Parent
	fields := d.object(raw, "parents")
	p.ULID = d.ulid(d.required(fields, "ulid"))
	d.value(d.required(fields, "minTime"), "minTime", &p.MinTime)
	d.value(d.required(fields, "maxTime"), "maxTime", &p.MaxTime)
	return p
}
