package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// otlpText is a request in JSON with one resource, of service shop, and these metrics.
func otlpText(metrics ...string) []byte {
	return []byte(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeMetrics":[{"metrics":[` +
		strings.Join(metrics, ",") + `]}]}]}`)
}

// otlpMessage is the message of a request in JSON.
func otlpMessage(text []byte) ([]byte, error) {
	var c jsonConverter
	return c.convert(text, 1<<24, anyMemory())
}

// otlpPointText is a point, some milliseconds before otlpNow, with more fields.
func otlpPointText(before int64, more string) string {
	return fmt.Sprintf(`{"timeUnixNano":"%d000000",%s}`, otlpNow-before, more)
}

func otlpGaugeText(name string, points ...string) string {
	return fmt.Sprintf(`{"name":%q,"gauge":{"dataPoints":[%s]}}`, name, strings.Join(points, ","))
}

func otlpSumText(name string, temporality int, points ...string) string {
	return fmt.Sprintf(`{"name":%q,"sum":{"aggregationTemporality":%d,"isMonotonic":true,"dataPoints":[%s]}}`, name, temporality, strings.Join(points, ","))
}

func sendOTLPText(h http.Handler, metrics ...string) (status int, body string) {
	w := sendOTLP(h, otlpText(metrics...), "Content-Type", otlpJSON)
	return w.Code, w.Body.String()
}

// shopSamples returns what a database has of a metric of service shop without other labels.
func shopSamples(t testing.TB, db *tsdb.DB, name string) []tsdb.Sample {
	return storedSamples(t, db, name)[labels.FromStrings(labels.MetricName, name, "job", "shop").String()]
}

