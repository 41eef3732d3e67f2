package remote

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

func TestWriteType_IsLookedAtBeforeTheBody(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	for contentType, want := range map[string]int{
		"":                                    204,
		"application/x-protobuf":              204,
		"Application/X-Protobuf":              204,
		"application/x-protobuf;charset=utf8": 204,
		"application/x-protobuf;proto=prometheus.WriteRequest":               204,
		"application/x-protobuf; proto=prometheus.WriteRequest":              204,
		`application/x-protobuf;proto="prometheus.WriteRequest"`:             204,
		"application/x-protobuf;proto=io.prometheus.write.v2.Request":        204,
		"application/x-protobuf ; proto=io.prometheus.write.v2.Request":      204,
		"application/x-protobuf;proto=io.prometheus.write.v3.Request":        415,
		"application/x-protobuf;proto=":                                      415,
		"application/x-protobuf;proto":                                       415,
		"application/json":                                                   415,
		"text/plain; charset=utf-8":                                          415,
		"application/x-protobuf;proto=" + strings.Repeat("x", 100_000):       415,
		"application/x-protobuf, application/x-protobuf":                     415,
		"application/openmetrics-text; version=1.0.0; charset=utf-8":         415,
		"application/x-streamed-protobuf; proto=prometheus.ChunkedReadReply": 415,
	} {
		require.Equal(t, want, send(h, contentType, nil).Code, contentType)
		if want == http.StatusUnsupportedMediaType {
			w := sendBody(h, contentType, []byte("this is no snappy block"))
			require.Equal(t, want, w.Code, contentType)
			require.Less(t, w.Body.Len(), 300)
		}
	}
	for encoding, want := range map[string]int{"": 204, "snappy": 204, "SNAPPY": 415, "gzip": 415, "zstd": 415, "identity": 415, "snappy, gzip": 415} {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte{0}))
		r.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, encoding)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodHead, http.MethodOptions} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, http.MethodPost, w.Header().Get("Allow"))
	}
}

// A page of another host cannot write through the browser of somebody who may.
func TestWrite_FromAPageOfAnotherHost(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	for _, header := range [][2]string{{"Origin", "https://elsewhere.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9090/api/v1/write", bytes.NewReader([]byte{0}))
		r.Header.Set(header[0], header[1])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code)
	}
}

// allocated is how many bytes a call allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A body that claims to be large takes no memory before it is.
func TestWriteBodies_ThatClaimToBeLarge(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	for _, claimed := range []uint64{1 << 20, 32 << 20, 32<<20 + 1, math.MaxInt32, math.MaxUint32, 1 << 40, math.MaxUint64} {
		body := append(binary.AppendUvarint(nil, claimed), 0, 0, 0)
		require.Less(t, allocated(func() {
			w := sendBody(h, writeMediaType, body)
			require.Equal(t, http.StatusBadRequest, w.Code, claimed)
		}), uint64(1<<20), claimed)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("abc"))
	r.ContentLength = 30 << 20
	require.Less(t, allocated(func() { h.ServeHTTP(httptest.NewRecorder(), r) }), uint64(1<<20))
}

func TestWriteBodies_HaveALimit(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, _ http.Handler, i int) {
		v := writeEncoders[i]
		message := v.encode(one("a", at(writeNewest, 1)))
		h := NewWriteHandler(db, &WriteOptions{MaxBytes: 2000})
		requireWritten(t, send(h, v.contentType, message), v.version, http.StatusNoContent, "/1/0/0")
		w := send(h, v.contentType, append(message, bytes.Repeat([]byte{0x70, 0}, 1000)...))
		requireWritten(t, w, v.version, http.StatusBadRequest, "/0/0/0")
		require.Contains(t, w.Body.String(), "limit")
		random := make([]byte, 2001)
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		requireWritten(t, sendBody(h, v.contentType, random), v.version, http.StatusRequestEntityTooLarge, "/0/0/0")
	})
	require.Equal(t, defaultRequestBytes, (&WriteOptions{MaxBytes: -1}).withDefaults().MaxBytes)
	require.Equal(t, mostWriteBytes, (&WriteOptions{MaxBytes: math.MaxInt}).withDefaults().MaxBytes)
}

