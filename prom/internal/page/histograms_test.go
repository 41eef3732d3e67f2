package page_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// heats are how many colours of the heat map there are, and the rows of pixels that are deepest at
// a part of its width, from the top.
const deepest = `((part) => {
  const c = document.querySelector('.heat .lines'), n = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const rows = [], colours = new Set();
  for (let y = 30; y < c.height - 30; y++) {
    const i = (y * c.width + Math.round(c.width * part)) * 4;
    rows.push([n[i] + n[i + 1] + n[i + 2] || 765, y / c.height]);
    colours.add(n[i] + ' ' + n[i + 1] + ' ' + n[i + 2]);
  }
  return [colours.size, rows.reduce((a, b) => (b[0] < a[0] ? b : a))[1]];
})`

func TestHistograms_HeatMapIsDeepWhereMuchWasObserved(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db})
	p.open("q", `rate(http_request_duration_seconds{path="/api/orders"}[5m])`, "range", "6h")
	p.until("document.querySelector('#heat-0')?.checkVisibility() && document.querySelector('#result').ariaBusy === 'false'")
	require.False(t, p.has("#chart"), "there are no lines")
	require.False(t, p.has("#style-group"))
	require.Contains(t, p.text(".ramp"), "observations per doubling of the value")
	early, slow := eval[[]float64](p, deepest+"(0.2)"), eval[[]float64](p, deepest+"(0.51)")
	require.Greater(t, early[0], 8.0, "colours at one time")
	require.Greater(t, early[1]-slow[1], 0.1, "they were slow then, which is higher up")
	p.noErrors("willReadFrequently")
}

func TestHistograms_SeriesAreChosen(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db})
	p.open("q", "rate(http_request_duration_seconds[5m])", "range", "6h")
	p.until("document.querySelectorAll('#heat-legend tbody tr').length === 3")
	require.Equal(t, []string{`{path="/api/orders"}`}, p.texts(".heat h2"))
	p.click("#heat-legend tbody tr:nth-child(3) button.toggle")
	p.until("document.querySelectorAll('.heat').length === 2")
	require.Equal(t, []string{`{path="/api/orders"}`, `{path="/login"}`}, p.texts(".heat h2"))
	require.Contains(t, eval[string](p, "document.querySelector('#heat-1').ariaLabel"), `path="/login"`)
	p.click("#heat-legend tbody tr:nth-child(2) button.name")
	p.until("document.querySelectorAll('.heat').length === 1")
	require.Equal(t, []string{`{path="/api/search"}`}, p.texts(".heat h2"))
	p.click("#heat-legend tbody tr:nth-child(2) button.toggle")
	require.Len(t, p.texts(".heat h2"), 1, "one stays")
	p.click("#longer")
	p.until("document.getElementById('range').value === '12h' && document.querySelector('#result').ariaBusy === 'false'")
	require.Equal(t, []string{`{path="/api/search"}`}, p.texts(".heat h2"), "the same when the query is run again")
	p.noErrors()
}

func TestHistograms_HeatMapByKeyboardSaysBuckets(t *testing.T) {
	m := newMeasured(t)
	p := newTab(t, tabOptions{db: m.db})
	p.open("q", "response_size_bytes", "range", "1h")
	p.until("document.querySelector('#heat-0')?.checkVisibility()")
	require.Contains(t, p.text(".ramp"), "These counts only rise")
	eval[any](p, "document.getElementById('heat-0').focus() ?? null")
	p.keys(kb.ArrowUp)
	size := m.last["response_size_bytes"]
	total := thousands(float64(size.histogram().Count))
	p.until(`document.querySelector('.heat [aria-live]').textContent.includes('[−∞, 100]')`)
	said := eval[string](p, "document.querySelector('.heat [aria-live]').textContent")
	require.Contains(t, said, fmt.Sprintf("%s in [−∞, 100], ", thousands(float64(size.counts[0]))))
	require.Contains(t, said, total+" observations")
	p.keys(kb.ArrowUp + kb.ArrowUp)
	p.until(`document.querySelector('.heat [aria-live]').textContent.includes('(1,000, 5,000]')`)
	require.Contains(t, p.text(".heat .hover .nearest"), "(1,000, 5,000]")
	p.keys(kb.ArrowDown)
	p.until(`document.querySelector('.heat [aria-live]').textContent.includes('(100, 1,000]')`)
	p.keys(kb.ArrowLeft)
	p.until(fmt.Sprintf(`!document.querySelector('.heat [aria-live]').textContent.includes('%s observations')`, total))
	p.noErrors()
}

