package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// Requests in JSON become messages before they are decoded: fields have the names of the message in
// camel case, whole numbers may be strings, and ids are in hexadecimal (OTLP specification, "JSON
// Protobuf Encoding"). What is not known is passed over.

// jsonKind is how a value is written.
type jsonKind uint8

const (
	jsonString jsonKind = iota
	jsonHex
	jsonBase64
	jsonVarint // and booleans
	jsonZigZag
	jsonFixed
	jsonDouble
	jsonMessage
)

// jsonField is a field of a message, one or many.
type jsonField struct {
	num    protowire.Number
	kind   jsonKind
	fields *jsonFields // of a message
}

type jsonFields map[string]jsonField

var otlpFields = func() *jsonFields {
	any, attribute := &jsonFields{}, &jsonFields{}
	message := func(num protowire.Number, fields *jsonFields) jsonField { return jsonField{num, jsonMessage, fields} }
	field := func(num protowire.Number, kind jsonKind) jsonField { return jsonField{num: num, kind: kind} }
	*any = jsonFields{
		"stringValue": field(1, jsonString), "boolValue": field(2, jsonVarint), "intValue": field(3, jsonVarint), "doubleValue": field(4, jsonDouble),
		"arrayValue": message(5, &jsonFields{"values": message(1, any)}), "kvlistValue": message(6, &jsonFields{"values": message(1, attribute)}),
		"bytesValue": field(7, jsonBase64),
	}
	*attribute = jsonFields{"key": field(1, jsonString), "value": message(2, any)}
	exemplar := &jsonFields{"filteredAttributes": message(7, attribute), "timeUnixNano": field(2, jsonFixed), "asDouble": field(3, jsonDouble),
		"asInt": field(6, jsonFixed), "spanId": field(4, jsonHex), "traceId": field(5, jsonHex)}
	point := func(attributes, exemplars, flags protowire.Number, more jsonFields) *jsonFields {
		more["attributes"], more["startTimeUnixNano"], more["timeUnixNano"] = message(attributes, attribute), field(2, jsonFixed), field(3, jsonFixed)
		more["flags"] = field(flags, jsonVarint)
		if exemplars > 0 {
			more["exemplars"] = message(exemplars, exemplar)
		}
		return &more
	}
	number := point(7, 5, 8, jsonFields{"asDouble": field(4, jsonDouble), "asInt": field(6, jsonFixed)})
	explicit := point(9, 8, 10, jsonFields{"count": field(4, jsonFixed), "sum": field(5, jsonDouble),
		"bucketCounts": field(6, jsonFixed), "explicitBounds": field(7, jsonDouble)})
	buckets := &jsonFields{"offset": field(1, jsonZigZag), "bucketCounts": field(2, jsonVarint)}
	exponential := point(1, 11, 10, jsonFields{"count": field(4, jsonFixed), "sum": field(5, jsonDouble), "scale": field(6, jsonZigZag),
		"zeroCount": field(7, jsonFixed), "positive": message(8, buckets), "negative": message(9, buckets), "zeroThreshold": field(14, jsonDouble)})
	summary := point(7, 0, 8, jsonFields{"count": field(4, jsonFixed), "sum": field(5, jsonDouble),
		"quantileValues": message(6, &jsonFields{"quantile": field(1, jsonDouble), "value": field(2, jsonDouble)})})
	data := func(points *jsonFields) *jsonFields {
		return &jsonFields{"dataPoints": message(1, points), "aggregationTemporality": field(2, jsonVarint), "isMonotonic": field(3, jsonVarint)}
	}
	metric := &jsonFields{"name": field(1, jsonString), "description": field(2, jsonString), "unit": field(3, jsonString),
		"gauge": message(5, data(number)), "sum": message(7, data(number)), "histogram": message(9, data(explicit)),
		"exponentialHistogram": message(10, data(exponential)), "summary": message(11, data(summary))}
	scope := &jsonFields{"name": field(1, jsonString), "version": field(2, jsonString), "attributes": message(3, attribute)}
	scopes := &jsonFields{"scope": message(1, scope), "metrics": message(2, metric), "schemaUrl": field(3, jsonString)}
	resource := &jsonFields{"resource": message(1, &jsonFields{"attributes": message(1, attribute)}), "scopeMetrics": message(2, scopes)}
	return &jsonFields{"resourceMetrics": message(1, resource)}
}()

// maxJSONDepth bounds arrays of arrays of values.
const maxJSONDepth = 64

