package blockdir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// EncodeMeta returns the bytes of a meta file: the bytes that the reference writes, if
// there are no unknown fields.
func EncodeMeta(m Meta) ([]byte, error) {
	b := appendJSON(appendName([]byte{'{'}, "ulid"), m.ULID.String())
	b = strconv.AppendInt(appendName(b, "minTime"), m.MinTime, 10)
	b = strconv.AppendInt(appendName(b, "maxTime"), m.MaxTime, 10)
	b, err := appendExtra(appendStats(appendName(b, "stats"), &m.Stats), m.Extra.Stats)
	if err != nil {
		return nil, err
	}
	b, err = appendExtra(appendCompaction(appendName(append(b, '}'), "compaction"), &m.Compaction), m.Extra.Compaction)
	if err != nil {
		return nil, err
	}
	b = strconv.AppendInt(appendName(append(b, '}'), "version"), int64(m.Version), 10)
	b, err = appendExtra(b, m.Extra.Meta)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append(b, '}'), "", "\t"); err != nil {
		return nil, errors.Wrap(err, "indent meta file")
	}
	return out.Bytes(), nil
}

// appendStats writes an object that is not closed.
func appendStats(b []byte, s *Stats) []byte {
	b = append(b, '{')
	for _, f := range s.fields() {
		if *f.count > 0 {
			b = strconv.AppendUint(appendName(b, f.name), *f.count, 10)
		}
	}
	return b
}

// statsField is one of the counts by its name in the file.
type statsField struct {
	name  string
	count *uint64
}

//go:noinline
func (s *Stats) fields() [6]statsField {
	return [...]statsField{
		{"numSamples", &s.NumSamples},
		{"numFloatSamples", &s.NumFloatSamples},
		{"numHistogramSamples", &s.NumHistogramSamples},
		{"numSeries", &s.NumSeries},
		{"numChunks", &s.NumChunks},
		{"numTombstones", &s.NumTombstones},
	}
}

// appendCompaction writes an object that is not closed.
func appendCompaction(b []byte, c *Compaction) []byte {
	b = strconv.AppendInt(appendName(append(b, '{'), "level"), int64(c.Level), 10)
	sources := make([]string, len(c.Sources))
	for i, id := range c.Sources {
		sources[i] = id.String()
	}
	b = appendStrings(b, "sources", sources)
	b = appendTrue(b, "deletable", c.Deletable)
	for i, p := range c.Parents {
		if i == 0 {
			b = append(appendName(b, "parents"), '[')
		} else {
			b = append(b, ',')
		}
		b = appendJSON(appendName(append(b, '{'), "ulid"), p.ULID.String())
		b = strconv.AppendInt(appendName(b, "minTime"), p.MinTime, 10)
		b = strconv.AppendInt(appendName(b, "maxTime"), p.MaxTime, 10)
		b = append(b, '}')
	}
	if len(c.Parents) > 0 {
		b = append(b, ']')
	}
	b = appendTrue(b, "failed", c.Failed)
	return appendStrings(b, "hints", c.Hints)
}

func appendTrue(b []byte, name string, value bool) []byte {
	if !value {
		return b
	}
	return append(appendName(b, name), "true"...)
}