// What is stored of a message does not depend on how it is sent.
func TestOTLP_InProtobufIsAsInJSON(t *testing.T) {
	text := otlpText(
		otlpGaugeText("g", otlpPointText(5, `"asDouble":1.5,"attributes":[{"key":"a","value":{"doubleValue":1e-9}}]`), otlpPointText(5, `"asInt":"-3"`)),
		fmt.Sprintf(`{"name":"e","unit":"s","description":"D","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`,
			otlpPointText(5, `"count":"7","sum":3,"scale":1,"zeroCount":"1","positive":{"offset":-2,"bucketCounts":["1","0","0","0","2"]},"negative":{"offset":3,"bucketCounts":[3]}`)),
		fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`,
			otlpPointText(5, `"count":3,"sum":3,"bucketCounts":[1,2],"explicitBounds":[0.1]`)))
	message, err := otlpMessage(text)
	require.NoError(t, err)
	var all []map[string]string
	for i, body := range [][]byte{text, message, zippedBody(t, string(message))} {
		db, h := openForOTLP(t, OTLPOptions{})
		headers := []string{"Content-Type", otlpProtobuf}
		if i == 0 {
			headers[1] = otlpJSON
		} else if i == 2 {
			headers = append(headers, "Content-Encoding", "gzip")
		}
		w := sendOTLP(h, body, headers...)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, headers[1], w.Header().Get("Content-Type"))
		require.Equal(t, map[int]string{0: "{}"}[i], w.Body.String())
		all = append(all, newestOf(t, db))
		require.Equal(t, "hist", newestOf(t, db)[`{__name__="e_seconds", job="shop"}`])
		e := shopSamples(t, db, "e_seconds")
		require.Equal(t, []histogram.Span{{Offset: -1, Length: 1}, {Offset: 3, Length: 1}}, e[0].H.PositiveSpans)
		require.Equal(t, []int64{1, 1}, e[0].H.PositiveBuckets)
		require.Equal(t, map[string]tsdb.Metadata{
			"e_seconds": {Type: tsdb.MetricHistogram, Unit: "seconds", Help: "D"}, "g": {Type: tsdb.MetricGauge},
			"h_bucket": {Type: tsdb.MetricHistogram}, "h_count": {Type: tsdb.MetricHistogram}, "h_sum": {Type: tsdb.MetricHistogram},
		}, metadataOf(t, db))
	}
	require.Equal(t, all[0], all[1])
	require.Equal(t, all[0], all[2])
	require.Equal(t, "-3", all[0][`{__name__="g", job="shop"}`])
	require.Equal(t, "1.5", all[0][`{__name__="g", a="1e-9", job="shop"}`])
}

// Points that cannot be stored are counted and told of; the others are stored.
func TestOTLP_TellsWhatIsRefused(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	status, body := sendOTLPText(h,
		otlpGaugeText("good", otlpPointText(5, `"asInt":"1"`)),
		otlpGaugeText("future", otlpPointText(-11*60_000, `"asInt":"1"`)),
		otlpSumText("delta", otlpDelta, otlpPointText(5, `"asInt":"1"`), otlpPointText(4, `"asInt":"1"`)),
		otlpGaugeText("twice", otlpPointText(5, `"asInt":"1"`), otlpPointText(5, `"asInt":"2"`)),
		fmt.Sprintf(`{"name":"odd","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, otlpPointText(5, `"count":3,"bucketCounts":[1,2],"explicitBounds":[1,2,3]`)))
	require.Equal(t, http.StatusOK, status)
	var answer struct {
		PartialSuccess struct{ RejectedDataPoints, ErrorMessage string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.Equal(t, "5", answer.PartialSuccess.RejectedDataPoints, body)
	for _, part := range []string{`too far in the future for metric "future"`, `delta temporality`, `duplicate`, `2 counts, 3 bounds`} {
		require.Contains(t, answer.PartialSuccess.ErrorMessage, part)
	}
	require.Equal(t, 5, strings.Count(answer.PartialSuccess.ErrorMessage, "\n")+1)
	require.Len(t, newestOf(t, db), 2)

	message, err := otlpMessage(otlpText(otlpGaugeText("good", otlpPointText(4, `"asInt":"1"`)), otlpGaugeText("", otlpPointText(4, `"asInt":"1"`))))
	require.NoError(t, err)
	w := sendOTLP(h, message, "Content-Type", otlpProtobuf)
	require.Equal(t, http.StatusOK, w.Code)
	partial := readFields(w.Body.Bytes())
	require.True(t, partial.next())
	r := readFields(partial.bytes())
	require.True(t, r.next())
	require.EqualValues(t, 1, r.varint())
	require.True(t, r.next())
	require.Equal(t, `no metric name for metric ""`, r.string())

	status, body = sendOTLPText(h, otlpGaugeText("", otlpPointText(4, `"asInt":"1"`)))
	require.Equal(t, http.StatusBadRequest, status)
	require.JSONEq(t, `{"code":3,"message":"no metric name for metric \"\""}`, body)
}

// sendOvertaken sends points two of which another commit makes late between Append and Commit.
func sendOvertaken(t *testing.T) (h *OTLPHandler, status int, body string) {
	t.Helper()
	var db *tsdb.DB
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) == "other" {
			app := db.Appender()
			_, err := app.Append(0, labels.FromStrings(labels.MetricName, "late", "job", "shop"), otlpNow, 1)
			require.NoError(t, err)
			_, err = app.Commit(t.Context())
			require.NoError(t, err)
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	clock.Set(time.UnixMilli(otlpNow))
	h = NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock, MaxFuture: -1}})
	status, body = sendOTLPText(h, otlpGaugeText("late", otlpPointText(5, `"asInt":"1"`), otlpPointText(4, `"asInt":"1"`)), otlpGaugeText("other", otlpPointText(4, `"asInt":"1"`)))
	return h, status, body
}

// A sample that another commit makes late between Append and Commit is told of, too.
func TestOTLP_TellsWhatCommitRejects(t *testing.T) {
	_, status, body := sendOvertaken(t)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"rejectedDataPoints":"2"`)
	require.Contains(t, body, `out of order`)
}

// Deltas are added up, each once, whatever comes twice or fails.
func TestOTLP_DeltasAreAddedUp(t *testing.T) {
	fs := tsdbtest.NewMemFS()
	db, clock := openForWrites(t, tsdb.Options{FS: fs})
	clock.Set(time.UnixMilli(otlpNow))
	h := NewOTLPHandler(db, &OTLPOptions{Delta: OTLPDeltaSummed, MaxDeltaSeries: 10, Write: WriteOptions{Clock: clock, MaxFuture: -1}})
	delta := func(before int64, v int) []string {
		point := otlpPointText(before, fmt.Sprintf(`"asInt":"%d"`, v))
		hist := otlpPointText(before, fmt.Sprintf(`"count":"%d","sum":%d,"scale":0,"positive":{"offset":%d,"bucketCounts":["%d"]}`, v, v, v%3, v))
		return []string{otlpSumText("sum", otlpDelta, point), fmt.Sprintf(`{"name":"hist","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[%s]}}`, hist)}
	}
	sum := 0
	for i := range 5 {
		if i == 3 { // nothing of a request that fails counts
			fs.SetCapacity(fs.Used())
			status, _ := sendOTLPText(h, delta(int64(100-i), 50+i)...)
			require.Equal(t, http.StatusServiceUnavailable, status)
			fs.SetCapacity(1 << 30)
		}
		sum += i + 1
		for range 2 { // the answer was lost
			status, body := sendOTLPText(h, delta(int64(100-i), i+1)...)
			require.Equal(t, http.StatusOK, status, body)
			require.Equal(t, "{}", body)
		}
		sums, hists := shopSamples(t, db, "sum_total"), shopSamples(t, db, "hist")
		require.Len(t, sums, i+1)
		require.Len(t, hists, i+1)
		require.Equal(t, float64(sum), sums[i].V)
		require.Equal(t, float64(sum), hists[i].FH.Count)
		require.Equal(t, float64(sum), hists[i].FH.Sum)
	}
	status, body := sendOTLPText(h, delta(101, 1)...)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, errDeltaOrder.Error())

	// There is a bound, and room again when some got nothing for an hour.
	var many []string
	for i := range 10 {
		many = append(many, otlpSumText(fmt.Sprint("m", i), otlpDelta, otlpPointText(5, `"asInt":"1"`)))
	}
	status, body = sendOTLPText(h, many...)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"rejectedDataPoints":"2"`)
	require.Contains(t, body, errDeltaSeries.Error())
	clock.Advance(2 * deltaIdle)
	status, body = sendOTLPText(h, many[8:]...)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "{}", body)
}

// Buckets of a scale that is too large become those of the largest that is stored: each bound of
// that is one of the others, and no count crosses it.
func TestOTLP_ExponentialBucketsAreThoseOfTheNextScales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := exponentialBuckets{offset: rapid.Int64Range(-2000, 2000).Draw(t, "offset")}
		b.counts = rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 40).Draw(t, "counts")
		halvings := rapid.Int64Range(0, 12).Draw(t, "halvings")
		want := map[int64]uint64{}
		for i, n := range b.counts {
			// (2^o, 2^(o+1)] with o in units of 2^-halvings ends in bucket ceil((o+1)/2^halvings).
			end := int64(math.Ceil(float64(b.offset+int64(i)+1) / float64(int64(1)<<halvings)))
			if n > 0 {
				want[end] += n
			}
		}
		h := histogram.Histogram{}
		var fits bool
		h.PositiveSpans, h.PositiveBuckets, fits = b.native(nil, nil, halvings)
		require.True(t, fits)
		got, index, at, count := map[int64]uint64{}, int64(0), 0, int64(0)
		for _, span := range h.PositiveSpans {
			index += int64(span.Offset)
			for range span.Length {
				count += h.PositiveBuckets[at]
				if at++; count > 0 {
					got[index] = uint64(count)
				}
				index++
			}
		}
		require.Equal(t, want, got)
	})
	for _, b := range []exponentialBuckets{{math.MaxInt32, []uint64{1}}, {math.MinInt32 - 2, []uint64{1}}, {0, []uint64{math.MaxUint64}}} {
		_, _, fits := b.native(nil, nil, 0)
		require.False(t, fits)
	}
}

// Exemplars stand with the first bucket that holds them.
func TestOTLP_ExemplarsOfHistograms(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	exemplarText := func(v float64, more string) string {
		return fmt.Sprintf(`{"timeUnixNano":"%d000000","asDouble":%v,"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331"%s}`, int64(otlpNow), v, more)
	}
	status, body := sendOTLPText(h, fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`,
		otlpPointText(5, `"count":3,"bucketCounts":[1,2,0],"explicitBounds":[0.1,2],"exemplars":[`+
			exemplarText(3, "")+","+exemplarText(0.1, `,"filteredAttributes":[{"key":"a.b","value":{"intValue":7}}]`)+","+
			exemplarText(1.5, `,"filteredAttributes":[{"key":"long","value":{"stringValue":"`+strings.Repeat("x", 200)+`"}}]`)+
			fmt.Sprintf(`,{"timeUnixNano":"%d000000","asDouble":"NaN"}]`, int64(otlpNow)))))
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "{}", body)
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	found, err := q.Exemplars(context.Background(), labels.Equal(labels.MetricName, "h_bucket"))
	require.NoError(t, err)
	got := map[string]string{}
	for _, s := range found {
		for _, e := range s.Exemplars {
			got[fmt.Sprint(s.Labels.Get("le"), " ", e.Value)] = e.Labels.String()
		}
	}
	ids := `span_id="b7ad6b7169203331", trace_id="0af7651916cd43dd8448eb211c80319c"}`
	require.Equal(t, map[string]string{"+Inf 3": "{" + ids, "0.1 0.1": `{a_b="7", ` + ids, "2 1.5": "{" + ids, "0.1 NaN": "{}"}, got)
}

