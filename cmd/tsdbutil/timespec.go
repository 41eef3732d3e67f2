package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/xhit/go-str2duration/v2"
)

// latestSeconds bounds times given in seconds: their milliseconds fit an int64.
const latestSeconds = math.MaxInt64 / 1000

// parseTime reads a time as milliseconds since the epoch: RFC 3339, seconds since the
// epoch with or without a fraction, "now", or a duration before now, as in -5m or
// -1d12h. The empty text gives missing.
func parseTime(flag, text string, now time.Time, missing int64) (int64, error) {
	switch {
	case text == "":
		return missing, nil
	case text == "now":
		return now.UnixMilli(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UnixMilli(), nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(s) <= latestSeconds {
		return int64(math.Round(s * 1000)), nil
	}
	if before, ok := strings.CutPrefix(text, "-"); ok && !strings.HasPrefix(before, "-") {
		if d, err := str2duration.ParseDuration(before); err == nil {
			return now.Add(-d).UnixMilli(), nil
		}
	}
	return 0, usageError(flag + ": cannot read the time " + strconv.Quote(text) +
		": want RFC 3339 (2006-01-02T15:04:05Z), seconds since 1970, now, or a time before now (-5m, -1d12h)")
}