// everyField is a message with all that there is.
func everyField(encode func(...sentSeries) []byte) []byte {
	s := one("every", tsdb.Sample{T: writeNewest, V: 1, ST: writeStart}, at(writeNewest+1, 0))
	s.pairs = append(s.pairs, "job", "a", "zone", "eu")
	s.histograms = []tsdb.Sample{{T: writeNewest + 2, H: some(3), ST: writeStart}, {T: writeNewest + 3, FH: someFloats(3)}}
	s.exemplars = []sentExemplar{{[]string{"trace_id", "x"}, writeNewest, 1}}
	s.meta = tsdb.Metadata{Type: tsdb.MetricCounter, Unit: "seconds", Help: "Help."}
	return encode(s, one("second", at(writeNewest, 1)))
}

// A message that ends anywhere is stored as far as it goes, if that is a message, or not at all.
func TestWrite_OfAMessageThatIsCutOff(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		message := everyField(v.encode)
		if v.version == writeV1 {
			message = appendPart(message, 3, appendString(appendInt(nil, 1, 1), 2, "every"))
		}
		before := db.Stats().SamplesAppended
		whole := 0
		for n := range message {
			w := send(h, v.contentType, message[:n])
			require.Contains(t, []int{http.StatusNoContent, http.StatusBadRequest}, w.Code)
			if w.Code == http.StatusNoContent {
				whole++
				before = db.Stats().SamplesAppended
				continue
			}
			require.Contains(t, w.Body.String(), errMalformed.Error(), n)
			require.Equal(t, before, db.Stats().SamplesAppended)
		}
		require.Greater(t, whole, 1)
		require.Less(t, whole, 20)
		require.Equal(t, http.StatusNoContent, send(h, v.contentType, message).Code)
	})
}

