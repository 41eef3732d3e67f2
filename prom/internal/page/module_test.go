package page_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// called gets the value of an expression over the module m of the page's scripts.
func called[T any](p *tab, module, expression string) T {
	p.t.Helper()
	code := fmt.Sprintf("import('/assets/%s').then((m) => JSON.stringify(%s))", module, expression)
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](code, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	var v T
	require.NoError(p.t, json.Unmarshal([]byte(text), &v), "%s: %s", expression, text)
	return v
}

func TestCompletion_KnowsWhatCanStandAtTheCursor(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for query, want := range map[string]string{ // | is the cursor
		"|":                          "expression ''",
		"no|":                        "expression 'no'",
		"rate(no|":                   "expression 'no'",
		"rate(node|_load1[5m])":      "expression 'node'",
		"up{|":                       "label '' of up",
		"up{jo|":                     "label 'jo' of up",
		"up{job=|":                   "none ''",
		`up{job="|`:                  "value '' of up job",
		`up{job="no|"}`:              "value 'no' of up job",
		`up{job!~"no|`:               "value 'no' of up job",
		`up{job="node",|`:            "label '' of up",
		`up{job="node"|`:             "none ''",
		`up{job="node",instance="w|`: "value 'w' of up instance",
		`{"a.b", "c.d"="x|`:          "value 'x' of  c.d",
		"sum by (|":                  "label '' of ",
		"sum by (in|) (up)":          "label 'in' of up",
		"up * on(job|":               "label 'job' of up",
		"sum without(a, b|":          "label 'b' of ",
		"rate(up[|":                  "duration ''",
		"rate(up[5|":                 "duration '5'",
		"rate(up[5m]|":               "expression ''",
		"up # rate|":                 "none '# rate'",
		`label_replace(up, "a|`:      "none ''",
		"sum(up) + ra|":              "expression 'ra'",
		"ä|":                         "none 'ä'",
	} {
		got := called[string](p, "promql.js", fmt.Sprintf(`((q) => {
			const c = m.contextAt(q.replace('|', ''), q.indexOf('|'));
			const of = c.kind === 'label' ? ' of ' + c.metrics.join(' ') : c.kind === 'value' ? ' of ' + c.metric + ' ' + c.label : '';
			return c.kind + " '" + c.prefix + "'" + of;
		})(%q)`, query))
		require.Equal(t, want, got, query)
	}
}

func TestTimes_AreReadAndWritten(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for text, want := range map[string]float64{"15m": 900, "1h30m": 5400, "1d": 86400, "2w": 1209600, "90": 90, "1.5": 1.5, "250ms": 0.25, " 1h ": 3600} {
		require.Equal(t, want, called[float64](p, "time.js", fmt.Sprintf("m.parseDuration(%q)", text)), text)
	}
	for _, text := range []string{"", "h", "1x", "-5m", "5m!", "1h 30 q"} {
		require.Nil(t, called[any](p, "time.js", fmt.Sprintf("m.parseDuration(%q)", text)), text)
	}
	for seconds, want := range map[string]string{"5400": "1h30m", "86400": "1d", "0.25": "250ms", "1050.5": "17m30s500ms", "1209600": "14d", "0": "0s"} {
		require.Equal(t, want, called[string](p, "time.js", "m.formatDuration("+seconds+")"))
	}
	// The clocks of Berlin went from 2 to 3 on 2026-03-29, at 1:00 UTC.
	for at, want := range map[string]string{"2026-03-29T00:59:59Z": "2026-03-29 01:59:59", "2026-03-29T01:00:00Z": "2026-03-29 03:00:00"} {
		require.Equal(t, want, called[string](p, "time.js", fmt.Sprintf("new m.Clock(false).full(Date.parse(%q))", at)))
		require.Equal(t, want, called[string](p, "time.js", fmt.Sprintf("((c) => c.full(c.read(c.input(Date.parse(%q)))))(new m.Clock(false))", at)))
	}
}

func TestAxis_DaysBeginAtMidnightBehindAChangeOfTheClocks(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	texts := called[[]string](p, "axis.js", `((c) => {
		const { step, ticks } = m.timeTicks(Date.parse('2026-03-27T12:00:00Z'), Date.parse('2026-03-31T12:00:00Z'), 5, c);
		return ticks.map((t) => m.timeText(t, step, c) + ' ' + new Date(t).toISOString());
	})({offset: (t) => -new Date(t).getTimezoneOffset() * 60000, day: (t) => new Date(t).toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})})`)
	require.Equal(t, []string{
		"28 Mar 2026-03-27T23:00:00.000Z", "29 Mar 2026-03-28T23:00:00.000Z", "30 Mar 2026-03-29T22:00:00.000Z", "31 Mar 2026-03-30T22:00:00.000Z",
	}, texts)
	require.Equal(t, []float64{0, 0.5, 1, 1.5, 2}, called[[]float64](p, "axis.js", "m.valueTicks(0, 2.1, 5)"))
	require.Equal(t, []float64{-20, 0, 20, 40}, called[[]float64](p, "axis.js", "m.valueTicks(-25, 45, 4)"))
	require.Less(t, called[int](p, "axis.js", "m.valueTicks(1e15, 1e15 + 0.001, 8).length"), 101)
}

