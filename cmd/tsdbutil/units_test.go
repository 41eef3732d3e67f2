package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnit_IsKnownByTheNameOfAMetric(t *testing.T) {
	for name, want := range map[string]unit{
		"host_memory_bytes": unitBytes, "host_disk_bytes_total": unitBytes, "host_uptime_seconds": unitSeconds,
		"process_start_timestamp_seconds": unitTime, "cpu_percent": unitPercent, "up": unitNone, "": unitNone, "bytes": unitNone,
	} {
		require.Equal(t, want, unitOf(name), name)
	}
}

func TestUnit_ShowsValuesForPeople(t *testing.T) {
	for _, c := range []struct {
		unit unit
		v    float64
		want string
	}{
		{unitNone, 0, "0"}, {unitNone, 999_999, "999,999"}, {unitNone, -1234, "-1,234"}, {unitNone, 3.14159, "3.142"},
		{unitNone, 12345.6, "12,346"}, {unitNone, 2_500_000, "2.5 M"}, {unitNone, 1e15, "1e+15"}, {unitNone, 1e-7, "1e-07"},
		{unitNone, math.NaN(), "NaN"}, {unitBytes, math.Inf(-1), "-Inf"},
		{unitBytes, 0, "0 B"}, {unitBytes, 1536, "1.5 KiB"}, {unitBytes, -1536, "-1.5 KiB"}, {unitBytes, 0.25, "0.2 B"}, {unitBytes, 1e300, "1e+300 B"},
		{unitBytesPerSecond, 1 << 20, "1.0 MiB/s"}, {unitPerSecond, 7.5, "7.5/s"},
		{unitSeconds, 0, "0 s"}, {unitSeconds, 0.0000000025, "2 ns"}, {unitSeconds, 0.0125, "12.5 ms"}, {unitSeconds, 90, "90 s"},
		{unitSeconds, 3725, "1h2m5s"}, {unitSeconds, 200_000, "2.3 days"}, {unitSeconds, 1e18, "1e+18 s"}, {unitSeconds, -0.5, "-500 ms"},
		{unitPercent, 99.95, "100.0 %"},
	} {
		require.Equal(t, c.want, c.unit.format(c.v), "%v", c.v)
	}
	require.Equal(t, "1.5 µs", formatDuration(1500*time.Nanosecond))
}

func TestRawFloat_ReadsBackAsTheSameValue(t *testing.T) {
	for _, v := range []float64{0.1, 1e300, -5e-324, 1 << 60, math.Inf(1)} {
		back, err := parseRaw(rawFloat(v))
		require.NoError(t, err)
		require.Equal(t, v, back)
	}
}

func TestLatencies_ArePercentilesThatWereMeasured(t *testing.T) {
	var l latencies
	for i := 1000; i > 0; i-- {
		l = append(l, time.Duration(i)*time.Millisecond)
	}
	require.Equal(t, latencyJSON{P50: 0.5, P90: 0.9, P99: 0.99, P999: 0.999, Max: 1}, l.summarize())
	require.Equal(t, latencyJSON{P50: 3, P90: 3, P99: 3, P999: 3, Max: 3}, latencies{3 * time.Second}.summarize())
	require.Zero(t, latencies(nil).summarize())
}

func TestShorten_KeepsBothEnds(t *testing.T) {
	require.Equal(t, "short", shorten("short", 5))
	require.Equal(t, "ab…mz", shorten("abcdefghijklmz", 5))
	require.Len(t, []rune(shorten("äöüäöüäöüäöü", 8)), 8)
}

func TestShellQuote_GivesOneArgument(t *testing.T) {
	for in, want := range map[string]string{"./tsdb-demo": "./tsdb-demo", "a b": "'a b'", "": "''", "it's": `'it'\''s'`, "$x": "'$x'"} {
		require.Equal(t, want, shellQuote(in))
	}
}
