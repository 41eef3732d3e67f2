package histchunk_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
)

// The hex of docs/format/chunks.md is what the encoder writes.
func TestFormatPage_ShowsWhatIsWritten(t *testing.T) {
	var e histchunk.Encoder
	h := histogram.Histogram{
		Schema: 1, ZeroThreshold: 0x1p-128, ZeroCount: 1, Count: 7, Sum: 10.5,
		PositiveSpans:   []histogram.Span{{Offset: 0, Length: 2}, {Offset: 1, Length: 1}},
		PositiveBuckets: []int64{1, 1, 1},
	}
	e.Append(1_700_000_000_000, 0, &h)
	h.ZeroCount, h.Count, h.Sum, h.PositiveBuckets = 2, 11, 14, []int64{1, 2, 2}
	e.Append(1_700_000_015_000, 0, &h)
	page, err := os.ReadFile("../../docs/format/chunks.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "## 4. Histogram chunks")
	require.Contains(t, section, "\n"+hex.EncodeToString(e.AppendTo(nil))+"\n")
}
