package compat

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/config"
	theirremote "github.com/prometheus/prometheus/storage/remote"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/remote"
)

// Names that translations treat in different ways.
var (
	otlpMetricNames = []string{"http.server.duration", "cpu_seconds", "a__b", "_x", "__x", "2xx", "total.things", "things_total", "weird name-1!", "größe", "temp:rec", "ratio", "x.per.second", "bytes", "a.", "ms"}
	otlpUnits       = []string{"", "1", "s", "ms", "By", "KiBy/s", "m/s", "%", "{request}", "{request}/s", "weird", "1/s", "Cel", "By/{op}", "s/min", "per second", "m.s", " ms ", "foo/bar"}
	otlpAttributes  = []string{"a", "a.b", "a_b", "a-b", "_x", "__x", "9z", "größe", "service.name", "job", "le", "http.method", "A", "a..b", "instance"}
)

// randomValue fills a value of any type.
func randomValue(rng *rand.Rand, v pcommon.Value, depth int) {
	switch rng.IntN(8) {
	case 0:
		v.SetBool(rng.IntN(2) == 0)
	case 1:
		v.SetInt(rng.Int64() - 1<<62)
	case 2:
		v.SetDouble([]float64{1.5, 1e-9, 1e21, 3, -0.25, 1e20}[rng.IntN(6)])
	case 3:
		v.SetEmptyBytes().FromRaw([]byte{1, 2, byte(rng.IntN(256))})
	case 4:
		for list := v.SetEmptySlice(); depth < 2 && list.Len() < rng.IntN(3); {
			randomValue(rng, list.AppendEmpty(), depth+1)
		}
	case 5:
		m := v.SetEmptyMap()
		for i := range rng.IntN(3) {
			randomValue(rng, m.PutEmpty(fmt.Sprint("k", 9-i)), depth+1)
		}
	default:
		v.SetStr([]string{"x", "y<&>", "ü", ""}[rng.IntN(4)])
	}
}

func randomAttributes(rng *rand.Rand, m pcommon.Map, most int) {
	for range rng.IntN(most + 1) {
		name := otlpAttributes[rng.IntN(len(otlpAttributes))]
		if _, there := m.Get(name); !there {
			randomValue(rng, m.PutEmpty(name), 0)
		}
	}
}

// dataPoint is what points of all kinds have.
type dataPoint interface {
	SetTimestamp(pcommon.Timestamp)
	SetStartTimestamp(pcommon.Timestamp)
	SetFlags(pmetric.DataPointFlags)
	Attributes() pcommon.Map
}

// randomMetric fills a metric with points of one time.
func randomMetric(rng *rand.Rand, m pmetric.Metric, now time.Time) {
	m.SetName(otlpMetricNames[rng.IntN(len(otlpMetricNames))])
	m.SetUnit(otlpUnits[rng.IntN(len(otlpUnits))])
	m.SetDescription("D")
	at, start := pcommon.NewTimestampFromTime(now), pcommon.NewTimestampFromTime(now.Add(-time.Minute))
	flags := pmetric.DefaultDataPointFlags.WithNoRecordedValue(rng.IntN(8) == 0)
	common := func(p dataPoint) {
		p.SetTimestamp(at)
		p.SetStartTimestamp(start)
		p.SetFlags(flags)
		randomAttributes(rng, p.Attributes(), 4)
	}
	number := func(p pmetric.NumberDataPoint) {
		common(p)
		if p.SetIntValue(rng.Int64N(1000)); rng.IntN(2) == 0 {
			p.SetDoubleValue(rng.Float64())
		}
	}
	switch rng.IntN(6) {
	case 0:
		number(m.SetEmptyGauge().DataPoints().AppendEmpty())
	case 1, 2:
		s := m.SetEmptySum()
		s.SetIsMonotonic(rng.IntN(2) == 0)
		s.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		number(s.DataPoints().AppendEmpty())
	case 3:
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		p := h.DataPoints().AppendEmpty()
		common(p)
		bounds, counts, all := []float64{}, []uint64{}, uint64(0)
		for i := range rng.IntN(5) {
			bounds = append(bounds, float64(i)*1.25+0.005)
		}
		for range len(bounds) + 1 {
			counts = append(counts, uint64(rng.IntN(4)))
			all += counts[len(counts)-1]
		}
		p.ExplicitBounds().FromRaw(bounds)
		p.BucketCounts().FromRaw(counts)
		p.SetCount(all)
		if rng.IntN(4) > 0 {
			p.SetSum(rng.Float64())
		}
	case 4:
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		p := h.DataPoints().AppendEmpty()
		common(p)
		p.SetScale(int32(rng.IntN(24)) - 4)
		p.SetZeroCount(uint64(rng.IntN(3)))
		// The reference passes over a zero threshold that is said.
		all := p.ZeroCount()
		for _, b := range []pmetric.ExponentialHistogramDataPointBuckets{p.Positive(), p.Negative()} {
			b.SetOffset(int32(rng.IntN(400)) - 200)
			for range rng.IntN(20) {
				n := uint64(rng.IntN(3))
				if p.Scale() > 8 {
					n++ // behind an empty one the reference puts some of the next into the bucket below
				}
				b.BucketCounts().Append(n)
				all += n
			}
		}
		p.SetCount(all)
		p.SetSum(rng.Float64())
	case 5:
		p := m.SetEmptySummary().DataPoints().AppendEmpty()
		p.SetTimestamp(at)
		p.SetFlags(flags)
		randomAttributes(rng, p.Attributes(), 3)
		p.SetCount(uint64(rng.IntN(9)))
		p.SetSum(rng.Float64())
		for _, quantile := range []float64{0.5, 0.999}[:rng.IntN(3)] {
			v := p.QuantileValues().AppendEmpty()
			v.SetQuantile(quantile)
			v.SetValue(rng.Float64())
		}
	}
}