// target_info is there at the times of the points of its resource, so that every query of them
// finds it.
func TestOTLP_TargetInfoIsBesideItsPoints(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	text := strings.Replace(string(otlpText(otlpGaugeText("g", otlpPointText(600_000, `"asInt":"1"`), otlpPointText(1, `"asInt":"1"`)))),
		`"attributes":[`, `"attributes":[{"key":"host.name","value":{"stringValue":"h"}},`, 1)
	for range 2 {
		w := sendOTLP(h, []byte(text), "Content-Type", otlpJSON)
		require.Equal(t, http.StatusOK, w.Code)
	}
	info := storedSamples(t, db, "target_info")[`{__name__="target_info", host_name="h", job="shop"}`]
	require.Len(t, info, 5)
	require.Equal(t, []int64{otlpNow - 600_000, otlpNow - 1}, []int64{info[0].T, info[4].T})
	for i := range info[1:] {
		require.LessOrEqual(t, info[i+1].T-info[i].T, infoInterval)
		require.Equal(t, 1.0, info[i].V)
	}
}

func TestOTLP_StartTimestampsAndNothingRecorded(t *testing.T) {
	for _, starts := range []bool{false, true} {
		db, h := openForOTLP(t, OTLPOptions{StartTimestamps: starts})
		start := fmt.Sprintf(`"startTimeUnixNano":"%d000000"`, otlpNow-1000)
		status, body := sendOTLPText(h, otlpSumText("s", otlpCumulative, otlpPointText(5, `"asInt":"1",`+start), otlpPointText(4, `"flags":1,`+start)),
			fmt.Sprintf(`{"name":"e","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[%s,%s]}}`, otlpPointText(5, `"count":"1","zeroCount":"1"`), otlpPointText(4, `"flags":1`)))
		require.Equal(t, http.StatusOK, status, body)
		got := shopSamples(t, db, "s_total")
		require.Equal(t, starts, got[0].ST == otlpNow-1000)
		require.True(t, tsdb.IsStale(got[1].V))
		require.True(t, shopSamples(t, db, "e")[1].H.Stale())
	}
}

