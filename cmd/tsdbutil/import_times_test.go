package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

func TestTimeCheck_RefusesAheadAndWarnsOfOldOnes(t *testing.T) {
	const year = 365 * 24 * 3600 * 1000
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC).UnixMilli()
	for _, c := range []struct {
		now, t       int64
		ahead, warns bool
	}{
		{now, now, false, false},
		{now, now + year, false, false},
		{now, now + year + 1, true, false},
		{now, now * 1000, true, false},
		{now, math.MaxInt64 - 1, true, false},
		{now, now - year, false, false},
		{now, now - year - 1, false, true},
		{now, now - 100*year, false, true},
		{now, math.MinInt64 + 1, false, true},
		{now, now / 1000, false, true},
		{now, 0, false, true},
		{now, year - 1, false, true},
		{now, year, false, true},
		{now, 1 - year, false, true},
		{now, -year, false, true},
		{-5 * year, math.MaxInt64 - 1, true, false},
		{-5 * year, 0, true, false},
		{year, 0, false, false}, // such a clock knows no better
		{-5 * year, -6 * year, false, false},
		{math.MaxInt64, math.MinInt64, false, true},
	} {
		check := timeCheck{now: c.now, ifAhead: "ask"}
		err := check.check(c.t)
		require.Equal(t, c.ahead, err != nil, c)
		if c.ahead {
			require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
		}
		_, warns := check.warning()
		require.Equal(t, c.warns, warns, c)
		_, warns = check.warning()
		require.False(t, warns, "once")
		check = timeCheck{now: c.now, allowFuture: true}
		require.NoError(t, check.check(c.t))
	}
}

func TestImport_TimesThatCannotBeMeant_AreNamedByLine(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		args    []string
		code    int
		message string
	}{
		"milliseconds for seconds": {"a 1 1700000000000\na 2 1700000015000\n# EOF\n", nil, exitProblem,
			"line 1: the time 55840-11-08T22:13:20Z is more than a year ahead of the clock, which says "},
		"what to do": {"a 1 1700000000000\n# EOF\n", nil, exitProblem,
			"times of OpenMetrics are seconds; if they are milliseconds, --format=prom reads them; --allow-future takes it as it is"},
		"that is done":        {"a 1 1700000000000\n# EOF\n", []string{"--format=prom"}, exitOK, "imported 1 sample"},
		"meant":               {"a 1 1700000000000\n# EOF\n", []string{"--allow-future"}, exitOK, "imported 1 sample"},
		"the good ones":       {"a 1 1700000000\na 1 1700000000000\n# EOF\n", []string{"-k"}, exitProblem, "skipped line 2: the time 55840"},
		"seconds for millis":  {"# a\na 1 1700000000\n", []string{"--format=prom"}, exitOK, "warning: line 2: the time 1970-01-20T16:13:20Z is within a year of 1970: times of this format are milliseconds; if they are seconds, --format=openmetrics"},
		"old":                 {"a 1 1500000000\na 1 1700000\n# EOF\n", nil, exitOK, "warning: line 1: the time 2017-07-14T02:40:00Z is more than a year before the clock, which says "},
		"old is taken":        {"a 1 1500000000\n# EOF\n", nil, exitOK, ": it is taken as it is"},
		"and older":           {"a 1 1700000\na 1 1500000000\n# EOF\n", nil, exitOK, "warning: line 1: the time 1970-01-20T16:13:20Z is within a year of 1970"},
		"how many are old":    {"a 1 1500000000\na 1 1500000001\n# EOF\n", nil, exitOK, "warning: 2 samples more than a year before the clock"},
		"how many":            {"a 1 1700000000\na 2 1700000015\n", []string{"--format=prom"}, exitOK, "warning: 2 samples within a year of 1970"},
		"seconds, no format":  {"a 1 1700000000\n", nil, exitProblem, `the file ends without "# EOF"`},
		"millis, no end mark": {"a 1 1700000000000\n", nil, exitOK, "as the Prometheus text format, times in milliseconds, by its content"},
		"nanoseconds":         {"{a=\"b\"} 1 1700000000000000000\n", nil, exitProblem, "times of this format are milliseconds; --allow-future"},
		"table":               {"time,value,x\n1700000000000,1,a\n", nil, exitProblem, "line 2: column value: the time 55840-11-08T22:13:20Z is more than a year ahead of the clock"},
		"table, what to do":   {"time,value,x\n1700000000000,1,a\n", []string{"--time-format=unix_ms"}, exitOK, "imported 1 sample"},
		"table, early":        {"timestamp_ms,value,x\n1700000000,1,a\n", nil, exitOK, "warning: line 2: the time 1970-01-20"},
		"influx":              {"_time,_value,_field\n2526-01-01T00:00:00Z,1,a\n", nil, exitProblem, "line 2: column _value: the time 2526"},
		"json":                {"{\"labels\":{\"a\":\"b\"},\n\"samples\":[[1700000000000,1],\n[1700000000000000,1]]}", nil, exitProblem, "line 3: the time 55840"},
	} {
		code, messages := importFile(t, "a.txt", []byte(c.text), c.args...)
		require.Equal(t, c.code, code, "%s: %s", name, messages)
		require.Contains(t, messages, c.message, name)
	}
}
