package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
)

// obviousMessage is the message of a request in JSON as encoding/json reads it, token by token,
// each message in memory of its own. Nothing is cut off but what is in too many lists.
func obviousMessage(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	token, err := d.Token()
	if err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("no object: %v", err)
	}
	b, err := obviousFields(d, otlpFields, 0)
	if err != nil {
		return nil, err
	}
	if _, err = d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something behind the end: %v", err)
	}
	return b, nil
}

func obviousFields(d *json.Decoder, fields *jsonFields, lists int) (b []byte, err error) {
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return b, nil
		}
		f, known := (*fields)[name]
		if !known {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return nil, err
			}
			continue
		}
		if token, err = d.Token(); err != nil {
			return nil, err
		}
		if token != json.Delim('[') {
			if b, err = obviousValue(b, d, &f, token, lists); err != nil {
				return nil, err
			}
			continue
		}
		for {
			if token, err = d.Token(); err != nil {
				return nil, err
			}
			if token == json.Delim(']') {
				break
			}
			if b, err = obviousValue(b, d, &f, token, lists); err != nil {
				return nil, err
			}
		}
	}
}

func obviousValue(b []byte, d *json.Decoder, f *jsonField, token json.Token, lists int) ([]byte, error) {
	text := ""
	switch v := token.(type) {
	case nil:
		return b, nil
	case json.Delim:
		if f.fields == nil || v != '{' {
			return nil, fmt.Errorf("%s: a wrong kind", f.name)
		}
		inside := lists
		if f.kind == jsonNested {
			inside++
		}
		message, err := obviousFields(d, f.fields, inside)
		if lists > maxValueDepth {
			message = nil
		}
		return appendPart(b, byte(f.num), message), err
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = map[bool]string{false: "0", true: "1"}[v]
	}
	_, isText := token.(string)
	if f.fields != nil || f.kind <= jsonBase64 && !isText {
		return nil, fmt.Errorf("%s: a wrong kind", f.name)
	}
	content, err := []byte(text), error(nil)
	switch f.kind {
	case jsonString:
		return appendPart(b, byte(f.num), content), nil
	case jsonHex:
		content, err = hex.DecodeString(text)
		return appendPart(b, byte(f.num), content), err
	case jsonBase64:
		content, err = base64.StdEncoding.DecodeString(text)
		return appendPart(b, byte(f.num), content), err
	case jsonDouble:
		v, err := strconv.ParseFloat(text, 64)
		return putDouble(b, byte(f.num), v), err
	}
	v, err := wholeNumber(content)
	switch f.kind {
	case jsonFixed:
		return putDouble(b, byte(f.num), math.Float64frombits(v)), err
	case jsonZigZag:
		v = protowire.EncodeZigZag(int64(v))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, f.num, protowire.VarintType), v), err
}

// nestedValue is a value in so many lists.
func nestedValue(lists int, value string) string {
	return strings.Repeat(`{"arrayValue":{"values":[`, lists) + value + strings.Repeat(`]}}`, lists)
}

// nestedPairs is nestedValue with lists of attributes.
func nestedPairs(lists int, value string) string {
	return strings.Repeat(`{"kvlistValue":{"values":[{"key":"k","value":`, lists) + value + strings.Repeat(`}]}}`, lists)
}

// otlpWithValue is a request with a point that has an attribute.
func otlpWithValue(value string) []byte {
	return otlpText(otlpGaugeText("g", otlpPointText(1, `"asInt":"1","attributes":[{"key":"a","value":`+value+`}]`)))
}

// jsonRequests are requests in JSON, some of which are none.
func jsonRequests() [][]byte {
	return [][]byte{
		otlpText(otlpGaugeText("g", otlpPointText(5, `"asDouble":1.5,"flags":1,"exemplars":[{"traceId":"0aff","spanId":"00","filteredAttributes":[{"key":"k"}]}]`))),
		otlpText(fmt.Sprintf(`{"name":"e\u00e9\n","unit":"\ud83d\ude00\ud83d","exponentialHistogram":{"aggregation_temporality":2,"dataPoints":[%s]}}`,
			otlpPointText(5, `"count":"7","sum":"NaN","scale":-1,"zero_count":"1","positive":{"offset":-2,"bucketCounts":["1",0,1e2]},"negative":null`))),
		otlpWithValue(nestedValue(17, `{"stringValue":"x"}`)), otlpWithValue(nestedPairs(18, `{"intValue":"7"}`)), otlpWithValue(`{"bytesValue":"eHg\u003d"}`),
		[]byte(` {"resourceMetrics" : [ {} , null, {"unknown":[{"a":"\"]}"},[[]],true]} ] } `), []byte(`{"resourceMetrics":[[]]}`), []byte(`[]`), []byte("{\"\xff\":1}"), []byte(`{"` + strings.Repeat(`\u0061`, 100) + `":1}`),
		otlpText(`{"name":"\xff` + strings.Repeat("long", 50) + `","gauge":{"dataPoints":{"timeUnixNano":7,"asInt":true}}}`),
		otlpText(`{"n\u0061me":"x","name":"\u0041\/\b\f\r\t\\","description":"` + strings.Repeat("d", 20_000) + `"}`),
	}
}