func TestOTLP_OfWhatIsNoRequest(t *testing.T) {
	_, h := openForOTLP(t, OTLPOptions{Write: WriteOptions{MaxBytes: 4000}})
	deep := strings.Repeat(`{"arrayValue":{"values":[`, 100) + strings.Repeat(`]}}`, 100)
	for text, want := range map[string]string{
		``: "unexpected end", `[]`: "no object", `{`: "unexpected end", `{}{`: "at byte 3", `{"resourceMetrics":3}`: "resourceMetrics: no object",
		`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":3}]}]}]}`:                                   "name: no string",
		string(otlpText(otlpGaugeText("g", otlpPointText(1, `"asInt":"x"`)))):                                 "asInt: \\\"x\\\" is no whole number",
		string(otlpText(otlpGaugeText("g", otlpPointText(1, `"exemplars":[{"traceId":"xyz"}]`)))):             "traceId",
		string(otlpText(otlpGaugeText("g", otlpPointText(1, `"attributes":[{"key":"a","value":`+deep+`}]`)))): "levels",
		`{"resourceMetrics":[` + strings.Repeat(`{},`, 2000) + `{}]}`:                                         "body exceeds the limit",
	} {
		w := sendOTLP(h, []byte(text), "Content-Type", otlpJSON)
		require.GreaterOrEqual(t, w.Code, 400, text)
		require.Less(t, w.Code, 500, text)
		require.Contains(t, w.Body.String(), want, text)
	}
	for _, body := range [][]byte{{0xff}, appendPart(nil, 1, []byte{0x12, 200}), []byte("garbage")} {
		w := sendOTLP(h, body, "Content-Type", otlpProtobuf)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), errMalformed.Error())
	}
	w := sendOTLP(h, zippedBody(t, strings.Repeat("x", 5000)), "Content-Type", otlpProtobuf, "Content-Encoding", "gzip")
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	zipped := zippedBody(t, "{}")
	for _, body := range [][]byte{[]byte("no gzip"), nil, zipped[:5], zipped[:len(zipped)-1], append(slices.Clone(zipped), "more"...)} {
		w = sendOTLP(h, body, "Content-Type", otlpProtobuf, "Content-Encoding", "gzip")
		require.Equal(t, http.StatusBadRequest, w.Code, body)
	}
}

