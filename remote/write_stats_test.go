package remote

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// requireRefused requires what is refused, and that nothing else is.
func requireRefused(t *testing.T, s ReceiverStats, want map[Refusal]uint64) {
	t.Helper()
	got := maps.Clone(s.Refused)
	maps.DeleteFunc(got, func(_ Refusal, n uint64) bool { return n == 0 })
	require.Equal(t, want, got)
}

// countsRefused are series that have every reason for which a default database refuses something.
func countsRefused(now int64) []sentSeries {
	exemplarAt := func(t int64) sentExemplar { return sentExemplar{[]string{"trace_id", "a"}, t, 1} }
	bad := some(2)
	bad.Count = 100
	histograms := one("histograms")
	histograms.histograms = []tsdb.Sample{{T: now, H: some(1)}, {T: now + 1, H: bad}, {T: now + 1000*24*3600_000, H: some(3)}}
	late := one("late", at(now-1, 1), at(now, 2))
	late.exemplars = []sentExemplar{exemplarAt(now), exemplarAt(now + 1000*24*3600_000), {[]string{"trace_id", strings.Repeat("x", 200)}, now, 1}, {[]string{"a\xff", "1"}, now, 1}}
	ahead := one("ahead", at(now+1000*24*3600_000, 1))
	ahead.exemplars = []sentExemplar{exemplarAt(now)}
	bytes := sentSeries{pairs: []string{labels.MetricName, "bytes", "a\xff", "1"}, samples: []tsdb.Sample{at(now, 1), at(now+1, 1)}}
	bytes.histograms = []tsdb.Sample{{T: now, H: some(1)}}
	bytes.exemplars = []sentExemplar{exemplarAt(now), exemplarAt(now)}
	return []sentSeries{
		one("good", at(now, 1), at(now+1, 2)), bytes, late, ahead, histograms,
		{pairs: []string{"job", "anonymous"}, samples: []tsdb.Sample{at(now, 1)}},
		{pairs: []string{labels.MetricName, strings.Repeat("x", 5000)}, samples: []tsdb.Sample{at(now, 1)}},
		one("future", at(now+1, 1), at(now+1000*24*3600_000, 1)),
		one("ancient", at(writeStart-20*3600_000, 1)),
	}
}

// Each item of a request is counted as written or as refused, with the reason, and once, however
// often it comes.
func TestReceiverStats_CountEachItem(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, _ *tsdb.DB, h http.Handler, i int) {
		v, stats := writeEncoders[i], h.(*WriteHandler).Stats
		now := int64(writeNewest)
		requireRefused(t, stats(), map[Refusal]uint64{})
		require.Contains(t, stats().Refused, Refusal{"sample", "out_of_order"}, "it is there before it happens")
		requireWritten(t, send(h, v.contentType, v.encode(one("late", at(now, 1)))), v.version, http.StatusNoContent, "/1/0/0")
		require.Equal(t, uint64(1), stats().Written["sample"])

		all := countsRefused(now)
		sent := map[string]uint64{}
		for _, s := range all {
			sent["sample"] += uint64(len(s.samples))
			sent["histogram"] += uint64(len(s.histograms))
			sent["exemplar"] += uint64(len(s.exemplars))
		}
		want := map[Refusal]uint64{
			{"sample", "out_of_order"}: 1, {"sample", "duplicate"}: 1, {"sample", "future"}: 2, {"sample", "out_of_bounds"}: 1,
			{"sample", "invalid_labels"}: 3, {"sample", "limit"}: 1,
			{"histogram", "invalid_labels"}: 1, {"histogram", "invalid"}: 1, {"histogram", "future"}: 1,
			{"exemplar", "invalid_labels"}: 3, {"exemplar", "future"}: 1, {"exemplar", "limit"}: 1, {"exemplar", "sample_refused"}: 1,
			{"series", "invalid_labels"}: 2, {"series", "limit"}: 1,
		}
		for times := uint64(1); times <= 3; times++ {
			before := stats()
			require.Equal(t, http.StatusBadRequest, send(h, v.contentType, v.encode(all...)).Code)
			after := stats()
			for kind, n := range sent {
				for r, m := range after.Refused {
					if r.Kind == kind {
						n -= m - before.Refused[r]
					}
				}
				require.Equal(t, n, after.Written[kind]-before.Written[kind], "%s: sent, and neither written nor refused", kind)
			}
			expected := map[Refusal]uint64{}
			for r, n := range want {
				expected[r] = n * times
			}
			requireRefused(t, after, expected)
			require.Equal(t, times, after.Requests[http.StatusBadRequest])
		}
		require.Equal(t, uint64(1), stats().Requests[http.StatusNoContent])
		require.Equal(t, "remote_write", stats().Protocol)
	})
}

