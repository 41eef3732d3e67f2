package page_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// withExemplars answers with exemplars of the latencies of two paths, some minutes before the end
// of the data.
func withExemplars(h http.Handler) http.Handler {
	at := func(minutes int) int64 { return data.end.Add(-time.Duration(minutes) * time.Minute).Unix() }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query_exemplars" {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":[
			{"seriesLabels":{"__name__":"http_request_duration_seconds","instance":"web-1:8080","job":"web","path":"/api/orders"},
			 "exemplars":[{"labels":{"trace_id":"5b8aa5a2"},"value":"0.4","timestamp":%d},{"labels":{"trace_id":"77e03c11","span":"<b>"},"value":"0.021","timestamp":%d}]},
			{"seriesLabels":{"__name__":"http_request_duration_seconds","instance":"web-1:8080","job":"web","path":"/login"},
			 "exemplars":[{"labels":{"trace_id":"0c2d9f60"},"value":"0.005","timestamp":%d}]}]}`, at(30), at(15), at(10)) // the browser says so
	})
}

// exemplarPlaces are where a canvas has points of the colour of exemplars.
const exemplarPlaces = `((selector) => {
  const c = document.querySelector(selector), n = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const probe = document.body.appendChild(document.createElement('i'));
  probe.style.color = 'var(--exemplar)';
  const want = getComputedStyle(probe).color, places = [];
  probe.remove();
  for (let i = 0; i < n.length; i += 4) {
    const x = i / 4 % c.width, y = Math.floor(i / 4 / c.width);
    if (want === 'rgb(' + [n[i], n[i + 1], n[i + 2]].join(', ') + ')' && !places.some((p) => Math.hypot(p.X - x, p.Y - y) < 12)) places.push({X: x, Y: y});
  }
  return places;
})`

func TestExemplars_StandOverTheHeatMapOfTheirSeries(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db, wrap: withExemplars})
	p.open("q", "rate(http_request_duration_seconds[5m])", "range", "1h")
	p.until("document.querySelector('#heat-0')?.checkVisibility() && document.querySelector('#result').ariaBusy === 'false'")
	require.Empty(t, eval[[]box](p, exemplarPlaces+"('.heat .lines')"), "they are asked for only on demand")
	p.click("#exemplars")
	p.until("location.hash.includes('exemplars') && document.querySelector('.exemplars')?.checkVisibility() && document.querySelector('#result').ariaBusy === 'false'")
	two := eval[[]box](p, exemplarPlaces+"('.heat .lines')")
	require.Len(t, two, 2)
	require.Less(t, two[0].X, two[1].X, "the older one is the slower one, which is higher up")
	require.Equal(t, "3 exemplars", p.text(".exemplars summary"))
	p.click(".exemplars summary")
	require.Equal(t, []string{"Time", "trace_id", "span", "Series", "Value"}, p.texts(".exemplars th"))
	require.Contains(t, p.text(".exemplars tbody tr:nth-child(2)"), "<b>", "markup is text")
	p.click("#heat-legend tbody tr:nth-child(3) button.name")
	p.until(`document.querySelector('.heat h2').innerText.includes('/login')`)
	require.Len(t, eval[[]box](p, exemplarPlaces+"('.heat .lines')"), 1, "of another path")
	p.noErrors("willReadFrequently")
}

func TestExemplars_AreToldByPointerAndKeys(t *testing.T) {
	p := newTab(t, tabOptions{db: newMeasured(t).db, wrap: withExemplars})
	p.open("q", `histogram_quantile(0.9, rate(http_request_duration_seconds{path="/api/orders"}[5m]))`, "exemplars", "", "range", "1h")
	p.until("document.querySelector('#chart')?.checkVisibility() && document.querySelector('#result').ariaBusy === 'false'")
	places := eval[[]box](p, exemplarPlaces+"('.plot .lines')")
	require.Len(t, places, 3)
	b := p.box("#chart")
	slices.SortFunc(places, func(a, b box) int { return cmp.Compare(a.X, b.X) })
	for i, id := range []string{"5b8aa5a2", "77e03c11", "0c2d9f60"} {
		require.NoError(t, chromedp.Do(p.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, b.X+places[i].X+2, b.Y+places[i].Y+2)))
		p.until(fmt.Sprintf("document.querySelector('.hover .exemplar')?.innerText.includes('%s')", id))
	}
	eval[any](p, "document.getElementById('chart').focus() ?? null")
	said := "document.querySelector('.plot [aria-live]').textContent"
	p.keys(kb.End)
	for range 120 {
		p.keys(kb.ArrowLeft)
		if eval[bool](p, said+".includes('exemplar')") {
			break
		}
	}
	require.Contains(t, eval[string](p, said), `exemplar 0.005 {trace_id="0c2d9f60"}`)
	p.noErrors("willReadFrequently")
}

func TestExemplars_GraphStandsWithoutThem(t *testing.T) {
	p := newTab(t, tabOptions{wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/query_exemplars" {
				http.Error(w, "not here", http.StatusNotFound)
				return
			}
			h.ServeHTTP(w, r)
		})
	}})
	p.open("q", "up", "exemplars", "")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6 && document.querySelector('#notes .warning')")
	require.Contains(t, p.text("#notes"), "There are no exemplars: not here")
	p.noErrors("status of 404")
}

func TestExemplars_ServerHasNone(t *testing.T) {
	p := newTab(t, tabOptions{})
	for _, query := range []string{"up", "vector(1)"} {
		p.open("q", query, "exemplars", "")
		p.until("document.querySelector('.exemplars')?.checkVisibility()")
		require.Equal(t, "0 exemplars", p.text(".exemplars summary"))
	}
	p.noErrors()
}