// A body takes the memory of the one before it, unless that was much.
func TestInflate_KeepsItsMemory(t *testing.T) {
	for size, keeps := range map[int]bool{100_000: true, keptBytes / 2: true, keptBytes * 2: false} {
		text := strings.Repeat("x", size)
		h := NewOTLPHandler(nil, nil)
		zipped, z := zippedBody(t, text), inflater{}
		b := h.borrowBody()
		inflate := func(limit int) error {
			h.opts.MaxBytes = limit
			b.bytes = zipped
			got, err := z.inflate(context.Background(), b, &turn{in: &h.intake})
			if err == nil && string(got) != text {
				t.Fatal(len(got))
			}
			z.content.reset(&b.memory, keptBytes)
			require.Zero(t, h.memory.taken.Load())
			return err
		}
		require.NoError(t, inflate(size))
		require.Equal(t, keeps, allocated(func() { require.NoError(t, inflate(size)) }) < 10_000, size)
		require.ErrorIs(t, inflate(size-1), errBodyLimit)
	}
}

// Whatever comes is answered, and what is stored can be read.
func FuzzOTLP(f *testing.F) {
	for _, metric := range []string{
		otlpGaugeText("g", otlpPointText(5, `"asDouble":1.5,"attributes":[{"key":"a","value":{"kvlistValue":{"values":[{"key":"b","value":{"bytesValue":"eHg="}}]}}}]`)),
		otlpSumText("s", otlpDelta, otlpPointText(5, `"asInt":"1"`)),
		fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, otlpPointText(5, `"count":3,"bucketCounts":[1,2],"explicitBounds":[1]`)),
		fmt.Sprintf(`{"name":"e","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[%s]}}`, otlpPointText(5, `"count":3,"scale":9,"positive":{"offset":1,"bucketCounts":[1,2]}`)),
		fmt.Sprintf(`{"name":"q","summary":{"dataPoints":[%s]}}`, otlpPointText(5, `"count":3,"quantileValues":[{"quantile":0.5,"value":1}]`)),
	} {
		message, err := otlpMessage(otlpText(metric))
		require.NoError(f, err)
		f.Add(message, false)
		f.Add(otlpText(metric), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		db, h := openForOTLP(t, OTLPOptions{Delta: OTLPDeltaSummed})
		custom := NewOTLPHandler(db, &OTLPOptions{CustomBuckets: true, PromoteScope: true, Names: OTLPUTF8, Delta: OTLPDeltaStored})
		media := otlpProtobuf
		if isJSON {
			media = otlpJSON
		}
		for _, h := range []http.Handler{h, custom} {
			w := sendOTLP(h, body, "Content-Type", media)
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge}, w.Code, w.Body)
		}
		newestOf(t, db)
	})
}

