package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// attribute is one of a resource, a scope, a point or an exemplar; its name as it was sent, or as
// that of a label. Both parts alias the request, or the text of attributes.
type attribute struct{ name, value []byte }

// Bounds of the attributes of one thing.
const (
	maxAttributes      = 512
	maxAttributesBytes = 64 << 10 // of names and values, as they are sent
)

// attributes are a list, and the text of those that were not sent as they are.
type attributes struct {
	list  []attribute
	text  []byte
	sent  int   // bytes
	large error // there were more than are taken; the others were left out
}

func (a *attributes) reset() {
	clear(a.list)
	a.list, a.text, a.sent, a.large = a.list[:0], a.text[:0], 0, nil
}

// read adds a KeyValue message. An error is about the whole request:
//
//	1 key string   2 value AnyValue
func (a *attributes) read(message []byte) error {
	if a.sent += len(message); a.sent > maxAttributesBytes || len(a.list) == maxAttributes {
		a.large = errors.WithMessagef(errSeriesLimit, "more than %d attributes or %d bytes of them", maxAttributes, maxAttributesBytes)
		return nil
	}
	name, value, err := readPair(message)
	if err != nil {
		return errors.WithMessage(err, "attribute")
	}
	from := len(a.text)
	text, sent, err := appendAnyValue(a.text, value)
	if errors.Is(err, errValueDepth) {
		a.large = err
		return nil
	}
	if err != nil {
		return errors.WithMessagef(err, "attribute %.100q", name)
	}
	if a.text = text; sent == nil {
		sent = text[from:len(text):len(text)]
	}
	a.list = append(a.list, attribute{name, sent})
	return nil
}

// appendAnyValue appends the text of an AnyValue message, or returns that of a string as it was
// sent:
//
//	1 string_value   2 bool_value   3 int_value int64   4 double_value
//	5 array_value    6 kvlist_value   7 bytes_value
func appendAnyValue(dst, message []byte) (_, sent []byte, _ error) {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			sent = r.bytes()
		case 2:
			dst, sent = strconv.AppendBool(dst, r.varint() != 0), nil
		case 3:
			dst, sent = strconv.AppendInt(dst, int64(r.varint()), 10), nil
		case 4:
			dst, sent = appendJSONFloat(dst, math.Float64frombits(r.fixed64())), nil
		case 5, 6:
			v, err := jsonValue(message, 0)
			if err != nil {
				return dst, nil, err
			}
			text := bytes.NewBuffer(dst)
			as := json.NewEncoder(text)
			as.SetEscapeHTML(false)
			if err := as.Encode(v); err != nil {
				return dst, nil, nil // a number in it is none that JSON has
			}
			return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil, nil
		case 7:
			dst, sent = base64.StdEncoding.AppendEncode(dst, r.bytes()), nil
		}
	}
	return dst, sent, r.err
}

// appendJSONFloat appends a number as JSON has it; others as words.
func appendJSONFloat(dst []byte, v float64) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	first := len(dst)
	dst = strconv.AppendFloat(dst, v, format, -1, 64)
	if n := len(dst); format == 'e' && n-first > 4 && dst[n-4] == 'e' && dst[n-2] == '0' { // e-09 is e-9
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

// maxValueDepth bounds lists in lists.
const maxValueDepth = 16

// jsonValue returns an AnyValue message for encoding/json.
func jsonValue(message []byte, depth int) (v any, _ error) {
	if depth > maxValueDepth {
		return nil, errors.WithMessagef(errValueDepth, "%d", maxValueDepth)
	}
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			v = r.string()
		case 2:
			v = r.varint() != 0
		case 3:
			v = int64(r.varint())
		case 4:
			v = math.Float64frombits(r.fixed64())
		case 5, 6:
			list, object, err := jsonList(r.bytes(), r.num == 6, depth)
			if err != nil {
				return nil, err
			}
			if v = list; r.num == 6 {
				v = object
			}
		case 7:
			v = r.bytes()
		}
	}
	return v, r.err
}

// jsonList reads an ArrayValue or a KeyValueList message:
//
//	1 values repeated AnyValue, or KeyValue
func jsonList(message []byte, pairs bool, depth int) (list []any, object map[string]any, _ error) {
	list, object = []any{}, map[string]any{}
	r := readFields(message)
	for r.next() {
		if r.num != 1 {
			continue
		}
		name, value, err := []byte(nil), r.bytes(), error(nil)
		if pairs {
			if name, value, err = readPair(value); err != nil {
				return nil, nil, err
			}
		}
		v, err := jsonValue(value, depth+1)
		if err != nil {
			return nil, nil, err
		}
		if object[string(name)] = v; !pairs {
			list = append(list, v)
		}
	}
	return list, object, r.err
}

// get returns the value of an attribute, nil if it is not there.
func (a *attributes) get(name string) []byte {
	for _, at := range a.list {
		if string(at.name) == name {
			return at.value
		}
	}
	return nil
}

