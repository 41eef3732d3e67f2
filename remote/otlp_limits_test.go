package remote

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// Small requests that make much of little are refused before they take memory.
func TestOTLP_OfTextThatManyShare(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{Delta: OTLPDeltaSummed})
	long := strings.Repeat("x", 1<<20)
	var one, many []string
	for i := range 512 {
		many = append(many, fmt.Sprintf(`{"key":"a%c%d","value":{"stringValue":%q}}`, ".-_~"[i%4], 0, long[:4000]))
	}
	for range 1000 {
		one = append(one, `{"asInt":"1"}`)
	}
	resource := func(attribute string) []byte {
		return []byte(strings.Replace(string(otlpText(otlpSumText("s", otlpDelta, one...))), `"attributes":[`, `"attributes":[`+attribute+`,`, 1))
	}
	for name, text := range map[string][]byte{
		"attributes of one name": resource(strings.Join(many, ",")),
		"a long attribute":       resource(fmt.Sprintf(`{"key":"service.namespace","value":{"stringValue":%q}}`, long)),
		"a long name":            otlpText(otlpSumText(long, otlpDelta, one...)),
		"a long histogram": otlpText(fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`,
			otlpPointText(1, `"bucketCounts":[`+strings.Repeat("0,", 1<<18)+`0]`))),
		"a long number": otlpText(otlpGaugeText("g", `{"asDouble":"`+long+`"}`)),
	} {
		message, err := otlpMessage(text)
		if err == nil {
			require.Less(t, allocated(func() {
				w := sendOTLP(h, message, "Content-Type", otlpProtobuf)
				require.Equal(t, http.StatusBadRequest, w.Code, name)
				require.Less(t, w.Body.Len(), 20*(maxReasonText+maxSeriesText), name)
			}), uint64(10*len(message)+1<<20), name)
		}
		w := sendOTLP(h, text, "Content-Type", otlpJSON)
		require.Equal(t, http.StatusBadRequest, w.Code, name)
		require.Less(t, w.Body.Len(), 20*(maxReasonText+maxSeriesText), name)
	}
	require.Empty(t, newestOf(t, db))
	w := sendOTLP(h, otlpText(fmt.Sprintf(`{"name":"g","description":%q,"gauge":{"dataPoints":[%s]}}`, long, otlpPointText(1, `"asInt":"1"`))), "Content-Type", otlpJSON)
	require.Equal(t, "{}", w.Body.String(), "a description is no reason to lose a sample")
	require.Empty(t, metadataOf(t, db)["g"].Help)
}

// Messages of JSON that are longer than their text are held to the limit, too; so are target_info.
func TestOTLP_OfWhatGrows(t *testing.T) {
	_, h := openForOTLP(t, OTLPOptions{Write: WriteOptions{MaxBytes: 100_000}})
	text := otlpText(fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, otlpPointText(1, `"bucketCounts":[`+strings.Repeat("0,", 20_000)+`0]`)))
	w := sendOTLP(h, text, "Content-Type", otlpJSON)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, w.Body)

	db, h := openForOTLP(t, OTLPOptions{})
	var resources []string
	for i := range 2200 {
		resources = append(resources, fmt.Sprintf(`{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s%d"}},{"key":"h","value":{"stringValue":"h"}}]},"scopeMetrics":[{"metrics":[%s]}]}`, i,
			otlpGaugeText("g", `{"timeUnixNano":"1","asInt":"1"}`, otlpPointText(1, `"asInt":"1"`))))
	}
	w = sendOTLP(h, []byte(`{"resourceMetrics":[`+strings.Join(resources, ",")+`]}`), "Content-Type", otlpJSON)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "send less at a time")
	require.Empty(t, newestOf(t, db))
}

// What is refused of target_info is told, although it is no point.
func TestOTLP_TellsOfTargetInfo(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	text := strings.Replace(string(otlpText(otlpGaugeText("g", otlpPointText(1, `"asInt":"1"`)))), `"attributes":[`,
		`"attributes":[{"key":"process.command_line","value":{"stringValue":"`+strings.Repeat("x", 5000)+`"}},`, 1)
	w := sendOTLP(h, []byte(text), "Content-Type", otlpJSON)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"rejectedDataPoints":"0"`)
	require.Contains(t, w.Body.String(), "for target_info")
	require.Len(t, newestOf(t, db), 1)
}

// 400 says that nothing of any point is stored.
func TestOTLP_APointThatIsStoredInPart(t *testing.T) {
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get("le") == "+Inf" {
			return errors.New("no more")
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	clock.Set(time.UnixMilli(otlpNow))
	h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock}})
	status, body := sendOTLPText(h, fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, otlpPointText(5, `"count":3,"bucketCounts":[1,2],"explicitBounds":[1]`)))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"rejectedDataPoints":"1"`)
	require.Contains(t, body, "no more")
}

