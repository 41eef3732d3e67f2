package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFeatures_ThatAreGiven(t *testing.T) {
	for given, want := range map[string]string{
		"st-storage":                      "",
		"st-storage,type-and-unit-labels": "",
		"other":                           `--enable-feature "other": want otlp-deltatocumulative, `,
		"":                                `--enable-feature ""`,
		"otlp-deltatocumulative,otlp-native-delta-ingestion": "want one of",
	} {
		c, err := parse([]string{"--enable-feature", given}, io.Discard, io.Discard)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, strings.Split(given, ","), c.features)
	}
}

// sendDelta sends what was counted since the last time, by OTLP, and returns what is said of it.
func sendDelta(t *testing.T, s *served, at time.Time, v int) string {
	t.Helper()
	body := fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"calls","unit":"By","sum":{"aggregationTemporality":1,"isMonotonic":true,
		"dataPoints":[{"startTimeUnixNano":"%d","timeUnixNano":"%d","asInt":"%d"}]}}]}]}]}`, at.Add(-time.Second).UnixNano(), at.UnixNano(), v)
	resp, err := http.Post(s.url+"/api/v1/otlp/v1/metrics", "application/json", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// What becomes of OTLP is told by the names that Prometheus has.
func TestServe_FeaturesOfOTLP(t *testing.T) {
	for feature, want := range map[string]string{
		"": "", "otlp-deltatocumulative": "7", "otlp-native-delta-ingestion": "4",
		"type-and-unit-labels,otlp-deltatocumulative": `counter bytes 7`,
	} {
		t.Run(feature, func(t *testing.T) {
			args := []string{"--storage.tsdb.path", filepath.Join(t.TempDir(), "data"), "--web.enable-otlp-receiver"}
			if feature != "" {
				args = append(args, "--enable-feature", feature)
			}
			s := start(t, args...)
			now := time.Now()
			first, second := sendDelta(t, s, now.Add(-time.Second), 3), sendDelta(t, s, now, 4)
			if want == "" {
				require.Contains(t, first, "delta")
				require.Contains(t, second, "delta")
			}
			var answer struct {
				Data struct {
					Result []struct {
						Metric map[string]string
						Value  [2]any
					}
				}
			}
			s.get(t, "/api/v1/query?query=calls_bytes_total", &answer)
			got := ""
			for _, r := range answer.Data.Result {
				got += strings.TrimSpace(fmt.Sprint(r.Metric["__type__"], " ", r.Metric["__unit__"], " ", r.Value[1]))
			}
			require.Equal(t, want, got)
			require.Zero(t, s.stop(), "%s", s.log)
		})
	}
}