// appendLabels appends the labels of attributes, sorted. Those whose labels have one name become
// one, their values in the order of the names as sent, with a semicolon between; but those without
// a value in front of the others are left out.
func (n OTLPNames) appendLabels(dst *attributes, from []attribute) {
	sortByName(from)
	list := dst.list
	for _, at := range from {
		list = append(list, attribute{n.labelName(dst, at.name), at.value})
	}
	sortByName(list) // keeps the order of one name
	dst.list = list[:0]
	for i := 0; i < len(list); {
		name, end := list[i].name, i+1
		for end < len(list) && bytes.Equal(list[end].name, name) {
			end++
		}
		for i < end && len(list[i].value) == 0 {
			i++
		}
		switch end - i {
		case 0:
		case 1:
			dst.list = append(dst.list, list[i])
		default:
			begin := len(dst.text)
			dst.text = append(dst.text, list[i].value...)
			for _, at := range list[i+1 : end] {
				dst.text = append(append(dst.text, ';'), at.value...)
			}
			dst.list = append(dst.list, attribute{name, dst.text[begin:len(dst.text):len(dst.text)]})
		}
		i = end
	}
	clear(list[len(dst.list):])
}

// labelName returns the name of the label of an attribute.
func (n OTLPNames) labelName(a *attributes, name []byte) []byte {
	begin := len(a.text)
	a.text = n.appendLabelName(a.text, name)
	return a.text[begin:len(a.text):len(a.text)]
}

// lastLabels appends the labels of attributes, sorted, of which the last one counts where labels
// have one name.
func (n OTLPNames) lastLabels(dst *attributes, from []attribute) {
	for _, at := range from {
		dst.list = append(dst.list, attribute{n.labelName(dst, at.name), at.value})
	}
	sortByName(dst.list)
	kept := dst.list[:0]
	for i, at := range dst.list {
		if i+1 == len(dst.list) || !bytes.Equal(dst.list[i+1].name, at.name) {
			kept = append(kept, at)
		}
	}
	clear(dst.list[len(kept):])
	dst.list = kept
}

func sortByName(list []attribute) {
	slices.SortStableFunc(list, func(a, b attribute) int { return bytes.Compare(a.name, b.name) })
}

// appendUnion appends what sorted lists have, of one name what the first one has.
func appendUnion(dst, first, second []attribute) []attribute {
	for len(first) > 0 && len(second) > 0 {
		switch order := bytes.Compare(first[0].name, second[0].name); {
		case order < 0:
			dst, first = append(dst, first[0]), first[1:]
		case order > 0:
			dst, second = append(dst, second[0]), second[1:]
		default:
			second = second[1:]
		}
	}
	return append(append(dst, first...), second...)
}

// otlpResource is a resource, in the form of labels, which are sorted.
type otlpResource struct {
	sent     attributes
	ids      []attribute // instance and job
	promoted attributes  // labels of its series
	info     attributes  // labels of target_info, beside job and instance
	further  bool        // it has attributes that do not identify it
	from, to int64       // times of its points, in milliseconds; from > to: there are none
}

// Attributes that identify a resource.
const (
	serviceName      = "service.name"
	serviceNamespace = "service.namespace"
	serviceInstance  = "service.instance.id"
)

// settle makes labels of what was sent.
func (r *otlpResource) settle(o *OTLPOptions) {
	r.ids = r.ids[:0]
	if instance := r.sent.get(serviceInstance); len(instance) > 0 {
		r.ids = append(r.ids, attribute{instanceLabel, instance})
	}
	if job := r.sent.get(serviceName); len(job) > 0 {
		if space := r.sent.get(serviceNamespace); len(space) > 0 {
			job = slices.Concat(space, []byte{'/'}, job)
		}
		r.ids = append(r.ids, attribute{jobLabel, job})
	}
	r.further, r.from, r.to = false, math.MaxInt64, math.MinInt64
	var promoted, info []attribute
	for _, at := range r.sent.list {
		name := string(at.name)
		if o.PromoteAllResourceAttributes && !slices.Contains(o.IgnoreResourceAttributes, name) || slices.Contains(o.PromoteResourceAttributes, name) {
			promoted = append(promoted, at)
		}
		identifies := name == serviceName || name == serviceNamespace || name == serviceInstance
		r.further = r.further || !identifies
		if o.KeepIdentifying || !identifies {
			info = append(info, at)
		}
	}
	r.promoted.reset()
	o.Names.lastLabels(&r.promoted, promoted)
	r.info.reset()
	o.Names.appendLabels(&r.info, info)
}

var (
	jobLabel      = []byte("job")
	instanceLabel = []byte("instance")
	nameLabel     = []byte(labels.MetricName)
	bucketLabel   = []byte("le")
	quantileLabel = []byte("quantile")
	infinite      = []byte("+Inf")
	typeLabel     = []byte("__type__")
	unitLabel     = []byte("__unit__")
)

// metricTypes are the words for kinds of metrics in the label __type__.
var metricTypes = map[tsdb.MetricType][]byte{
	tsdb.MetricCounter: []byte("counter"), tsdb.MetricGauge: []byte("gauge"), tsdb.MetricHistogram: []byte("histogram"), tsdb.MetricSummary: []byte("summary"),
}

// encodeLabels encodes sorted labels with some more, which are sorted, too, and win.
func encodeLabels(dst []byte, sorted, more []attribute) []byte {
	for len(sorted)+len(more) > 0 {
		switch {
		case len(more) == 0 || len(sorted) > 0 && bytes.Compare(sorted[0].name, more[0].name) < 0:
			dst, sorted = appendEncodedLabel(dst, sorted[0].name, sorted[0].value), sorted[1:]
		default:
			if len(sorted) > 0 && bytes.Equal(sorted[0].name, more[0].name) {
				sorted = sorted[1:]
			}
			dst, more = appendEncodedLabel(dst, more[0].name, more[0].value), more[1:]
		}
	}
	return dst
}