// What is left out without a word is counted, too.
func TestReceiverStats_CountWhatIsTurnedOff(t *testing.T) {
	series := one("all", at(writeNewest, 1))
	series.histograms = []tsdb.Sample{{T: writeNewest + 1, H: some(1)}, {T: writeNewest + 2, FH: someFloats(1)}}
	series.exemplars = []sentExemplar{{[]string{"trace_id", "a"}, writeNewest, 1}}
	series.meta = tsdb.Metadata{Help: "Help."}
	family := func(help string) []byte {
		return appendPart(nil, 3, appendString(appendString(nil, 2, "family"), 4, help))
	}
	for name, c := range map[string]struct {
		db   tsdb.Options
		opts WriteOptions
		want map[Refusal]uint64
	}{
		"histograms of the database": {tsdb.Options{Limits: tsdb.Limits{NoHistograms: true}}, WriteOptions{}, map[Refusal]uint64{{"histogram", "off"}: 2}},
		"histograms of the handler":  {tsdb.Options{}, WriteOptions{NoHistograms: true}, map[Refusal]uint64{{"histogram", "off"}: 2}},
		"exemplars of the database":  {tsdb.Options{Head: tsdb.HeadOptions{MaxExemplars: -1}}, WriteOptions{}, map[Refusal]uint64{{"exemplar", "off"}: 1}},
		"exemplars of the handler":   {tsdb.Options{}, WriteOptions{NoExemplars: true}, map[Refusal]uint64{{"exemplar", "off"}: 1}},
		"metadata":                   {tsdb.Options{}, WriteOptions{NoMetadata: true}, map[Refusal]uint64{{"metadata", "off"}: 1}},
		"long metadata":              {tsdb.Options{Limits: tsdb.Limits{MetadataBytes: 2}}, WriteOptions{}, map[Refusal]uint64{{"metadata", "limit"}: 1}},
		"nothing":                    {tsdb.Options{}, WriteOptions{}, map[Refusal]uint64{}},
	} {
		for _, v := range writeEncoders {
			t.Run(name+" "+v.name, func(t *testing.T) {
				db, clock := openForWrites(t, c.db)
				c.opts.Clock = clock
				h := NewWriteHandler(db, &c.opts)
				message := v.encode(series)
				switch {
				case v.version == writeV2:
				case c.db.Limits.MetadataBytes > 0:
					message = append(message, family(strings.Repeat("x", maxFamilyBytes))...)
				default:
					message = append(message, family("Help.")...)
				}
				send(h, v.contentType, message)
				requireRefused(t, h.Stats(), c.want)
			})
		}
	}
}

// Each exemplar of a point counts by itself where none are kept.
func TestReceiverStats_OfOTLPWithoutExemplars(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{Head: tsdb.HeadOptions{MaxExemplars: -1}})
	clock.Set(time.UnixMilli(otlpNow))
	h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock}})
	status, body := sendOTLPText(h, otlpSumText("s", otlpCumulative, otlpPointText(1, `"asInt":"3","exemplars":[{"asInt":"1"},{"asInt":"2"}]`)))
	require.Equal(t, http.StatusOK, status, body)
	requireRefused(t, h.Stats(), map[Refusal]uint64{{"exemplar", "off"}: 2})
}

// Late samples have the reasons of the database.
func TestReceiverStats_CountLateSamples(t *testing.T) {
	eachVersion(t, tsdb.Options{Head: tsdb.HeadOptions{OutOfOrderWindow: time.Minute}}, func(t *testing.T, _ *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		requireWritten(t, send(h, v.contentType, v.encode(one("m", at(writeNewest, 1)))), v.version, http.StatusNoContent, "/1/0/0")
		send(h, v.contentType, v.encode(one("m", at(writeNewest-1000, 1), at(writeNewest-100_000, 1), at(writeNewest, 2))))
		requireRefused(t, h.(*WriteHandler).Stats(), map[Refusal]uint64{{"sample", "too_old"}: 1, {"sample", "duplicate"}: 1})
	})
}

