package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// unit is what a value counts.
type unit uint8

const (
	unitNone unit = iota
	unitBytes
	unitSeconds
	unitPercent
	unitBytesPerSecond
	unitPerSecond
	unitTime // seconds since the epoch
)

// unitOf tells the unit of a metric by the end of its name, as is the custom.
func unitOf(metric string) unit {
	base := strings.TrimSuffix(metric, "_total")
	switch {
	case strings.HasSuffix(base, "_bytes"):
		return unitBytes
	case strings.HasSuffix(base, "_timestamp_seconds"):
		return unitTime
	case strings.HasSuffix(base, "_seconds"):
		return unitSeconds
	case strings.HasSuffix(base, "_percent"):
		return unitPercent
	default:
		return unitNone
	}
}

// format writes a value for people.
func (u unit) format(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return rawFloat(v)
	}
	switch u {
	case unitBytes:
		return formatBytes(v)
	case unitBytesPerSecond:
		return formatBytes(v) + "/s"
	case unitPerSecond:
		return formatNumber(v) + "/s"
	case unitSeconds:
		return formatSeconds(v)
	case unitPercent:
		if math.Abs(v) >= 1000 {
			return formatNumber(v) + " %"
		}
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	case unitTime:
		return formatTime(int64(v * 1000))
	default:
		return formatNumber(v)
	}
}

// rawFloat writes a value for programs: the shortest text that reads back as the
// same value.
func rawFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func formatBytes(v float64) string {
	if v < 0 {
		return "-" + formatBytes(-v)
	}
	if v < 1024 && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 1, 64) + " B"
	}
	if v >= 1<<63 {
		return strconv.FormatFloat(v, 'g', 4, 64) + " B"
	}
	return humanize.IBytes(uint64(v))
}

// Bounds of plain notation: beyond them a prefix or an exponent reads better.
const (
	plainAbove = 1e-4
	plainBelow = 1e6
)

func formatNumber(v float64) string {
	abs := math.Abs(v)
	switch {
	case v == math.Trunc(v) && abs < plainBelow:
		return humanize.Comma(int64(v))
	case abs >= 1e15 || abs < plainAbove:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case abs >= plainBelow:
		return strings.TrimSuffix(humanize.SIWithDigits(v, 2, ""), " ")
	case abs >= 1000:
		return humanize.Comma(int64(math.Round(v)))
	default:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
}

// formatSeconds shows three digits; a day and more is counted in days.
func formatSeconds(v float64) string {
	if math.Abs(v) > math.MaxInt64/1e10 {
		return strconv.FormatFloat(v, 'g', 4, 64) + " s"
	}
	return formatDuration(time.Duration(v * float64(time.Second)))
}

func formatDuration(d time.Duration) string {
	digits := func(v float64, unit string) string {
		return strconv.FormatFloat(v, 'g', 3, 64) + " " + unit
	}
	switch abs := d.Abs(); {
	case abs == 0:
		return "0 s"
	case abs < time.Microsecond:
		return digits(float64(d), "ns")
	case abs < time.Millisecond:
		return digits(float64(d)/1e3, "µs")
	case abs < time.Second:
		return digits(float64(d)/1e6, "ms")
	case abs < 100*time.Second:
		return digits(d.Seconds(), "s")
	case abs < 24*time.Hour:
		return d.Round(time.Second).String()
	default:
		return strconv.FormatFloat(d.Hours()/24, 'f', 1, 64) + " days"
	}
}

// formatTime shows milliseconds since the epoch in local time.
func formatTime(t int64) string {
	return time.UnixMilli(t).Format("2006-01-02 15:04:05")
}

// count writes a whole number with its thousands apart.
func count[T ~int | ~int64 | ~uint64](n T) string { return humanize.Comma(int64(n)) }

// things counts something: 1 segment, 2 segments.
func things[T ~int | ~int64 | ~uint64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}