func TestWrite_OfHostileMessages(t *testing.T) {
	field := func(num protowire.Number, typ protowire.Type, value ...byte) []byte {
		return append(protowire.AppendTag(nil, num, typ), value...)
	}
	ten := bytes.Repeat([]byte{0xff}, 10)
	many := sentSeries{pairs: []string{labels.MetricName, "many"}, samples: []tsdb.Sample{at(writeNewest, 1)}}
	for i := range 10_000 {
		many.pairs = append(many.pairs, fmt.Sprintf("l%d", i), "v")
	}
	few := many
	few.pairs = few.pairs[:2*100]
	long := sentSeries{pairs: []string{labels.MetricName, strings.Repeat("x", 2<<20)}, samples: many.samples}
	name := encodeSymbols("", labels.MetricName, "a")
	sample := appendPart(nil, 2, encodeSample(at(writeNewest, 1)))
	series := func(refs ...uint64) []byte {
		var packed []byte
		for _, ref := range refs {
			packed = protowire.AppendVarint(packed, ref)
		}
		return append(name, appendPart(nil, 5, append(appendPart(nil, 1, packed), sample...))...)
	}
	wide := some(1)
	wide.PositiveSpans[0].Length = math.MaxUint32
	spans := one("spans")
	spans.histograms = []tsdb.Sample{{T: writeNewest, H: wide}}
	for what, test := range map[string]struct {
		version writeVersion
		message []byte
		text    string
	}{
		"tag without end":             {writeV1, ten, "malformed"},
		"field 0":                     {writeV1, []byte{0x02, 0}, "malformed"},
		"negative length":             {writeV1, field(1, protowire.BytesType, ten...), "malformed"},
		"length beyond the end":       {writeV1, field(1, protowire.BytesType, 100), "malformed"},
		"group without end":           {writeV1, bytes.Repeat(field(9, protowire.StartGroupType), 10_000), "malformed"},
		"series that is a number":     {writeV1, field(1, protowire.VarintType, 1), "malformed"},
		"sample that is a number":     {writeV1, appendPart(nil, 1, field(2, protowire.VarintType, 1)), "malformed"},
		"label that is a number":      {writeV1, appendPart(nil, 1, append(field(1, protowire.VarintType, 1), sample...)), "malformed"},
		"time that is a float":        {writeV1, appendPart(nil, 1, append(encodePairs(nil, []string{labels.MetricName, "a"}), appendPart(nil, 2, appendBits([]byte{fixed64Tag(2)}, 1))...)), "malformed"},
		"10,000 labels":               {writeV1, encodeV1(many), "too large"},
		"100 labels":                  {writeV1, encodeV1(few), "limit"},
		"2 MiB of a name":             {writeV1, encodeV1(long), "too large"},
		"histogram of 2^32 buckets":   {writeV1, encodeV1(spans), "spans"},
		"10,000 labels, 2.0":          {writeV2, encodeV2(many), "too large"},
		"100 labels, 2.0":             {writeV2, encodeV2(few), "limit"},
		"2 MiB of a name, 2.0":        {writeV2, encodeV2(long), "too large"},
		"reference to nothing":        {writeV2, series(1, 3), "outside"},
		"reference beyond 32 bits":    {writeV2, series(1, 1<<32+2), "outside"},
		"negative reference":          {writeV2, series(1, math.MaxUint64), "outside"},
		"odd number of references":    {writeV2, series(1, 2, 1), "odd"},
		"reference to itself":         {writeV2, series(1, 0), "no metric name"},
		"label of empty name":         {writeV2, series(1, 2, 0, 2), "empty label name"},
		"no references":               {writeV2, series(), "no metric name"},
		"references without end":      {writeV2, append(name, appendPart(nil, 5, append(appendPart(nil, 1, []byte{1, 0xff}), sample...))...), "malformed"},
		"histogram of bytes":          {writeV2, append(name, appendPart(nil, 5, append(appendPart(nil, 1, []byte{1, 2}), appendPart(nil, 3, []byte{0xff})...))...), "malformed"},
		"exemplar of bytes":           {writeV2, append(name, appendPart(nil, 5, append(append(appendPart(nil, 1, []byte{1, 2}), sample...), appendPart(nil, 4, []byte{0xff})...))...), "malformed"},
		"metadata of bytes":           {writeV2, append(name, appendPart(nil, 5, append(append(appendPart(nil, 1, []byte{1, 2}), sample...), appendPart(nil, 5, []byte{0xff})...))...), "malformed"},
		"metadata that is not there":  {writeV2, append(name, appendPart(nil, 5, append(append(appendPart(nil, 1, []byte{1, 2}), sample...), appendPart(nil, 5, appendInt(nil, 3, 99))...))...), "outside"},
		"both versions":               {writeV1, append(encodeV1(one("a", at(writeNewest, 1))), encodeV2(one("a", at(writeNewest, 2)))...), "both versions"},
		"both versions, 2.0":          {writeV2, append(encodeV2(one("a", at(writeNewest, 1))), encodeV1(one("a", at(writeNewest, 2)))...), "both versions"},
		"more symbols than there are": {writeV2, bytes.Repeat([]byte{bytesTag(4), 0}, maxSymbols+1), "limit"},
	} {
		t.Run(what, func(t *testing.T) {
			db, clock := openForWrites(t, tsdb.Options{})
			h := NewWriteHandler(db, &WriteOptions{Clock: clock})
			before := db.Stats()
			w := send(h, writeEncoders[test.version].contentType, test.message)
			requireWritten(t, w, test.version, http.StatusBadRequest, "/0/0/0")
			require.Contains(t, w.Body.String(), test.text)
			require.Less(t, w.Body.Len(), 2000)
			after := db.Stats()
			require.Equal(t, before.SamplesAppended, after.SamplesAppended)
			require.Equal(t, before.Series, after.Series)
		})
	}
}