func TestHistograms_HeatMapZooms(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db})
	p.open("q", "rate(clock_offset_seconds[5m])", "range", "6h")
	p.until("document.querySelector('#heat-0')?.checkVisibility() && document.querySelector('#result').ariaBusy === 'false'")
	p.dragOver("#heat-0", 0.3, 0.5)
	p.until("document.getElementById('range').value.startsWith('1h')")
	p.click("#zoom-back")
	p.until("document.getElementById('range').value === '6h'")
	p.noErrors()
}

func TestHistograms_FloatsAndHistogramsAreBothDrawn(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db})
	p.open("q", `{job="web"}`)
	p.until("document.querySelector('#heat-0')?.checkVisibility() && document.querySelector('#chart')?.checkVisibility()")
	require.Equal(t, []string{`up{job="web"}`}, p.texts("#legend button.name"))
	require.Len(t, p.texts("#heat-legend button.name"), 4)
	p.query("up")
	p.keys(kb.Escape + kb.Enter)
	p.until("!document.querySelector('#heat-0').checkVisibility()")
	require.True(t, p.has("#style-group"))
	p.noErrors()
}

// row is one of a table of buckets.
type bucketRow struct{ bounds, count string }

func (p *tab) bucketRows(at int) (rows []bucketRow) {
	p.t.Helper()
	cells := eval[[][]string](p, fmt.Sprintf("[...document.querySelectorAll('.buckets')[%d].querySelectorAll(':scope tbody tr')].map((r) => [r.cells[0].innerText, r.cells[1].innerText])", at))
	for _, c := range cells {
		rows = append(rows, bucketRow{c[0], c[1]})
	}
	return rows
}

func TestHistograms_TableShowsBuckets(t *testing.T) {
	m := newMeasured(t)
	p := newTab(t, tabOptions{db: m.db})
	p.open("q", `{__name__=~"clock_offset_seconds|response_size_bytes|up"}`, "view", "table")
	p.until("document.querySelectorAll('#table .buckets').length === 2")
	require.Len(t, p.texts("#table .open"), 2, "floats have no buckets")

	size := m.last["response_size_bytes"]
	var want []bucketRow
	for i, bounds := range []string{"[−∞, 100]", "(100, 1,000]", "(1,000, 5,000]", "(5,000, 10,000]", "(10,000, 50,000]", "(50,000, 100,000]", "(100,000, 1,000,000]", "(1,000,000, +∞]"} {
		want = append(want, bucketRow{bounds, thousands(float64(size.counts[int32(i)]))})
	}
	require.Equal(t, want, p.bucketRows(1))
	require.Contains(t, p.text(".buckets:last-child .tiles"), "Observations")

	offset := m.last["clock_offset_seconds"]
	rows := p.bucketRows(0)
	zero := slices.IndexFunc(rows, func(r bucketRow) bool { return r.bounds == "[-0.000976563, 0.000976563] zero" })
	require.GreaterOrEqual(t, zero, 0, rows)
	require.Equal(t, thousands(float64(offset.zeroCount)), rows[zero].count)
	require.Len(t, rows[:zero], len(offset.negative))
	require.Len(t, rows[zero+1:], len(offset.counts))
	lowest := slices.Max(slices.Collect(maps.Keys(offset.negative)))
	require.Equal(t, thousands(float64(offset.negative[lowest])), rows[0].count, "the lowest stands first")
	require.Equal(t, len(rows), eval[int](p, "document.querySelector('.buckets svg').querySelectorAll('rect').length"))
	p.click("#table .open")
	p.until("document.querySelectorAll('#table .buckets').length === 1")
	require.Equal(t, "false", eval[string](p, "document.querySelector('#table .open').ariaExpanded"))
	p.noErrors()
}