// A series of 2.0 whose references lead nowhere is refused with what it has, and one without
// anything by itself.
func TestReceiverStats_CountSeriesThatAreNotDecoded(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	lost := appendPart(nil, 1, []byte{1, 100})
	for range 3 {
		lost = appendPart(lost, 2, encodeSample(at(writeNewest, 1)))
	}
	lost = appendPart(lost, 3, encodeHistogram(tsdb.Sample{T: writeNewest, H: some(1)}))
	lost = appendPart(appendPart(lost, 4, nil), 4, nil)
	message := append(encodeV2(one("empty"), one("good", at(writeNewest, 1))), appendPart(nil, 5, lost)...)
	require.Equal(t, http.StatusBadRequest, send(h, writeEncoders[1].contentType, message).Code)
	require.Equal(t, map[string]uint64{"sample": 1, "histogram": 0, "exemplar": 0}, h.Stats().Written)
	requireRefused(t, h.Stats(), map[Refusal]uint64{
		{"series", "empty"}: 1, {"series", "invalid_labels"}: 1,
		{"sample", "invalid_labels"}: 3, {"histogram", "invalid_labels"}: 1, {"exemplar", "invalid_labels"}: 2,
	})
}

// A request that is decoded twice counts once, and one that fails does not count at all: it comes
// again, or nobody knows what it has.
func TestReceiverStats_OfRequestsThatAreNoSimpleOnes(t *testing.T) {
	const later = 8 * 3600_000
	for _, v := range writeEncoders {
		_, h := racing(t, func(db *tsdb.DB, time int) {
			if time == 1 {
				commit(t, db, "newest", writeNewest+later/2, 1)
				require.NoError(t, db.Flush(t.Context()))
			}
		})
		stats := h.(*WriteHandler).Stats
		send(h, v.contentType, v.encode(one("goes", at(writeNewest, 1))))
		w := send(h, v.contentType, v.encode(one("goes", at(writeNewest+later, 2)), one("rule", at(writeNewest+later, 1))))
		requireWritten(t, w, v.version, http.StatusBadRequest, "/1/0/0")
		want := map[Refusal]uint64{{"series", "limit"}: 1, {"sample", "limit"}: 1}
		requireRefused(t, stats(), want)

		message := append(v.encode(one("", at(writeNewest, 1)), one("good", at(writeNewest+later, 1))), 0xff)
		requireWritten(t, send(h, v.contentType, message), v.version, http.StatusBadRequest, "/0/0/0")
		requireRefused(t, stats(), want)
		require.Equal(t, uint64(2), stats().Written["sample"])
		require.Equal(t, http.StatusUnsupportedMediaType, send(h, "text/plain", nil).Code)
		require.Equal(t, http.StatusRequestEntityTooLarge, sendBody(NewWriteHandler(nil, nil), v.contentType, make([]byte, defaultRequestBytes+1)).Code)
		require.Equal(t, map[int]uint64{204: 1, 400: 2, 403: 0, 405: 0, 413: 0, 415: 1, 500: 0, 503: 0}, stats().Requests)
	}
}

// What another commit makes late counts with the rest.
func TestReceiverStats_CountWhatCommitRejects(t *testing.T) {
	for _, v := range writeEncoders {
		_, h := racing(t, func(db *tsdb.DB, _ int) { commit(t, db, "late", writeNewest+5, 5) })
		send(h, v.contentType, v.encode(one("late", at(writeNewest, 1)), one("rule", at(writeNewest, 1))))
		requireRefused(t, h.(*WriteHandler).Stats(), map[Refusal]uint64{{"sample", "out_of_order"}: 1, {"series", "limit"}: 1, {"sample", "limit"}: 1})
	}
}

