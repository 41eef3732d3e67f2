package record_test

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// The hex of docs/format/wal-records.md is what the encoders write.
func TestFormatPage_ShowsWhatIsWritten(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/wal-records.md")
	require.NoError(t, err)
	_, examples, ok := strings.Cut(string(page), "## Example")
	require.True(t, ok)
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(examples, -1) {
		line := regexp.MustCompile(`(?m)^((?:[0-9a-f]{2} +)+)`)
		var b strings.Builder
		for _, m := range line.FindAllString(block[1], -1) {
			b.WriteString(strings.ReplaceAll(m, " ", ""))
		}
		shown = append(shown, b.String())
	}
	h := histogram.Histogram{
		Schema: 1, ZeroThreshold: 0x1p-128, ZeroCount: 1, Count: 7, Sum: 10.5,
		PositiveSpans:   []histogram.Span{{Offset: 0, Length: 2}, {Offset: 1, Length: 1}},
		PositiveBuckets: []int64{1, 1, 1},
	}
	e := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "abc"), Value: 0.25, T: 1700000000000}
	m := record.Metadata{Type: record.MetricCounter, Unit: "bytes", Help: "Sent."}
	require.Equal(t, []string{
		hex.EncodeToString(record.AppendSeries(record.BeginSeries(nil), 7, labels.FromStrings("__name__", "up", "job", "api"))),
		hex.EncodeToString(record.AppendSamples(nil, []record.Sample{{7, 1700000000000, 1}, {9, 1700000000000, 2.5}, {8, 1699999985000, 0}})),
		hex.EncodeToString(record.AppendTombstones(nil, []record.Tombstone{{7, -100, 1700000000000}})),
		hex.EncodeToString(encodeHistograms(record.TypeHistograms, []histogramEntry{{Ref: 7, T: 1700000000000, Int: &h}})),
		hex.EncodeToString(encodeExemplars([]exemplarEntry{{7, e}})),
		hex.EncodeToString(record.AppendMetadata(record.BeginMetadata(nil), 7, m)),
		hex.EncodeToString(record.AppendLateReach(nil, &wal.Reach{Mark: 3, NextRef: 200, Segment: 5, FirstSeq: 310, Synced: 329})),
	}, shown)
}