// Points of series that are known take no memory: what a request takes does not depend on how many
// it has.
func TestOTLP_OfKnownSeriesAllocatesNothingPerPoint(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	clock.Set(time.UnixMilli(otlpNow))
	h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock, MaxFuture: -1}})
	now := int64(otlpNow)
	per := func(points int) float64 {
		const runs = 50
		var messages [][]byte
		for range runs + 20 {
			now += 1000
			var gauges, hists []string
			for i := range points {
				attributes := fmt.Sprintf(`"attributes":[{"key":"host.name","value":{"stringValue":"h%d"}},{"key":"n","value":{"intValue":"%d"}}]`, i, i)
				gauges = append(gauges, otlpPointText(otlpNow-now, `"asInt":"1",`+attributes))
				hists = append(hists, otlpPointText(otlpNow-now, `"count":3,"bucketCounts":[1,2],"explicitBounds":[0.1],`+attributes))
			}
			message, err := otlpMessage(otlpText(otlpGaugeText("known", gauges...),
				fmt.Sprintf(`{"name":"h","description":"D","unit":"s","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, strings.Join(hists, ","))))
			require.NoError(t, err)
			messages = append(messages, message)
		}
		q := &otlpRequest{h: h}
		store := func() {
			message := messages[0]
			messages = messages[1:]
			if err := q.store(context.Background(), message, anyMemory()); err != nil || q.refused.n > 0 {
				t.Fatal(err, q.refused.message())
			}
		}
		for range 15 {
			store()
		}
		return testing.AllocsPerRun(runs, store)
	}
	few, many := per(5), per(500)
	t.Logf("%v allocations for a request of 10 points, %v of 1000", few, many)
	require.Less(t, (many-few)/990, 0.02)
}

// Names that are kept are those that are made, whatever is asked before.
func TestOTLPNameCache_SaysWhatIsMade(t *testing.T) {
	var c otlpNameCache
	units := []string{"", "1", "s", "By/s", "{x}"}
	for range 2 {
		for i := range maxOTLPNames + 10 {
			name, unit := fmt.Sprintf("a.%d", i/len(units)), units[i%len(units)]
			for _, typ := range []tsdb.MetricType{tsdb.MetricGauge, tsdb.MetricCounter} {
				for _, ratio := range []bool{true, false} {
					m := otlpMetric{name, unit, typ}
					if !ratio && unit == "1" {
						m.unit = ""
					}
					require.Equal(t, otlpNamed{OTLPUnderscores.metricName(m), unitName(unit)}, c.of(OTLPUnderscores, []byte(name), []byte(unit), typ, ratio))
				}
			}
		}
	}
	require.LessOrEqual(t, len(c.known), maxOTLPNames)
	long := strings.Repeat("x", longOTLPName)
	require.Equal(t, long, c.of(OTLPUnderscores, []byte(long), nil, tsdb.MetricGauge, false).name)
	require.NotContains(t, c.known, string(c.key))
}
