package remote

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb/labels"
)

// Bounds of a request. A body of 32 MiB could hold sixteen million empty queries; real
// clients send one or two, with a handful of matchers.
const (
	maxQueries  = 128  // of a request
	maxMatchers = 1024 // of a query
	maxRegexps  = 64   // regular expressions of all queries: compiled, each may take 0.2 MB and 50 ms
	maxTypes    = 64   // accepted response types
	maxGrouping = 1024 // labels of a hint
)

// readRequest is the message that a client sends:
//
//	1 queries                 repeated Query
//	2 accepted_response_types repeated enum
type readRequest struct {
	queries  []query
	accepted []responseType
}

// query is one selection; start and end are closed:
//
//	1 start_timestamp_ms int64      3 matchers repeated LabelMatcher
//	2 end_timestamp_ms   int64      4 hints    ReadHints
type query struct {
	start, end int64
	matchers   []matcher
	hints      *hints // nil: none were sent
}

// matcher is a predicate on a label as it is sent, not yet understood:
//
//	1 type enum (= != =~ !~)   2 name string   3 value string
type matcher struct {
	typ         int32
	name, value string
}

// hints say what the client will do with a query's samples:
//
//	1 step_ms int64    3 start_ms int64   5 grouping repeated string   7 range_ms int64
//	2 func    string   4 end_ms   int64   6 by       bool
type hints struct {
	step     int64
	function string
	start    int64
	end      int64
	grouping []string
	by       bool
	window   int64
}

// decodeReadRequest decodes a whole ReadRequest. What it returns shares nothing with b.
func decodeReadRequest(b []byte) (req readRequest, err error) {
	regexps := 0
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			if len(req.queries) == maxQueries {
				return req, errors.WithMessagef(errLimit, "more than %d queries", maxQueries)
			}
			q, err := decodeQuery(r.bytes())
			if err != nil {
				return req, errors.WithMessagef(err, "query %d", len(req.queries))
			}
			if regexps += q.regexps(); regexps > maxRegexps {
				return req, errors.WithMessagef(errLimit, "more than %d regular expressions", maxRegexps)
			}
			req.queries = append(req.queries, q)
		case 2:
			if err := req.accept(&r); err != nil {
				return req, err
			}
		}
	}
	return req, r.err
}

// accept reads response types, packed or one by one.
func (req *readRequest) accept(r *fieldReader) error {
	if r.typ != protowire.BytesType {
		req.accepted = append(req.accepted, responseType(r.varint()))
	}
	for b := r.data; r.typ == protowire.BytesType && len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return errors.WithMessage(errMalformed, "accepted response types")
		}
		b = b[n:]
		req.accepted = append(req.accepted, responseType(v))
		if len(req.accepted) > maxTypes {
			break
		}
	}
	if len(req.accepted) > maxTypes {
		return errors.WithMessagef(errLimit, "more than %d accepted response types", maxTypes)
	}
	return nil
}

func decodeQuery(b []byte) (q query, err error) {
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			q.start = int64(r.varint())
		case 2:
			q.end = int64(r.varint())
		case 3:
			if len(q.matchers) == maxMatchers {
				return q, errors.WithMessagef(errLimit, "more than %d matchers", maxMatchers)
			}
			m, err := decodeMatcher(r.bytes())
			if err != nil {
				return q, err
			}
			q.matchers = append(q.matchers, m)
		case 4:
			if q.hints == nil {
				q.hints = &hints{}
			}
			if err := q.hints.merge(r.bytes()); err != nil {
				return q, err
			}
		}
	}
	return q, r.err
}

func decodeMatcher(b []byte) (m matcher, err error) {
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			m.typ = int32(r.varint())
		case 2:
			m.name = r.string()
		case 3:
			m.value = r.string()
		}
	}
	return m, errors.WithMessage(r.err, "matcher")
}

