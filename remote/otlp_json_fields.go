package remote

import (
	"maps"

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
	jsonNested    // a message of values
	jsonAttribute // a message, of which one thing has many
)

// jsonField is a field of a message, one or many.
type jsonField struct {
	num    protowire.Number
	kind   jsonKind
	fields *jsonFields // of a message
	name   string
}

// jsonFields are those of a message, by both names that they may have: dataPoints and data_points.
type jsonFields map[string]jsonField

// settle gives fields their names, and those of the messages in them.
func (f *jsonFields) settle() *jsonFields {
	for name, field := range maps.Clone(*f) {
		if field.name != "" {
			return f // it is in itself
		}
		field.name = name
		(*f)[name] = field
		var other []byte
		for _, c := range []byte(name) {
			if c >= 'A' && c <= 'Z' {
				other = append(other, '_')
				c += 'a' - 'A'
			}
			other = append(other, c)
		}
		(*f)[string(other)] = field
		if field.fields != nil {
			field.fields.settle()
		}
	}
	return f
}

var otlpFields = func() *jsonFields {
	any, attribute := &jsonFields{}, &jsonFields{}
	message := func(num protowire.Number, fields *jsonFields) jsonField {
		return jsonField{num: num, kind: jsonMessage, fields: fields}
	}
	list := func(num protowire.Number, of *jsonFields) jsonField {
		return jsonField{num: num, kind: jsonNested, fields: &jsonFields{"values": message(1, of)}}
	}
	attributes := func(num protowire.Number) jsonField {
		return jsonField{num: num, kind: jsonAttribute, fields: attribute}
	}
	field := func(num protowire.Number, kind jsonKind) jsonField { return jsonField{num: num, kind: kind} }
	*any = jsonFields{
		"stringValue": field(1, jsonString), "boolValue": field(2, jsonVarint), "intValue": field(3, jsonVarint), "doubleValue": field(4, jsonDouble),
		"arrayValue": list(5, any), "kvlistValue": list(6, attribute), "bytesValue": field(7, jsonBase64),
	}
	*attribute = jsonFields{"key": field(1, jsonString), "value": message(2, any)}
	exemplar := &jsonFields{"filteredAttributes": attributes(7), "timeUnixNano": field(2, jsonFixed), "asDouble": field(3, jsonDouble),
		"asInt": field(6, jsonFixed), "spanId": field(4, jsonHex), "traceId": field(5, jsonHex)}
	point := func(attribute, exemplars, flags protowire.Number, more jsonFields) *jsonFields {
		more["attributes"], more["startTimeUnixNano"], more["timeUnixNano"] = attributes(attribute), field(2, jsonFixed), field(3, jsonFixed)
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
	scope := &jsonFields{"name": field(1, jsonString), "version": field(2, jsonString), "attributes": attributes(3)}
	scopes := &jsonFields{"scope": message(1, scope), "metrics": message(2, metric), "schemaUrl": field(3, jsonString)}
	resource := &jsonFields{"resource": message(1, &jsonFields{"attributes": attributes(1)}), "scopeMetrics": message(2, scopes)}
	return (&jsonFields{"resourceMetrics": message(1, resource)}).settle()
}()