// requireObvious requires that a request in JSON becomes the message that it obviously is, or is
// refused as that is.
func requireObvious(t *testing.T, text []byte) {
	t.Helper()
	want, wrong := obviousMessage(text)
	got, err := otlpMessage(text)
	if wrong != nil || err != nil {
		require.True(t, wrong != nil && err != nil, "%v, %v", wrong, err)
		require.ErrorIs(t, err, errMalformed)
		return
	}
	if len(text) < maxAttributesBytes {
		require.Equal(t, want, got)
	}
}

func TestOTLPJSON_IsTheObviousMessage(t *testing.T) {
	for _, text := range jsonRequests() {
		requireObvious(t, text)
		for n := 0; n < len(text) && n < 2000; n += 7 {
			requireObvious(t, text[:n])
		}
	}
}

func FuzzOTLPJSON(f *testing.F) {
	for _, text := range jsonRequests() {
		f.Add(text)
	}
	f.Fuzz(requireObvious)
}

// Strings say what encoding/json reads in them.
func TestJSONStrings_SayWhatTheyAre(t *testing.T) {
	part := rapid.OneOf(rapid.SampledFrom([]string{`\n`, `\"`, `\\`, `\/`, `\b`, `\f`, `\r`, `\t`, `\ud83d`, `\ude00`, `\uD83D\uDE00`, `\u0000`, "\xff", "\xe2\x82", "é", "日", "\xed\xa0\x80"}),
		rapid.StringMatching(`[a-z ]{0,3}`), rapid.StringMatching(`\\u[0-9a-fA-F]{4}`))
	rapid.Check(t, func(rt *rapid.T) {
		quoted := strings.Join(rapid.SliceOf(part).Draw(rt, "parts"), "")
		var want string
		require.NoError(rt, json.Unmarshal([]byte(`"`+quoted+`"`), &want))
		j := jsonText{text: []byte(` "` + quoted + `" : 1`)}
		require.Equal(rt, byte('"'), j.peek())
		require.Equal(rt, quoted, string(j.string()))
		require.Equal(rt, byte('1'), j.peek())
		require.Equal(rt, want, string(appendPlain(nil, []byte(quoted))))
		require.Equal(rt, len(want), plainLen([]byte(quoted)))
		require.Equal(rt, isPlain([]byte(quoted)), want == quoted)
	})
}

// requireSameInJSON requires that a request in JSON is answered as its message is, and stored so.
func requireSameInJSON(t *testing.T, text []byte) (status int, answer string) {
	t.Helper()
	message, err := obviousMessage(text)
	require.NoError(t, err)
	var stored []map[string]string
	var statuses []int
	for _, media := range []string{otlpProtobuf, otlpJSON} {
		db, h := openForOTLP(t, OTLPOptions{})
		body := text
		if media == otlpProtobuf {
			body = message
		}
		w := sendOTLP(h, body, "Content-Type", media)
		status, answer = w.Code, w.Body.String()
		stored, statuses = append(stored, newestOf(t, db)), append(statuses, status)
	}
	require.Equal(t, statuses[0], statuses[1], answer)
	require.Equal(t, stored[0], stored[1])
	return status, answer
}