// merge reads a ReadHints message; a field that comes again replaces the one before.
func (h *hints) merge(b []byte) error {
	r := readFields(b)
	for r.next() {
		switch r.num {
		case 1:
			h.step = int64(r.varint())
		case 2:
			h.function = r.string()
		case 3:
			h.start = int64(r.varint())
		case 4:
			h.end = int64(r.varint())
		case 5:
			if len(h.grouping) == maxGrouping {
				return errors.WithMessagef(errLimit, "more than %d labels to group by", maxGrouping)
			}
			h.grouping = append(h.grouping, r.string())
		case 6:
			h.by = r.varint() != 0
		case 7:
			h.window = int64(r.varint())
		}
	}
	return errors.WithMessage(r.err, "hints")
}

// regexps counts the matchers that have to be compiled.
func (q *query) regexps() (n int) {
	for _, m := range q.matchers {
		if typ := labels.MatchType(m.typ); typ == labels.MatchRegexp || typ == labels.MatchNotRegexp {
			n++
		}
	}
	return n
}

// bounds is the closed range that a query reads. Hints that have a range say what the
// client is going to use, and go before the range of the query, which is that of a whole
// expression.
func (q *query) bounds() (mint, maxt int64) {
	if q.hints != nil && (q.hints.start != 0 || q.hints.end != 0) {
		return q.hints.start, q.hints.end
	}
	return q.start, q.end
}

// appendReadRequest appends the serialised request.
func appendReadRequest(dst []byte, req *readRequest) []byte {
	for i := range req.queries {
		dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendQuery(dst, &req.queries[i]) })
	}
	if len(req.accepted) > 0 {
		dst = appendMessage(dst, 2, func(dst []byte) []byte {
			for _, t := range req.accepted {
				dst = protowire.AppendVarint(dst, uint64(t))
			}
			return dst
		})
	}
	return dst
}

func appendQuery(dst []byte, q *query) []byte {
	dst = appendInt(appendInt(dst, 1, q.start), 2, q.end)
	for _, m := range q.matchers {
		dst = appendMessage(dst, 3, func(dst []byte) []byte {
			return appendString(appendString(appendInt(dst, 1, int64(m.typ)), 2, m.name), 3, m.value)
		})
	}
	if q.hints != nil {
		dst = appendMessage(dst, 4, func(dst []byte) []byte { return appendHints(dst, q.hints) })
	}
	return dst
}

func appendHints(dst []byte, h *hints) []byte {
	dst = appendString(appendInt(dst, 1, h.step), 2, h.function)
	dst = appendInt(appendInt(dst, 3, h.start), 4, h.end)
	for _, name := range h.grouping {
		// Unlike a single field, an element of a list is written when it is empty.
		dst = append(protowire.AppendVarint(append(dst, bytesTag(5)), uint64(len(name))), name...)
	}
	if h.by {
		dst = appendInt(dst, 6, 1)
	}
	return appendInt(dst, 7, h.window)
}

// appendMessage appends a field whose size is known when it is written. Requests are
// small; answers are not made with it.
func appendMessage(dst []byte, field byte, content func([]byte) []byte) []byte {
	dst = append(dst, bytesTag(field))
	at := len(dst)
	dst = content(dst)
	size := protowire.AppendVarint(nil, uint64(len(dst)-at))
	return slices.Insert(dst, at, size...)
}

// maxMatcherBytes bounds the names and values of a query's matchers, together.
const maxMatcherBytes = labels.MaxSelectorBytes

// compileMatchers understands the matchers of a query.
func compileMatchers(ctx context.Context, ms []matcher) ([]*labels.Matcher, error) {
	size := 0
	list := make([]*labels.Matcher, 0, len(ms))
	for i, m := range ms {
		if err := ctx.Err(); err != nil { // some expressions take long
			return nil, err
		}
		if size += len(m.name) + len(m.value); size > maxMatcherBytes {
			return nil, errors.WithMessagef(errLimit, "matchers of more than %d bytes", maxMatcherBytes)
		}
		if m.name == "" {
			return nil, errors.WithMessagef(errMalformed, "matcher %d has no label name", i)
		}
		compiled, err := labels.NewMatcher(labels.MatchType(m.typ), m.name, m.value)
		if err != nil {
			return nil, errors.WithMessagef(err, "matcher %d", i)
		}
		list = append(list, compiled)
	}
	return list, nil
}
