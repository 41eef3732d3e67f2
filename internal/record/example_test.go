package record_test

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
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
	require.Equal(t, []string{
		hex.EncodeToString(record.AppendSeries(record.BeginSeries(nil), 7, labels.FromStrings("__name__", "up", "job", "api"))),
		hex.EncodeToString(record.AppendSamples(nil, []record.Sample{{7, 1700000000000, 1}, {9, 1700000000000, 2.5}, {8, 1699999985000, 0}})),
		hex.EncodeToString(record.AppendTombstones(nil, []record.Tombstone{{7, -100, 1700000000000}})),
	}, shown)
}