// Points are what OTLP counts.
func TestReceiverStats_OfOTLP(t *testing.T) {
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) == "none" {
			return errors.New("no more")
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits, Head: tsdb.HeadOptions{MaxExemplars: 10}})
	clock.Set(time.UnixMilli(otlpNow))
	h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock}})
	value := func(before int64) string { return otlpPointText(before, `"asInt":"1"`) }
	exemplars := func(times ...int64) string {
		var list []string
		for _, t := range times {
			list = append(list, fmt.Sprintf(`{"timeUnixNano":"%d000000","asInt":"1"}`, t))
		}
		return otlpPointText(5, `"asInt":"1","exemplars":[`+strings.Join(list, ",")+`]`)
	}
	metrics := []string{
		otlpGaugeText("good", value(9), value(8)), otlpGaugeText("", value(5)),
		otlpGaugeText("future", value(-11*60_000)), otlpGaugeText("twice", value(5), otlpPointText(5, `"asInt":"2"`)),
		otlpGaugeText("back", value(5), value(6)), otlpGaugeText("none", value(5)),
		otlpSumText("delta", otlpDelta, value(5), value(4)), otlpSumText("nothing", 0, value(5)),
		otlpSumText("traced", otlpCumulative, exemplars(otlpNow-5, otlpNow+3600_000)),
		fmt.Sprintf(`{"name":"odd","histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}`, otlpPointText(5, `"count":3,"bucketCounts":[1,2],"explicitBounds":[1,2,3]`)),
		fmt.Sprintf(`{"name":"told","description":%q,"gauge":{"dataPoints":[%s]}}`, strings.Repeat("x", maxTextBytes+1), value(5)),
	}
	status, body := sendOTLPText(h, metrics...)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, map[string]uint64{"point": 6, "exemplar": 1}, h.Stats().Written)
	requireRefused(t, h.Stats(), map[Refusal]uint64{
		{"point", "invalid_labels"}: 1, {"point", "future"}: 1, {"point", "duplicate"}: 1, {"point", "out_of_order"}: 1, {"point", "limit"}: 1,
		{"point", "off"}: 2, {"point", "invalid"}: 2, {"exemplar", "future"}: 1, {"metadata", "limit"}: 1,
	})
	require.Equal(t, uint64(1), h.Stats().Requests[http.StatusOK])
	require.Equal(t, "otlp", h.Stats().Protocol)

	h = NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock, NoExemplars: true, NoMetadata: true}})
	text := strings.Replace(string(otlpText(otlpSumText("traced", otlpCumulative, exemplars(otlpNow-5)))), `"attributes":[`,
		`"attributes":[{"key":"process.command_line","value":{"stringValue":"`+strings.Repeat("x", 5000)+`"}},`, 1)
	require.Equal(t, http.StatusOK, sendOTLP(h, []byte(text), "Content-Type", otlpJSON).Code)
	requireRefused(t, h.Stats(), map[Refusal]uint64{{"exemplar", "off"}: 1, {"metadata", "off"}: 1, {"series", "limit"}: 1})
	require.Equal(t, map[string]uint64{"point": 1, "exemplar": 0}, h.Stats().Written)
	require.Equal(t, http.StatusBadRequest, sendOTLP(h, []byte("{"), "Content-Type", otlpJSON).Code)
	require.Equal(t, http.StatusUnsupportedMediaType, sendOTLP(h, nil, "Content-Type", "text/plain").Code)
	require.Equal(t, map[int]uint64{200: 1, 400: 1, 403: 0, 405: 0, 413: 0, 415: 1, 500: 0, 503: 0}, h.Stats().Requests)
}

// A point that Commit rejects counts with the rest.
func TestReceiverStats_OfOTLP_WhatCommitRejects(t *testing.T) {
	h, _, _ := sendOvertaken(t)
	requireRefused(t, h.Stats(), map[Refusal]uint64{{"point", "out_of_order"}: 2})
	require.Equal(t, uint64(1), h.Stats().Written["point"])
}

// Every error that is about an item has its reason.
func TestReasonOf_KnowsTheErrors(t *testing.T) {
	for why, list := range map[refusalReason][]error{
		reasonOrder:     {tsdb.ErrOutOfOrder, errDeltaOrder},
		reasonDuplicate: {tsdb.ErrDuplicateSample, errDeltaTwice},
		reasonOld:       {tsdb.ErrTooOld},
		reasonFuture:    {errFuture, &tsdb.BoundsError{T: 5, From: 1, To: 4}},
		reasonBounds:    {tsdb.ErrOutOfBounds, &tsdb.BoundsError{T: 1, From: 2, To: 4}, &tsdb.BoundsError{T: math.MinInt64, From: 2, To: 4}},
		reasonOff:       {errNoHistograms, tsdb.ErrHistogramsOff, errDelta},
		reasonLimit:     {tsdb.ErrLimit, errSeriesLimit, errDeltaSeries, errPointSize, errValueDepth},
		reasonLabels:    {tsdb.ErrInvalidLabels, errNoMetricName, errReference, errOddLabels},
		reasonEmpty:     {errNoSamples},
		reasonInvalid:   {errHistogram, errBuckets, errScale, errTemporality, tsdb.ErrInvalidMetadata},
	} {
		for _, err := range list {
			require.Equal(t, reasonNames[why], reasonNames[reasonOf(errors.WithMessage(err, "item"))], err)
		}
	}
}