// The limits of attributes hold while JSON is converted, and are the same.
func TestOTLPJSON_LimitsAreThoseOfTheMessage(t *testing.T) {
	list := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"key":"k%d","value":{"intValue":"1"}}`, i))
		}
		return `"attributes":[` + strings.Join(all, ",") + `]`
	}
	long := func(n int) string { return `{"stringValue":"` + strings.Repeat("x", n) + `"}` }
	for what, test := range map[string]struct {
		value  string
		status int
		text   string
	}{
		"lists, as many as may be":   {nestedValue(16, `{"stringValue":"x"}`), 200, "{}"},
		"lists, one more":            {nestedValue(17, `{"stringValue":"x"}`), 400, "levels"},
		"lists, very many":           {nestedValue(500, `{"stringValue":"x"}`), 400, "levels"},
		"pairs, as many as may be":   {nestedPairs(16, `{"stringValue":"x"}`), 200, "{}"},
		"pairs, one more":            {nestedPairs(17, `{"stringValue":"x"}`), 400, "levels"},
		"lists that are empty":       {nestedValue(17, ``), 200, "{}"},
		"long":                       {long(4000), 200, "{}"},
		"longer":                     {long(70_000), 400, "attributes"},
		"longest":                    {long(1 << 20), 400, "attributes"},
		"long, in lists":             {nestedValue(15, long(1<<20)), 400, "attributes"},
		"many values":                {`{"arrayValue":{"values":[` + strings.Repeat(`{"intValue":1},`, 20_000) + `{}]}}`, 400, "attributes"},
		"escaped":                    {`{"stringValue":"` + strings.Repeat(`\u00e9`, 500) + `"}`, 200, "{}"},
		"escaped and long":           {`{"stringValue":"` + strings.Repeat(`\u00e9`, 40_000) + `"}`, 400, "attributes"},
		"bytes":                      {`{"bytesValue":"` + strings.Repeat("eHh4", 500) + `"}`, 200, "{}"},
		"bytes, long":                {`{"bytesValue":"` + strings.Repeat("eHh4", 200_000) + `"}`, 400, "attributes"},
		"a long number":              {`{"intValue":"` + strings.Repeat("0", 100_000) + `1"}`, 200, "{}"},
		"a key":                      {`{"kvlistValue":{"values":[{"key":"` + strings.Repeat("k", 1<<20) + `"}]}}`, 400, "attributes"},
		"attributes beside":          {`{}}],` + list(512) + `,"x":[{"x":{}`, 400, "attributes"},
		"attributes, but none twice": {`{}}],` + list(511) + `,"x":[{"x":{}`, 400, "LabelsPerSeries"},
	} {
		status, answer := requireSameInJSON(t, otlpWithValue(test.value))
		require.Equal(t, test.status, status, "%s: %s", what, answer)
		require.Contains(t, answer, test.text, what)
	}
	for n := maxAttributesBytes - 40; n < maxAttributesBytes+10; n++ {
		text := otlpText(otlpGaugeText("g", otlpPointText(1, `"asInt":"1","attributes":[{"key":"`+strings.Repeat("k", n)+`"},{"key":"second"},{"key":"third"}]`)))
		requireSameInJSON(t, text)
	}
}

// Of attributes that are refused no more is converted than is needed for that.
func TestOTLPJSON_IsCutOffWhereItIsRefused(t *testing.T) {
	for what, value := range map[string]string{
		"a text":    `{"stringValue":"` + strings.Repeat("x", 4<<20) + `"}`,
		"values":    `{"arrayValue":{"values":[` + strings.Repeat(`{"intValue":1},`, 300_000) + `{}]}}`,
		"escapes":   nestedValue(10, `{"stringValue":"`+strings.Repeat(`\n`, 2<<20)+`"}`),
		"too deep":  nestedPairs(17, `{"stringValue":"`+strings.Repeat(`x`, 4<<20)+`"}`),
		"of others": `{}}` + strings.Repeat(`,{"key":"k"}`, 300_000) + `],"x":[{"x":{}`,
	} {
		text := otlpWithValue(value)
		message, err := otlpMessage(text)
		require.NoError(t, err)
		require.Less(t, len(message), maxAttributesBytes+1000, what)
		_, h := openForOTLP(t, OTLPOptions{})
		require.Equal(t, http.StatusBadRequest, sendOTLP(h, text, "Content-Type", otlpJSON).Code, what)
	}
}

// deepZipped is a request of 30 KB that becomes 30 MB of JSON, in which a text is in 28 lists.
func deepZipped(t testing.TB) []byte {
	text := otlpText(otlpGaugeText("g", otlpPointText(1, `"asInt":"1"`)))
	value := `{"key":"a","value":` + nestedValue(28, `{"stringValue":"`+strings.Repeat("x", 30<<20)+`"}`) + `}`
	return zippedBody(t, strings.Replace(string(text), `"attributes":[`, `"attributes":[`+value+`,`, 1))
}

// A text in many lists is not copied for each of them, whatever comes at a time.
func TestOTLP_OfDeepJSONTakesLittle(t *testing.T) {
	_, server := openForOTLP(t, OTLPOptions{})
	h, body := server.(*OTLPHandler), deepZipped(t)
	require.Less(t, len(body), 50_000)
	sendDeep := func() {
		w := sendOTLP(h, body, "Content-Type", otlpJSON, "Content-Encoding", "gzip")
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "levels") {
			t.Error(w.Code, w.Body)
		}
	}
	n := allocated(sendDeep)
	t.Logf("%d MB for one", n>>20)
	require.Less(t, n, uint64(100<<20), "no more than to inflate it takes")
	taken, lived := peaks(&h.memory, func() {
		var group sync.WaitGroup
		for range 8 {
			group.Go(sendDeep)
		}
		group.Wait()
	})
	t.Logf("%d MB were taken for eight at a time, %d lived", taken>>20, lived>>20)
	require.Less(t, taken, int64(8*60<<20))
	if !underRace() {
		require.Less(t, lived, int64(400<<20))
	}
	require.Zero(t, h.memory.taken.Load())
}

// What is taken for a request is at least what it needs, as for remote write.
func TestOTLPMemory_IsThatOfTheRequest(t *testing.T) {
	if underRace() {
		t.Skip("everything takes more")
	}
	var gauges, buckets []string
	for i := range 60_000 {
		attributes := fmt.Sprintf(`"attributes":[{"key":"i","value":{"stringValue":"%d"}}]`, i)
		gauges = append(gauges, otlpPointText(1, `"asDouble":1.5,`+attributes))
		if i%6 == 0 {
			buckets = append(buckets, otlpPointText(1, `"count":"3","sum":3,"bucketCounts":["1",0,0,2,0,0],"explicitBounds":[1,2,3,4,5],`+attributes))
		}
	}
	for _, metric := range []string{otlpGaugeText("g", gauges...), fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, strings.Join(buckets, ","))} {
		text := otlpText(metric)
		message, err := otlpMessage(text)
		require.NoError(t, err)
		for media, body := range map[string][]byte{otlpJSON: text, otlpProtobuf: message, "gzip": zippedBody(t, string(message))} {
			db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Head: tsdb.HeadOptions{MaxExemplars: 1}})
			require.NoError(t, err)
			h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{MaxFuture: -1}})
			headers := []string{"Content-Type", media}
			if media == "gzip" {
				headers = []string{"Content-Type", otlpProtobuf, "Content-Encoding", "gzip"}
			}
			taken, lived := peaks(&h.memory, func() {
				w := sendOTLP(h, body, headers...)
				require.Equal(t, http.StatusOK, w.Code, w.Body)
			})
			t.Logf("%s: %.1f MB of body: %.1f were taken, %.1f lived", media, float64(len(body))/1e6, float64(taken)/1e6, float64(lived)/1e6)
			require.LessOrEqual(t, lived, taken*5/4, "some of it is garbage")
			require.NoError(t, db.Close())
		}
	}
}

// A request that alone needs more than all may have is told so, whatever its memory is for.
func TestOTLP_OfMoreThanThereIsMemoryFor(t *testing.T) {
	db, _ := openForOTLP(t, OTLPOptions{})
	text := otlpText(otlpGaugeText("g", strings.Split(strings.Repeat(otlpPointText(1, `"asInt":"1"`)+";", 20_000), ";")[:20_000]...))
	message, err := otlpMessage(text)
	require.NoError(t, err)
	for what, test := range map[string]struct {
		most    int64
		body    []byte
		headers []string
	}{
		"body":     {512 << 10, text, []string{"Content-Type", otlpJSON}},
		"inflated": {512 << 10, zippedBody(t, string(message)), []string{"Content-Type", otlpProtobuf, "Content-Encoding", "gzip"}},
		"JSON":     {int64(len(text)) * 5 / 4, text, []string{"Content-Type", otlpJSON}},
		"points":   {6 << 20, message, []string{"Content-Type", otlpProtobuf}},
	} {
		h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{MaxMemoryBytes: test.most, MaxFuture: -1, MaxBufferedBytes: 32 << 20}})
		w := sendOTLP(h, test.body, test.headers...)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, "%s: %s", what, w.Body)
		require.Contains(t, w.Body.String(), "send less at a time", what)
		require.Zero(t, h.memory.taken.Load(), what)
		h.memory.taken.Add(test.most) // of others
		w = sendOTLP(h, otlpText(), "Content-Type", otlpJSON)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, what)
		require.Equal(t, retryAfter, w.Header().Get("Retry-After"))
	}
	require.Empty(t, newestOf(t, db))
}

// How large a body is that is zipped is seen when it is inflated. It has no place of a small one
// from then on.
func TestOTLP_AZippedBodyMayBecomeHeavy(t *testing.T) {
	db, opts, told, open := standing(t)
	opts.MaxInFlight = 2
	h := NewOTLPHandler(db, &OTLPOptions{Write: opts})
	gauge := func(name string) []byte {
		return otlpText(otlpGaugeText(name, fmt.Sprintf(`{"timeUnixNano":"%d000000","asInt":"1"}`, int64(writeNewest))))
	}
	stands := gauge("stands")
	heavy := zippedBody(t, strings.Replace(string(stands), "{", "{"+strings.Repeat(" ", 2*lightContent), 1))
	headers := []string{"Content-Type", otlpJSON, "Content-Encoding", "gzip"}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { sendOTLP(h, heavy, headers...) })
	}
	<-told
	for range 10 {
		w := sendOTLP(h, gauge("g"), "Content-Type", otlpJSON)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
	}
	require.Empty(t, told)
	open()
	group.Wait()
	require.Empty(t, h.slots.all)
	require.Empty(t, h.slots.heavy)
	require.Zero(t, h.memory.taken.Load())
}