// A message is what it is, whatever the content type says: there are senders that are wrong. Those
// who send 2.0, as they think, are told what was written.
func TestWrite_OfTheOtherVersionThanIsSaid(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	for i, v := range writeEncoders {
		said := writeEncoders[1-i]
		w := send(h, said.contentType, v.encode(one("said", at(writeNewest+int64(i), 1))))
		requireWritten(t, w, said.version, http.StatusNoContent, "/1/0/0")
		off := NewWriteHandler(db, &WriteOptions{Clock: clock, NoV1: v.version == writeV1, NoV2: v.version == writeV2})
		w = send(off, said.contentType, v.encode(one("said", at(writeNewest+10, 1))))
		requireWritten(t, w, said.version, http.StatusUnsupportedMediaType, "/0/0/0")
	}
	require.Len(t, storedSamples(t, db, "said")[`{__name__="said"}`], 2)
}

// References may be sent one by one, and labels anywhere in a series.
func TestWrite_OfFieldsInUnusualOrder(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	sample := appendPart(nil, 2, encodeSample(at(writeNewest, 1)))
	m := append(protowire.AppendVarint([]byte{varintTag(1)}, 1), protowire.AppendVarint([]byte{varintTag(1)}, 2)...)
	behind := append(appendPart(nil, 5, append(sample, m...)), encodeSymbols("", labels.MetricName, "a")...)
	requireWritten(t, send(h, writeEncoders[writeV2].contentType, behind), writeV2, http.StatusNoContent, "/1/0/0")
	labelsBehind := append(encodePairs(nil, []string{labels.MetricName, "b"}), sample...)
	labelsBehind = encodePairs(labelsBehind, []string{"job", "x"})
	for range 2 {
		requireWritten(t, send(h, writeMediaType, appendPart(nil, 1, labelsBehind)), writeV1, http.StatusNoContent, "")
	}
	require.Equal(t, []string{`{__name__="a"}`}, sortedKeys(storedSamples(t, db, "a")))
	require.Equal(t, []string{`{__name__="b", job="x"}`}, sortedKeys(storedSamples(t, db, "b")))
}

// Who sends slowly is told to come again, and is in nobody's way meanwhile.
func TestWriteClientThatSendsNoBody_IsToldSoInTime(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	server := httptest.NewServer(NewWriteHandler(db, &WriteOptions{Clock: clock, ReadTimeout: 50 * time.Millisecond, MaxInFlight: 1}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
	require.NoError(t, err)
	body := snappy.Encode(nil, encodeV1(one("a", at(writeNewest, 1))))
	ok, err := http.Post(server.URL, writeMediaType, bytes.NewReader(body)) // the slot is free all the time
	require.NoError(t, err)
	require.NoError(t, ok.Body.Close())
	require.Equal(t, http.StatusNoContent, ok.StatusCode)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, retryAfter, resp.Header.Get("Retry-After"))
}

// gatedReader gives its bytes when the gate opens.
type gatedReader struct {
	started chan struct{}
	gate    chan struct{}
	rest    io.Reader
	begun   bool
}

func (r *gatedReader) Read(b []byte) (int, error) {
	if !r.begun {
		r.begun = true
		n, err := r.rest.Read(b[:min(len(b), 600)])
		return n, err
	}
	if r.started != nil {
		close(r.started)
		r.started = nil
		<-r.gate
	}
	return r.rest.Read(b)
}

// Bodies that arrive slowly take no more memory than they may, together.
func TestWriteBodies_AreBoundedTogether(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock, MaxBufferedBytes: 2000})
	body := snappy.Encode(nil, encodeV1(one("a", at(writeNewest, 1)), one(hex.EncodeToString(func() []byte {
		b := make([]byte, 340)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return b
	}()), at(writeNewest, 1))))
	require.Greater(t, len(body), 600)
	require.Less(t, len(body), 1000)
	slow := &gatedReader{started: make(chan struct{}), gate: make(chan struct{}), rest: bytes.NewReader(body)}
	started := slow.started
	answered := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", slow))
		answered <- w.Code
	}()
	<-started
	requireWritten(t, sendBody(h, writeMediaType, body), writeV1, http.StatusServiceUnavailable, "")
	close(slow.gate)
	require.Equal(t, http.StatusNoContent, <-answered)
	requireWritten(t, sendBody(h, writeMediaType, body), writeV1, http.StatusNoContent, "") // there is room again
}