// DecodeMeta reads a meta file. Damage is an *encbuf.CorruptError without the file's
// name; a version above 2 is ErrUnsupportedVersion.
func DecodeMeta(b []byte) (Meta, error) {
	var m Meta
	if off, err := checkJSON(b); err != nil {
		return Meta{}, encbuf.Corrupt(off, "meta file is no JSON: "+err.Error())
	}
	var d metaDecoder
	top := d.object((&jsonCursor{text: b}).value(), "what stands")
	if version, ok := take(top, "version"); ok {
		m.Version = int(d.int(version, "version", strconv.IntSize))
	}
	if d.err == nil && m.Version > metaVersionBug {
		return Meta{}, errors.WithMessagef(ErrUnsupportedVersion, "meta file has version %d", m.Version)
	}
	if m.Version < metaVersion { // nobody ever wrote one: what is there is not what was written
		d.fail(fmt.Sprintf("meta file has no version, or %d, which there never was", m.Version))
	}
	m.ULID = d.ulid(d.required(top, "ulid"))
	m.MinTime = d.int(d.required(top, "minTime"), "minTime", 64)
	m.MaxTime = d.int(d.required(top, "maxTime"), "maxTime", 64)
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
// would take MINTIME for minTime, and an unknown field for a known one.
type metaDecoder struct {
	err error
}

//go:noinline
func (d *metaDecoder) fail(reason string) {
	if d.err == nil {
		d.err = encbuf.Corrupt(0, reason)
	}
}

// wrong says that a value is there, but is not one of its kind.
//
//go:noinline
func (d *metaDecoder) wrong(what, want string) { d.fail(what + " in the meta file is not " + want) }

func (d *metaDecoder) int(raw json.RawMessage, what string, bits int) int64 {
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil {
		d.wrong(what, "a whole number of that size")
	}
	return n
}

func (d *metaDecoder) count(raw json.RawMessage, what string) uint64 {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		d.wrong(what, "a number of things")
	}
	return n
}

func (d *metaDecoder) bool(raw json.RawMessage, what string) bool {
	if string(raw) != "true" && string(raw) != "false" {
		d.wrong(what, "true or false")
	}
	return string(raw) == "true"
}

// string takes null for no text.
func (d *metaDecoder) string(raw json.RawMessage, what string) string {
	text, ok := unquoteJSON(raw)
	if !ok && string(raw) != "null" {
		d.wrong(what, "a string")
	}
	return text
}

func (d *metaDecoder) list(raw json.RawMessage, what string) []json.RawMessage {
	list, ok := splitList(raw)
	if !ok {
		d.wrong(what, "a list")
	}
	return list
}

// object returns the fields of an object, none of null.
func (d *metaDecoder) object(raw json.RawMessage, what string) map[string]json.RawMessage {
	if d.err != nil || string(raw) == "null" {
		return nil
	}
	fields, ok := splitObject(raw)
	if !ok {
		d.wrong(what, "an object")
	}
	return fields
}

// take removes a field from an object and returns it. null is as good as no field.
//
//go:noinline
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
	text := d.string(raw, "ulid")
	id, ok := ParseName(text)
	if !ok {
		d.fail(fmt.Sprintf("%q in the meta file is not a ULID", text))
	}
	return id
}

func (d *metaDecoder) stats(raw json.RawMessage, s *Stats) map[string]json.RawMessage {
	fields := d.object(raw, "stats")
	for _, f := range s.fields() {
		if v, ok := take(fields, f.name); ok {
			*f.count = d.count(v, f.name)
		}
	}
	return rest(fields)
}

func (d *metaDecoder) compaction(raw json.RawMessage, c *Compaction) map[string]json.RawMessage {
	fields := d.object(raw, "compaction")
	if v, ok := take(fields, "level"); ok {
		c.Level = int(d.int(v, "level", strconv.IntSize))
	}
	if v, ok := take(fields, "deletable"); ok {
		c.Deletable = d.bool(v, "deletable")
	}
	if v, ok := take(fields, "failed"); ok {
		c.Failed = d.bool(v, "failed")
	}
	elements := func(name string) []json.RawMessage {
		v, ok := take(fields, name)
		if !ok {
			return nil
		}
		return d.list(v, name)
	}
	for _, v := range elements("sources") {
		c.Sources = append(c.Sources, d.ulid(v))
	}
	for _, v := range elements("parents") {
		c.Parents = append(c.Parents, d.parent(v))
	}
	for _, v := range elements("hints") {
		c.Hints = append(c.Hints, d.string(v, "hint"))
	}
	c.Hints = slices.Clip(c.Hints)
	return rest(fields)
}

// parent decodes one of the parents. Unknown fields of it are not kept: nobody has any.
func (d *metaDecoder) parent(raw json.RawMessage) Parent {
	var p Parent
	fields := d.object(raw, "parents")
	p.ULID = d.ulid(d.required(fields, "ulid"))
	p.MinTime = d.int(d.required(fields, "minTime"), "minTime", 64)
	p.MaxTime = d.int(d.required(fields, "maxTime"), "maxTime", 64)
	return p
}
