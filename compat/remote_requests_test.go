package compat

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	theirremote "github.com/prometheus/prometheus/storage/remote"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"
)

// remoteAnswer is what a server answers to a request.
type remoteAnswer struct {
	Status int
	Type   string // of its content; nothing for errors
	Data   data
}

// askRemote sends a request as it is.
func askRemote(t testing.TB, h http.Handler, req *prompb.ReadRequest) remoteAnswer {
	t.Helper()
	text, err := req.Marshal()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(snappy.Encode(nil, text))))
	a := remoteAnswer{Status: w.Code, Data: data{}}
	if w.Code != http.StatusOK {
		return a
	}
	a.Type = w.Header().Get("Content-Type")
	if w.Header().Get("Content-Encoding") != "snappy" {
		a.Data.addFrames(t, w.Body)
		return a
	}
	text, err = snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	var res prompb.ReadResponse
	require.NoError(t, res.Unmarshal(text))
	require.Len(t, res.Results, len(req.Queries))
	for _, r := range res.Results {
		for _, s := range r.Timeseries {
			for _, p := range s.Samples {
				a.Data.addWire(s.Labels, p.Timestamp, p.Value)
			}
		}
	}
	return a
}

// addFrames reads frames as the reference does.
func (d data) addFrames(t testing.TB, body io.Reader) {
	t.Helper()
	frames := theirremote.NewChunkedReader(body, 5e7, nil)
	for {
		var f prompb.ChunkedReadResponse
		err := frames.NextProto(&f)
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		for _, s := range f.ChunkedSeries {
			for _, c := range s.Chunks {
				chunk, err := theirenc.FromData(theirenc.Encoding(c.Type), c.Data)
				require.NoError(t, err)
				it := chunk.Iterator(nil)
				for it.Next() != theirenc.ValNone {
					at, v := it.At()
					d.addWire(s.Labels, at, v)
				}
				require.NoError(t, it.Err())
			}
		}
	}
}

// addWire appends a sample; a zero has no sign, see point.wire.
func (d data) addWire(ls []prompb.Label, at int64, v float64) {
	builder := theirlabels.NewScratchBuilder(len(ls))
	for _, l := range ls {
		builder.Add(l.Name, l.Value)
	}
	key := keyOfTheirs(builder.Labels())
	d[key] = append(d[key], point{at, math.Float64bits(v)}.wire())
}

// What no client library sends, but any may: hints with ranges, lists of types, several
// queries. Both servers answer alike.
func TestRemoteRead_RequestsAreUnderstoodAlike(t *testing.T) {
	w := remoteWorld(t, openOurBlocks, 9106)
	ours, theirs := ourHandler(w.e), theirHandler(t, openTheirBlocks(t, copyDir(t, w.dir)))
	const from, to = worldStart + 90*minute, worldStart + 3*hour
	query := func(hints *prompb.ReadHints) *prompb.Query {
		return &prompb.Query{
			StartTimestampMs: from, EndTimestampMs: to, Hints: hints,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: everything.name, Value: everything.value}},
		}
	}
	backwards := query(nil)
	backwards.StartTimestampMs, backwards.EndTimestampMs = to, from
	queries := map[string][]*prompb.Query{
		"none":          nil,
		"one":           {query(nil)},
		"backwards":     {backwards},
		"two":           {query(nil), query(&prompb.ReadHints{StartMs: to + 1, EndMs: to + hour})},
		"within":        {query(&prompb.ReadHints{StartMs: from + 10*minute, EndMs: to - 10*minute})},
		"beyond":        {query(&prompb.ReadHints{StartMs: from - hour, EndMs: to + hour})},
		"to an end":     {query(&prompb.ReadHints{EndMs: to})},
		"from a start":  {query(&prompb.ReadHints{StartMs: from})},
		"backward hint": {query(&prompb.ReadHints{StartMs: to, EndMs: from})},
		"a function":    {query(&prompb.ReadHints{StartMs: from, EndMs: to, StepMs: 1000, RangeMs: 5000, Func: "sum", By: true, Grouping: []string{"mod"}})},
	}
	const samples, chunks, unknown = prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS, 7
	for name, list := range queries {
		for _, types := range [][]prompb.ReadRequest_ResponseType{nil, {samples}, {chunks}, {samples, chunks}, {unknown, chunks, samples}, {unknown}} {
			req := &prompb.ReadRequest{Queries: list, AcceptedResponseTypes: types}
			require.Equal(t, askRemote(t, theirs, req), askRemote(t, ours, req), "%s %v", name, types)
		}
	}
}

// What is meant to differ, on both sides.
func TestRemoteRead_IntendedDifferences(t *testing.T) {
	w := remoteWorld(t, openOurBlocks, 9107)
	ours, theirs := ourHandler(w.e), theirHandler(t, openTheirBlocks(t, copyDir(t, w.dir)))
	const from, to = worldStart, worldStart + 30*hour
	ask := func(change func(*prompb.Query)) (our, their remoteAnswer) {
		q := &prompb.Query{
			StartTimestampMs: from, EndTimestampMs: to,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: everything.name, Value: everything.value}},
		}
		change(q)
		req := &prompb.ReadRequest{Queries: []*prompb.Query{q}}
		return askRemote(t, ours, req), askRemote(t, theirs, req)
	}
	whole, same := ask(func(*prompb.Query) {})
	requireEqual(t, whole.Data, same.Data, "without any")
	require.NotEmpty(t, whole.Data)

	for name, change := range map[string]func(*prompb.Query){
		"no matchers":           func(q *prompb.Query) { q.Matchers = nil },
		"hints without a range": func(q *prompb.Query) { q.Hints = &prompb.ReadHints{StepMs: 1000} },
		"series only":           func(q *prompb.Query) { q.Hints = &prompb.ReadHints{StartMs: from, EndMs: to, Func: "series"} },
	} {
		our, their := ask(change)
		require.Equal(t, whole, our, name)
		require.Equal(t, http.StatusOK, their.Status, name)
		require.Empty(t, their.Data, name)
	}
	body, err := (&prompb.ReadRequest{}).Marshal()
	require.NoError(t, err)
	for status, h := range map[int]http.Handler{http.StatusMethodNotAllowed: ours, http.StatusOK: theirs} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/", bytes.NewReader(snappy.Encode(nil, body))))
		require.Equal(t, status, w.Code)
	}
	for name, change := range map[string]func(*prompb.Query){
		"no regular expression": func(q *prompb.Query) { q.Matchers[0].Value = "(" },
		"unknown matcher":       func(q *prompb.Query) { q.Matchers[0].Type = 9 },
	} {
		our, their := ask(change)
		require.Equal(t, http.StatusBadRequest, our.Status, name)
		require.Equal(t, http.StatusInternalServerError, their.Status, name)
	}
}