// As many items as fit in a body are more than a request may have: they take their memory in the
// database.
func TestWrite_OfVeryManyItems(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	empty := func(field byte, n weight) []byte { return bytes.Repeat([]byte{field<<3 | 2, 0}, int(n)) }
	name := encodePairs(nil, []string{labels.MetricName, "many"})
	for what, message := range map[string][]byte{
		"floats":     appendPart(nil, 1, append(name, empty(2, maxWeight+1)...)),
		"exemplars":  appendPart(nil, 1, append(name, empty(3, maxWeight/weightExemplar+1)...)),
		"histograms": appendPart(nil, 1, append(name, empty(4, maxWeight/weightOther+1)...)),
		"series":     empty(1, maxWeight/weightSeries+1),
		"families":   empty(3, maxWeight/weightOther+1),
	} {
		w := send(h, writeMediaType, message)
		require.Equal(t, http.StatusBadRequest, w.Code, what)
		require.Contains(t, w.Body.String(), "send less at a time", what)
	}
	require.Empty(t, storedSamples(t, db, "many"))
}

// slowAnswer is a client that does not accept its answer for a while.
type slowAnswer struct {
	*httptest.ResponseRecorder
	answered, gate chan struct{}
}

func (s slowAnswer) WriteHeader(status int) {
	close(s.answered)
	<-s.gate
	s.ResponseRecorder.WriteHeader(status)
}

// Who does not accept its answer holds up nobody: not the slot, and no memory that is counted.
func TestWrite_AnswersBehindTheSlot(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock, MaxInFlight: 1, ReadTimeout: 50 * time.Millisecond})
	for _, message := range [][]byte{encodeV1(one("a", at(writeNewest, 1))), encodeV1(one("", at(writeNewest, 1)))} {
		slow := slowAnswer{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(slow, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(snappy.Encode(nil, message))))
		}()
		<-slow.answered
		require.Zero(t, h.buffered.taken.Load())
		require.Zero(t, h.memory.taken.Load())
		require.Equal(t, http.StatusNoContent, send(h, writeMediaType, encodeV1(one("b", at(writeNewest, 1)))).Code)
		close(slow.gate)
		<-done
	}
}

// A body that waits for a slow client has no more memory than it needs, whatever came before.
func TestWriteBodies_KeepLittleMemory(t *testing.T) {
	for _, limit := range []int64{0, 64 << 20, -1} {
		h := NewWriteHandler(nil, &WriteOptions{MaxBufferedBytes: limit})
		keep := min(h.opts.MaxBufferedBytes/keptBodies, keptBody)
		if limit < 0 {
			keep = keptBody
		}
		for _, size := range []int{100, 200_000, 2 << 20, 40_000, 20 << 20} {
			b := h.borrowBody()
			require.LessOrEqual(t, int64(cap(b.bytes)), keep)
			require.NoError(t, h.receive(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, size))), b))
			require.Len(t, b.bytes, size)
			require.Equal(t, int64(cap(b.bytes)), h.buffered.taken.Load())
			h.returnBody(b)
			require.Zero(t, h.buffered.taken.Load())
		}
	}
}