func TestHistograms_BucketsOfManySeriesAreClosedAtFirst(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db})
	p.open("q", "http_request_duration_seconds", "view", "table")
	p.until("document.querySelectorAll('#table .open').length === 3")
	require.Empty(t, p.texts("#table .buckets"))
	p.click("#table tbody tr:nth-child(2) .open")
	p.until("document.querySelectorAll('#table .buckets').length === 1")
	p.click("#run")
	p.until("document.querySelector('#result').ariaBusy === 'false'")
	require.Len(t, p.texts("#table .buckets"), 1, "it stays open")
	p.click("#table thead th:last-child button") // by the number of observations
	p.until("document.querySelector('#table th[aria-sort=descending]')")
	require.Contains(t, p.text("#table tbody tr:first-child"), "/api/orders")
	p.noErrors()
}

// scaled is what a scale of some buckets has: [rule, left, right, count] each.
func scaled[T any](p *tab, buckets, expression string) T {
	p.t.Helper()
	code := fmt.Sprintf("((s) => (%s))(new m.BucketScale([{buckets: %s.map(([rule, left, right, count]) => ({rule, left, right, count}))}], 400))", expression, buckets)
	return called[T](p, "bucketscale.js", code)
}

func TestBucketScale_IsLogarithmicOnBothSidesOfZero(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	const both = "[[1, -8, -4, 1], [1, -2, -1, 1], [3, -1e-9, 1e-9, 5], [0, 1, 2, 7], [0, 4, 8, 1]]"
	at := scaled[[]float64](p, both, "[-8, -4, -2, -1, 0, 1, 2, 4, 8].map((v) => s.at(v))")
	step := (400.0 - 22) / 6
	require.InDeltaSlice(t, []float64{0, step, 2 * step, 3 * step, 200, 3*step + 22, 4*step + 22, 5*step + 22, 400}, at, 1e-9)
	require.Equal(t, []float64{3 * step, 3*step + 22}, scaled[[]float64](p, both, "s.ends({rule: 3, left: -1e-9, right: 1e-9})"))
	require.InDelta(t, 7, scaled[float64](p, both, "s.density({rule: 0, left: 1, right: 2, count: 7})"), 1e-9)
	require.InDelta(t, 3.5, scaled[float64](p, both, "s.density({rule: 0, left: 1, right: 4, count: 7})"), 1e-9)
	require.Equal(t, []float64{-8, -4, -2, 0, 2, 4, 8}, scaled[[]float64](p, both, "s.ticks(20).filter((v) => Math.abs(v) !== 1)"))
}

func TestBucketScale_HasRoomForWhatHasNoBounds(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	for buckets, want := range map[string][]float64{ // where each bound stands, from the lowest one
		"[[3, -Infinity, 10, 1], [0, 10, 1000, 1], [0, 1000, Infinity, 1]]":         {0, 22, 378, 400},
		"[[3, -Infinity, -5, 1], [0, -5, 0, 1], [0, 0, 5, 1], [0, 5, Infinity, 1]]": {0, 400.0 / 3, 200, 400 * 2.0 / 3, 400},
		"[[0, -Infinity, Infinity, 1]]":                                             {0, 400},
		"[[3, -1, 1, 4]]":                                                           {0, 400},
		"[[3, -1, 1, 4], [0, 2, 4, 1]]":                                             {0, 22, 22, 400},
		"[[0, 2, 3, 1]]":                                                            {0, 400},
	} {
		got := scaled[[]float64](p, buckets, "[...new Set("+buckets+".flatMap(([rule, left, right]) => s.ends({rule, left, right})))]")
		require.InDeltaSlice(t, slices.Compact(want), got, 1e-6, buckets)
	}
	require.Len(t, scaled[[]any](p, "[]", "s.ticks(20)"), 1)
	require.True(t, scaled[bool](p, "[[0, 1e-300, 1e300, 1]]", "s.ticks(20).length > 2 && s.ticks(20).length < 25 && s.ticks(20).every((v, i, all) => i === 0 || v > all[i - 1])"))
	require.True(t, scaled[bool](p, "[[0, 41, 42, 1], [0, 42, 43.0001, 1]]", "s.ticks(20).length > 3"))
	require.False(t, math.IsNaN(scaled[float64](p, "[[3, 0, 0, 4]]", "s.at(0)")))
}