// appendJSON appends the message of a request in JSON, of at most so many bytes.
func appendJSON(dst, text []byte, limit int) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	token, err := d.Token()
	if err == nil && token == json.Delim('{') {
		j := jsonDecoder{d, limit}
		if dst, err = j.message(dst, otlpFields, 0); err == nil {
			if _, err = d.Token(); err == io.EOF {
				return dst, nil
			}
			err = errors.New("something behind the end")
		}
	} else if err == nil {
		err = errors.New("no object")
	}
	if isAny(err, errMalformed, errBodyLimit) {
		return dst, err
	}
	return dst, errors.WithMessagef(errMalformed, "JSON: %v, at byte %d", err, d.InputOffset())
}

type jsonDecoder struct {
	*json.Decoder
	limit int // bytes of a message
}

// field returns what is known of a name, which may be that of the message as well: data_points.
func (f *jsonFields) field(name string) (jsonField, bool) {
	known, ok := (*f)[name]
	if ok || !strings.Contains(name, "_") {
		return known, ok
	}
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	known, ok = (*f)[strings.Join(words, "")]
	return known, ok
}

// message appends the fields of an object whose { was read, up to its }.
func (d jsonDecoder) message(dst []byte, fields *jsonFields, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return dst, errors.WithMessagef(errMalformed, "JSON: more than %d levels", maxJSONDepth)
	}
	for {
		token, err := d.Token()
		if err != nil {
			return dst, err
		}
		name, ok := token.(string)
		if !ok {
			return dst, nil // the }
		}
		if len(dst) > d.limit {
			return dst, errors.WithMessagef(errBodyLimit, "%d bytes", d.limit)
		}
		f, known := fields.field(name)
		if !known {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return dst, err
			}
			continue
		}
		if token, err = d.Token(); err != nil {
			return dst, err
		}
		if token != json.Delim('[') {
			if dst, err = d.value(dst, &f, name, token, depth); err != nil {
				return dst, err
			}
			continue
		}
		for {
			if token, err = d.Token(); err != nil {
				return dst, err
			}
			if token == json.Delim(']') {
				break
			}
			if dst, err = d.value(dst, &f, name, token, depth); err != nil {
				return dst, err
			}
			if len(dst) > d.limit {
				return dst, errors.WithMessagef(errBodyLimit, "%d bytes", d.limit)
			}
		}
	}
}

// value appends a field whose first token was read.
func (d jsonDecoder) value(dst []byte, f *jsonField, name string, token json.Token, depth int) ([]byte, error) {
	if token == nil {
		return dst, nil // null: it is not there
	}
	if f.kind == jsonMessage {
		if token != json.Delim('{') {
			return dst, errors.Errorf("%s: no object", name)
		}
		message, err := d.message(nil, f.fields, depth+1)
		return protowire.AppendBytes(protowire.AppendTag(dst, f.num, protowire.BytesType), message), err
	}
	if _, is := token.(json.Delim); is {
		return dst, errors.Errorf("%s: no simple value", name)
	}
	dst, err := f.append(dst, token)
	return dst, errors.WithMessage(err, name)
}

// append appends a field of a simple value: a string, a number or a boolean.
func (f *jsonField) append(dst []byte, token json.Token) ([]byte, error) {
	var text string
	switch v := token.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = "0"
		if v {
			text = "1"
		}
	}
	switch f.kind {
	case jsonString, jsonHex, jsonBase64:
		b, err := []byte(text), error(nil)
		if _, is := token.(string); !is {
			err = errors.New("no string")
		} else if f.kind == jsonHex {
			b, err = hex.DecodeString(text) // its errors are short
		} else if f.kind == jsonBase64 {
			b, err = base64.StdEncoding.DecodeString(text)
		}
		return protowire.AppendBytes(protowire.AppendTag(dst, f.num, protowire.BytesType), b), err
	case jsonDouble:
		v, err := strconv.ParseFloat(text, 64) // reads NaN and Infinity, too
		if err != nil {
			err = errors.Errorf("%.40q is no number", text)
		}
		return protowire.AppendFixed64(protowire.AppendTag(dst, f.num, protowire.Fixed64Type), math.Float64bits(v)), err
	default:
		v, err := wholeNumber(text)
		switch f.kind {
		case jsonFixed:
			return protowire.AppendFixed64(protowire.AppendTag(dst, f.num, protowire.Fixed64Type), v), err
		case jsonZigZag:
			v = protowire.EncodeZigZag(int64(v))
		}
		return protowire.AppendVarint(protowire.AppendTag(dst, f.num, protowire.VarintType), v), err
	}
}

// wholeNumber reads one with 64 bits, with a sign or without. It may be written as 1e3 or 1.0.
func wholeNumber(text string) (uint64, error) {
	if v, err := strconv.ParseUint(text, 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return uint64(v), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return 0, errors.Errorf("%.40q is no whole number", text)
	}
	return uint64(int64(v)), nil
}