// Names of fields may be those of the message; a number that JSON does not have is no value.
func TestOTLP_JSONOfOthers(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	text := strings.NewReplacer("resourceMetrics", "resource_metrics", "scopeMetrics", "scope_metrics", "dataPoints", "data_points", "timeUnixNano", "time_unix_nano", "asInt", "as_int").
		Replace(string(otlpText(otlpGaugeText("g", otlpPointText(1, `"asInt":"3","attributes":[{"key":"a","value":{"array_value":{"values":[{"double_value":"NaN"}]}}}]`)))))
	w := sendOTLP(h, []byte(text), "Content-Type", otlpJSON)
	require.Equal(t, "{}", w.Body.String())
	require.Equal(t, map[string]string{`{__name__="g", job="shop"}`: "3"}, newestOf(t, db))
}

// An exemplar of the far future is left out, as a sample is.
func TestOTLP_ExemplarsOfTheFuture(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	status, _ := sendOTLPText(h, otlpSumText("s", otlpCumulative, otlpPointText(1, fmt.Sprintf(`"asInt":"3","exemplars":[{"timeUnixNano":"%d000000","asInt":"1"}]`, otlpNow+3600_000))))
	require.Equal(t, http.StatusOK, status)
	require.Zero(t, db.Stats().Exemplars)
}

// A delta counts if its point is stored, and once.
func TestOTLP_DeltasThatAreRefusedCountNothing(t *testing.T) {
	refuse := true
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if refuse && ls.Get(labels.MetricName) == "s_total" {
			return errors.New("no more")
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	clock.Set(time.UnixMilli(otlpNow))
	h := NewOTLPHandler(db, &OTLPOptions{Delta: OTLPDeltaSummed, StartTimestamps: true, Write: WriteOptions{Clock: clock}})
	send := func(before int64, v int) int {
		status, _ := sendOTLPText(h, otlpSumText("s", otlpDelta, otlpPointText(before, fmt.Sprintf(`"asInt":"%d","startTimeUnixNano":"%d000000"`, v, otlpNow-before-100))))
		return status
	}
	for i := range int64(3) {
		require.Equal(t, http.StatusBadRequest, send(10-i, 10))
	}
	refuse = false
	require.Equal(t, http.StatusOK, send(7, 1))
	require.Equal(t, http.StatusOK, send(7, 1), "a repeat")
	require.Equal(t, http.StatusBadRequest, send(7, 500), "another one of its time")
	require.Equal(t, http.StatusOK, send(6, 2))
	got := shopSamples(t, db, "s_total")
	require.Equal(t, []float64{1, 3}, floatsOf(got))
	require.Equal(t, otlpNow-107, got[0].ST)
	require.Equal(t, got[0].ST, got[1].ST, "counting began once")

	hist := func(before int64, count int, buckets string) int {
		status, _ := sendOTLPText(h, fmt.Sprintf(`{"name":"e","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[%s]}}`,
			otlpPointText(before, fmt.Sprintf(`"count":"%d","positive":{"bucketCounts":[%s]}`, count, buckets))))
		return status
	}
	require.Equal(t, http.StatusOK, hist(7, 2, "1,1"))
	require.Equal(t, http.StatusBadRequest, hist(6, 100, "1,1"), "its count is not that of its buckets")
	require.Equal(t, http.StatusBadRequest, hist(6, 5000, strings.Repeat("1,", 4999)+"1"), "too many to be added up")
	require.Equal(t, http.StatusOK, hist(5, 3, "1,2"))
	require.Equal(t, 5.0, shopSamples(t, db, "e")[1].FH.Count)
}

// Deltas that are stored as they come are no counters.
func TestOTLP_DeltasAsTheyAre(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{Delta: OTLPDeltaStored})
	for i := range int64(2) {
		status, _ := sendOTLPText(h, otlpSumText("s", otlpDelta, otlpPointText(9-i, `"asInt":"5"`)),
			fmt.Sprintf(`{"name":"e","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[%s]}}`, otlpPointText(9-i, `"count":"1","zeroCount":"1"`)))
		require.Equal(t, http.StatusOK, status)
	}
	require.Equal(t, []float64{5, 5}, floatsOf(shopSamples(t, db, "s_total")))
	require.Equal(t, histogram.HintGauge, shopSamples(t, db, "e")[1].H.Hint)
	require.Equal(t, tsdb.MetricUnknown, metadataOf(t, db)["s_total"].Type)
}