func TestNumbers_AreReadable(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for expression, want := range map[string]string{
		"m.value(1234567.5)": "1,234,567.5", "m.value(0)": "0", "m.value(-0.1)": "-0.1", "m.value(NaN)": "NaN", "m.value(1/0)": "+∞", "m.value(2.5e-9)": "2.5e-9", "m.value(1e21)": "1e+21",
		"m.short(12345)": "12.35k", "m.short(9.4e9)": "9.4G", "m.short(0.0434)": "0.0434", "m.short(0.00002)": "20µ", "m.short(-1500000)": "-1.5M", "m.short(0)": "0",
		"m.bytes(0)": "0 bytes", "m.bytes(1)": "1 byte", "m.bytes(1536)": "1.54 kB", "m.bytes(57.5e9)": "57.5 GB", "m.count(1234567)": "1,234,567",
	} {
		require.Equal(t, want, called[string](p, "number.js", expression), expression)
	}
}

func TestNumbers_OfAnAxisAreInOneStyle(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for _, c := range []struct{ values, linear, logarithmic string }{
		{"[0, 2000, 8000, 10000]", "0 2k 8k 10k", "0 2k 8k 10k"},
		{"[0, 2000, 8000]", "0 2,000 8,000", "0 2,000 8,000"},
		{"[0, 500, 1000000]", "0 0.0005M 1M", "0 500 1M"},
		{"[-12500, 0, 12500]", "-12.5k 0 12.5k", "-12.5k 0 12.5k"},
		{"[100000, 100000.5]", "100k 100.0005k", "100k 100.0005k"},
		{"[0, 0.0002, 0.001]", "0 0.0002 0.001", "0 200µ 1m"},
		{"[0.00002, 0.00003]", "20µ 30µ", "20µ 30µ"},
		{"[0.001, 0.1, 10]", "0.001 0.1 10", "0.001 0.1 10"},
		{"[0.1, 0.30000000000000004]", "0.1 0.3", "0.1 0.3"},
		{"[-1/0, 100, 50000, 1/0]", "−∞ 0.1k 50k +∞", "−∞ 100 50k +∞"},
		{"[0, 5e-12]", "0 5e-12", "0 5e-12"},
		{"[0, 0]", "0 0", "0 0"},
		{"[]", "", ""},
	} {
		require.Equal(t, c.linear, called[string](p, "number.js", "m.ticks("+c.values+", true).join(' ')"), c.values)
		require.Equal(t, c.logarithmic, called[string](p, "number.js", "m.ticks("+c.values+", false).join(' ')"), c.values)
	}
}

func TestNumbers_ThatDifferLookDifferent(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for values, want := range map[string]string{
		"[12512.4, 12498.1, 12512.4]":  "12.512k 12.498k 12.512k",
		"[412345678, 412345679]":       "412.345678M 412.345679M",
		"[41234567, 41234568]":         "41.234567M 41.234568M",
		"[12512.41, 12512.42]":         "12.51241k 12.51242k",
		"[1.5, NaN, 0]":                "1.5 NaN 0",
		"[NaN, NaN, NaN]":              "NaN NaN NaN",
		"[87.8612345, 25.26, 151.299]": "87.861 25.26 151.3",
	} {
		require.Equal(t, want, called[string](p, "number.js", "m.distinct("+values+").join(' ')"), values)
	}
}

func TestState_LinkShowsTheSame(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for _, fragment := range []string{
		"#", "#view=health", "#q=sum+by+%28job%29+%28up%29&range=1d12h&end=2026-03-01T10%3A00%3A00.000Z&step=15s&refresh=30s&stacked&utc", "#view=table&q=up", "#q=up&exemplars",
	} {
		require.Equal(t, fragment, called[string](p, "state.js", fmt.Sprintf("m.writeState(m.readState(%q))", fragment)))
	}
	for _, wrong := range []string{"#view=none", "#range=-5m&step=x&end=never", "#range=0s", "#%"} {
		require.Equal(t, "#", called[string](p, "state.js", fmt.Sprintf("m.writeState(m.readState(%q))", wrong)), wrong)
	}
}

func TestSeries_GapsAndInfinitiesAreNoValues(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	got := called[[]any](p, "series.js", `((x) => [x.length, [...x.series[0].values].map(String), x.series[0].last, m.bounds(m.lines(x, false), false), m.bounds(m.lines(x, true), true)])(
		new m.Matrix([{metric: {__name__: 'a', b: 'c'}, values: [[0, '1'], [20, '+Inf'], [30, '3']]}, {metric: {__name__: 'a', b: 'd'}, values: [[0, '5'], [30, '5']]}], 0, 30000, 10000))`)
	require.Equal(t, float64(4), got[0])
	require.Equal(t, []any{"1", "NaN", "Infinity", "3"}, got[1])
	require.Equal(t, float64(3), got[2])
	require.InDeltaSlice(t, []any{0.0, 5.3}, got[3], 1e-9)
	require.InDeltaSlice(t, []any{0.0, 8.48}, got[4], 1e-9)
}
