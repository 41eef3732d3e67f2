package horizon_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/horizon"
)

// The example of docs/format/horizon.md.
func TestFile_IsAsItsPageSays(t *testing.T) {
	h := &horizon.Horizon{Keep: 24 * time.Hour}
	h.Begin(1_700_000_000_000)
	h.Look(1_700_000_060_000, 1_700_000_060_000)
	got := horizon.Encode(h, clock.Passed{Since: "ab", Time: 5 * time.Second})
	require.Equal(t, "74686f7201026162904e80a0abfef962000001c0a90780f0b252fcd2e371", hex.EncodeToString(got))
}
