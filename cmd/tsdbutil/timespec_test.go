package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseTime_ReadsEachForm(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	for text, want := range map[string]int64{
		"":                              -7,
		"now":                           now.UnixMilli(),
		"0":                             0,
		"12":                            12_000,
		"12.3456":                       12_346,
		"-1.5":                          -1_500, // seconds before 1970, not before now
		"1e9":                           1_000_000_000_000,
		"2026-11-21T14:24:38Z":          1795271078000,
		"2026-11-21T15:24:38.250+01:00": 1795271078250,
		"-5m":                           now.UnixMilli() - 300_000,
		"-1d12h":                        now.UnixMilli() - 36*3600_000,
		"-250ms":                        now.UnixMilli() - 250,
		"-0s":                           now.UnixMilli(),
	} {
		got, err := parseTime("--start", text, now, -7)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseTime_RefusesTheRestAsUsage(t *testing.T) {
	for _, text := range []string{"yesterday", "5m", "-", "--5m", "NaN", "Inf", "1e300", "2026-11-21", "-5 minutes"} {
		_, err := parseTime("--end", text, time.Now(), 0)
		require.ErrorIs(t, err, errUsage, text)
		require.ErrorContains(t, err, "--end", text)
	}
}
