package remote

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// everyKindText has metrics of all kinds, with three points of each series, the newest a moment
// before otlpNow. Some have no value.
func everyKindText() []string {
	three := func(more string) (points []string) {
		for i := range int64(3) {
			points = append(points, otlpPointText(100*(3-i), strings.ReplaceAll(more, "N", fmt.Sprint(i+1))))
		}
		return append(points, otlpPointText(1, `"flags":1`))
	}
	kind := func(name, field, more string) string {
		return fmt.Sprintf(`{"name":%q,%q:{"aggregationTemporality":2,"dataPoints":[%s]}}`, name, field, strings.Join(three(more), ","))
	}
	return []string{
		otlpGaugeText("g", three(`"asDouble":N.5`)...),
		otlpSumText("s", otlpCumulative, three(`"asInt":"N"`)...),
		kind("h", "histogram", `"count":N,"sum":N,"bucketCounts":[N,0],"explicitBounds":[0.1]`),
		kind("e", "exponentialHistogram", `"count":N,"sum":N,"scale":1,"positive":{"offset":-2,"bucketCounts":[N]}`),
		kind("q", "summary", `"count":N,"sum":N,"quantileValues":[{"quantile":0.5,"value":N}]`),
	}
}

// allSamples are those of a database, as texts: a stale marker is not equal to itself.
func allSamples(t *testing.T, db *tsdb.DB) map[string][]string {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	names, _, err := q.LabelValues(t.Context(), labels.MetricName, nil)
	require.NoError(t, err)
	require.NoError(t, q.Close())
	all := map[string][]string{}
	for _, name := range names {
		for key, samples := range storedSamples(t, db, name) {
			for _, s := range samples {
				text := fmt.Sprint(s.T, " ", s.V)
				if s.H != nil {
					text = fmt.Sprint(s.T, " ", *s.H)
				}
				all[key] = append(all[key], text)
			}
		}
	}
	return all
}

// A request that comes again is answered as the first time, however many points of a series it has.
func TestOTLP_ARequestThatComesAgainIsThere(t *testing.T) {
	for _, options := range []OTLPOptions{{}, {CustomBuckets: true}, {Delta: OTLPDeltaStored}} {
		db, h := openForOTLP(t, options)
		metrics := everyKindText()
		if options.Delta == OTLPDeltaStored {
			metrics = append(metrics, otlpSumText("d", otlpDelta, otlpPointText(9, `"asInt":"1"`), otlpPointText(8, `"asInt":"2"`)))
		}
		status, first := sendOTLPText(h, metrics...)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "{}", first)
		stored, written := allSamples(t, db), h.(*OTLPHandler).Stats().Written["point"]
		require.Greater(t, len(stored), 5)
		for range 2 {
			status, again := sendOTLPText(h, metrics...)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, first, again)
		}
		require.Equal(t, stored, allSamples(t, db))
		require.Equal(t, 3*written, h.(*OTLPHandler).Stats().Written["point"])
	}
}

// A late point that is not there, or has another value, is refused, alone of its request.
func TestOTLP_LatePointsThatAreNotThere(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	sendOTLPText(h, everyKindText()...)
	stored := allSamples(t, db)
	status, body := sendOTLPText(h,
		otlpGaugeText("g", otlpPointText(300, `"asDouble":1.5`), otlpPointText(200, `"asDouble":7`), otlpPointText(150, `"asDouble":2.5`)),
		fmt.Sprintf(`{"name":"h","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, otlpPointText(300, `"count":1,"sum":1,"bucketCounts":[0,1],"explicitBounds":[0.1]`)),
		otlpGaugeText("other", otlpPointText(5, `"asInt":"1"`)))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"rejectedDataPoints":"3"`)
	require.Equal(t, 2, strings.Count(body, `for metric \"g\"`), body)
	require.Equal(t, 1, strings.Count(body, `for metric \"h\"`), body)
	after := allSamples(t, db)
	require.Len(t, after, len(stored)+1)
	for key, samples := range stored {
		require.Equal(t, samples, after[key])
	}
	require.EqualValues(t, 3, h.(*OTLPHandler).Stats().Refused[Refusal{"point", "out_of_order"}])

	status, body = sendOTLPText(h, otlpGaugeText("g", otlpPointText(250, `"asDouble":1.5`)))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, `for metric \"g\"`)
}

// Who sends what was never there is not looked for for ever, nor kept without a bound.
func TestOTLP_ManyLatePoints(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{})
	const series = 3 * maxLateMisses
	var newest, late []string
	for i := range series {
		attribute := fmt.Sprintf(`"asInt":"1","attributes":[{"key":"a","value":{"stringValue":"%d%s"}}]`, i, strings.Repeat("x", 2000))
		newest = append(newest, otlpPointText(1, attribute))
		for n := range int64(100) {
			late = append(late, otlpPointText(500-n, attribute))
		}
	}
	status, _ := sendOTLPText(h, otlpGaugeText("g", newest...))
	require.Equal(t, http.StatusOK, status)
	stored := allSamples(t, db)
	status, body := sendOTLPText(h, otlpGaugeText("g", late...))
	require.Equal(t, http.StatusBadRequest, status, body)
	require.EqualValues(t, len(late), h.(*OTLPHandler).Stats().Refused[Refusal{"point", "out_of_order"}])
	require.Equal(t, stored, allSamples(t, db))

	var list otlpLateList
	at := 0
	for large := labels.FromStrings("a", strings.Repeat("x", 64<<10), "n", "0"); list.keep(otlpLate{labels: large}); at++ {
		large = labels.FromStrings("a", strings.Repeat("x", 64<<10), "n", fmt.Sprint(at))
	}
	require.Less(t, list.bytes, maxLateBytes+128<<10)
	require.Less(t, at, 100)
}

// Sums of deltas are counted on: what came before the newest point is not looked for.
func TestOTLP_LateDeltasAreRefused(t *testing.T) {
	db, h := openForOTLP(t, OTLPOptions{Delta: OTLPDeltaSummed})
	metric := otlpSumText("d", otlpDelta, otlpPointText(9, `"asInt":"1"`), otlpPointText(8, `"asInt":"2"`))
	status, body := sendOTLPText(h, metric)
	require.Equal(t, http.StatusOK, status, body)
	stored := allSamples(t, db)
	status, body = sendOTLPText(h, metric)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"rejectedDataPoints":"1"`)
	require.Equal(t, stored, allSamples(t, db))
}