// randomMetrics is a request. Every series has one point at most.
func randomMetrics(rng *rand.Rand, now time.Time) pmetric.Metrics {
	all := pmetric.NewMetrics()
	for i := range 1 + rng.IntN(2) {
		r := all.ResourceMetrics().AppendEmpty()
		randomAttributes(rng, r.Resource().Attributes(), 3)
		r.Resource().Attributes().PutStr("service.name", fmt.Sprintf("service-%d", i))
		if rng.IntN(2) == 0 {
			r.Resource().Attributes().PutStr("service.namespace", "space")
		}
		if rng.IntN(2) == 0 {
			r.Resource().Attributes().PutStr("service.instance.id", fmt.Sprint(i))
		}
		s := r.ScopeMetrics().AppendEmpty()
		s.SetSchemaUrl("https://example.com/schema")
		s.Scope().SetName("lib")
		if rng.IntN(2) == 0 {
			s.Scope().SetVersion("1.0")
		}
		randomAttributes(rng, s.Scope().Attributes(), 2)
		seen := map[string]bool{}
		for range 1 + rng.IntN(8) {
			m := pmetric.NewMetric()
			randomMetric(rng, m, now)
			if !seen[m.Name()] {
				seen[m.Name()] = true
				m.MoveTo(s.Metrics().AppendEmpty())
			}
		}
	}
	return all
}

// What a collector sends is stored as the reference stores it, under all ways to make names.
func TestOTLP_IsStoredAsByTheReference(t *testing.T) {
	for _, c := range []struct {
		ours   remote.OTLPOptions
		theirs config.OTLPConfig
	}{
		{remote.OTLPOptions{}, config.OTLPConfig{TranslationStrategy: otlptranslator.UnderscoreEscapingWithSuffixes}},
		{remote.OTLPOptions{Names: remote.OTLPUTF8, PromoteScope: true}, config.OTLPConfig{TranslationStrategy: otlptranslator.NoUTF8EscapingWithSuffixes, PromoteScopeMetadata: true}},
		{remote.OTLPOptions{Names: remote.OTLPUnderscoresOnly, CustomBuckets: true, KeepIdentifying: true}, config.OTLPConfig{TranslationStrategy: otlptranslator.UnderscoreEscapingWithoutSuffixes, ConvertHistogramsToNHCB: true, KeepIdentifyingResourceAttributes: true}},
		{remote.OTLPOptions{Names: remote.OTLPUntranslated, PromoteResourceAttributes: []string{"a.b", "le"}}, config.OTLPConfig{TranslationStrategy: otlptranslator.NoTranslation, PromoteResourceAttributes: []string{"a.b", "le"}}},
		{remote.OTLPOptions{PromoteAllResourceAttributes: true, IgnoreResourceAttributes: []string{"a"}}, config.OTLPConfig{TranslationStrategy: otlptranslator.UnderscoreEscapingWithSuffixes, PromoteAllResourceAttributes: true, IgnoreResourceAttributes: []string{"a"}}},
	} {
		t.Run(string(c.theirs.TranslationStrategy), func(t *testing.T) {
			c.theirs.LabelNameUnderscoreSanitization = config.DefaultOTLPConfig.LabelNameUnderscoreSanitization
			c.theirs.LabelNamePreserveMultipleUnderscores = config.DefaultOTLPConfig.LabelNamePreserveMultipleUnderscores
			rng := rand.New(rand.NewPCG(seed(t, 31), uint64(len(c.theirs.TranslationStrategy))))
			o, r := openOurs(t, t.TempDir()), openTheirs(t, t.TempDir())
			c.ours.Write.MaxFuture = -1
			our := remote.NewOTLPHandler(o.db, &c.ours)
			their := theirremote.NewOTLPWriteHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), r.db,
				func() config.Config { return config.Config{OTLPConfig: c.theirs} }, theirremote.OTLPOptions{LookbackDelta: 5 * time.Minute})
			now := time.UnixMilli(1_700_000_000_000)
			for range scaled(1000) {
				now = now.Add(time.Duration(1+rng.IntN(60_000)) * time.Millisecond)
				sent, err := pmetricotlp.NewExportRequestFromMetrics(randomMetrics(rng, now)).MarshalProto()
				require.NoError(t, err)
				for _, h := range []http.Handler{our, their} {
					req := httptest.NewRequest(http.MethodPost, "/v1/metrics", bytes.NewReader(sent))
					req.Header.Set("Content-Type", "application/x-protobuf")
					w := httptest.NewRecorder()
					h.ServeHTTP(w, req)
					require.Equal(t, http.StatusOK, w.Code, w.Body)
					if h == http.Handler(our) {
						answer := pmetricotlp.NewExportResponse()
						require.NoError(t, answer.UnmarshalProto(w.Body.Bytes()))
						for _, line := range strings.Split(answer.PartialSuccess().ErrorMessage(), "\n") {
							// Of metrics that get one name both keep the first; ours tells.
							require.Regexp(t, "^(duplicate sample.*)?$", line)
						}
					}
				}
			}
			want, got := r.dumpAny(), o.dumpAny()
			for _, d := range []anyData{want, got} { // where chunks are cut is for other tests
				for _, ps := range d {
					for i := range ps {
						ps[i].Hint = histogram.HintUnknown
					}
				}
			}
			requireEqualAny(t, want, got, "stored")
			require.Greater(t, len(got), 100)
		})
	}
}
