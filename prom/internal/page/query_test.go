package page_test

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

func node(name, host string) string {
	return labels.FromStrings("__name__", name, "instance", host+":9100", "job", "node").String()
}

func TestPage_LoadsWithoutErrors(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.openAt("")
	p.until("document.querySelectorAll('.chips button').length > 0")
	require.Contains(t, p.text("#begin"), "Type a query, or begin with a metric")
	p.until("document.getElementById('source').innerText.includes('the head')")
	require.Contains(t, p.text("#source"), data.db.Dir())
	require.Contains(t, p.text("#source"), "Europe/Berlin (UTC+0")
	require.Equal(t, "query", eval[string](p, "document.activeElement.id"))
	for _, view := range []string{"cardinality", "blocks", "health", "graph"} {
		p.click(fmt.Sprintf("nav a[data-view=%s]", view))
		p.until(fmt.Sprintf("location.hash.includes('%s') || '%s' === 'graph'", view, view))
		p.settled()
	}
	p.noErrors()
}

func TestPage_QueryShowsLinesAndValues(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	p.query("node_load1")
	p.keys(kb.Enter)
	p.until("document.querySelectorAll('#legend tbody tr').length > 0")
	require.Len(t, p.texts("#legend tbody tr"), 6)
	require.Contains(t, p.text("#legend .caption"), `all with node_load1{job="node"}`)
	names, lasts := p.texts("#legend button.name"), eval[[]string](p, "[...document.querySelectorAll('#legend tbody .last')].map((e) => e.title)")
	for i, name := range names {
		host := name[len(`{instance="`) : len(name)-len(`:9100"}`)]
		require.Equal(t, fmt.Sprint(data.last[node("node_load1", host)]), lasts[i], name)
	}
	require.False(t, p.has("#notes .error"))
	require.Contains(t, eval[string](p, "location.hash"), "q=node_load1")
	require.Equal(t, "node_load1 · tsdb", eval[string](p, "document.title"))
	p.noErrors()
}

// colours are those of the eight series that a canvas has.
const colours = `(() => {
  const c = document.querySelector('.plot .lines'), n = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const found = new Set();
  const probe = document.body.appendChild(document.createElement('i'));
  const seen = [...Array(8)].map((_, i) => {
    probe.style.color = 'var(--series-' + i + ')';
    return getComputedStyle(probe).color;
  });
  probe.remove();
  const rgb = (i) => 'rgb(' + [n[i], n[i + 1], n[i + 2]].join(', ') + ')';
  for (let i = 0; i < n.length; i += 4) if (n[i + 3] === 255 && seen.includes(rgb(i))) found.add(seen.indexOf(rgb(i)));
  return [...found].sort();
})()`

func TestPage_GraphDrawsALineForEachSeries(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, eval[[]int](p, colours))
	p.click("#stacked")
	p.until("location.hash.includes('stacked') && document.getElementById('result').ariaBusy === 'false'")
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, eval[[]int](p, colours))
	require.Equal(t, "true", eval[string](p, "document.getElementById('stacked').ariaPressed"))
	p.noErrors("willReadFrequently") // it is the test that reads
}

func TestPage_TableShowsInstantValues(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_memory_MemAvailable_bytes", "view", "table")
	p.until("document.querySelectorAll('#table tbody tr').length === 6")
	require.Equal(t, []string{"instance", "Value"}, p.texts("#table thead th"))
	p.click("#table thead th:last-child button") // the largest first
	p.until("document.querySelector('#table th[aria-sort=descending]')")
	require.Equal(t, "web-1:9100", p.text("#table tbody tr:first-child td"))
	p.click("#table thead th:first-child button")
	p.until("document.querySelector('#table th[aria-sort=ascending]')")
	require.Equal(t, "cache-1:9100", p.text("#table tbody tr:first-child td"))
	require.Equal(t, thousands(data.last[node("node_memory_MemAvailable_bytes", "cache-1")]), p.text("#table tbody tr:first-child td:last-child"))
	p.query("scalar(up{instance='db-1:9100'})")
	p.keys(kb.Enter)
	p.until("document.querySelector('#table .single')?.innerText === '1'")
	p.query("up{instance='db-1:9100'}[1m]")
	p.keys(kb.Enter)
	p.until("document.querySelectorAll('#table tbody li').length === 4")
	p.noErrors()
}

// thousands writes a number as browsers do in English.
func thousands(v float64) string {
	whole, text := int64(v), ""
	for ; whole >= 1000; whole /= 1000 {
		text = fmt.Sprintf(",%03d", whole%1000) + text
	}
	text = fmt.Sprint(whole) + text
	if cents := int64((v-float64(int64(v)))*100 + 0.5); cents > 0 {
		text += fmt.Sprintf(".%02d", cents)
		if cents%10 == 0 {
			text = text[:len(text)-1]
		}
	}
	return text
}

func TestPage_CompletesByKeyboard(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	open := "!document.getElementById('completion-box').hidden"
	p.query("node_lo")
	p.until(open)
	require.Equal(t, []string{"node_load1"}, p.texts("#completion .word"))
	p.keys(kb.Tab)
	p.until("document.getElementById('query').value === 'node_load1'")
	p.keys("{")
	p.until(open + " && document.querySelector('#completion .kind')?.innerText === 'l'")
	require.Equal(t, []string{"instance", "job"}, p.texts("#completion .word"))
	p.keys(kb.ArrowDown)
	p.keys(kb.Enter) // takes the label, and values follow
	p.until(`document.getElementById('query').value === 'node_load1{instance=""' && document.querySelectorAll('#completion li').length === 6`)
	p.keys("db")
	p.until("document.querySelectorAll('#completion li').length === 2")
	p.keys(kb.ArrowDown + kb.ArrowDown)
	require.Equal(t, "completion-1", eval[string](p, "document.getElementById('query').getAttribute('aria-activedescendant')"))
	p.keys(kb.Enter)
	p.until(`document.getElementById('query').value === 'node_load1{instance="db-2:9100"'`)
	p.query("ra")
	p.until(open)
	require.Contains(t, p.texts("#completion .word"), "rate")
	p.keys(kb.Escape)
	p.until("document.getElementById('completion-box').hidden")
	p.query("sum by (")
	p.until(open + " && document.querySelector('#completion .kind')?.innerText === 'l'")
	require.Contains(t, p.texts("#completion .word"), "mode")
	p.noErrors()
}

func TestPage_EnterRunsWhenNothingIsChosen(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	p.query("up")
	p.keys(kb.Enter)
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	require.False(t, p.has("#completion-box"))
	require.Contains(t, eval[string](p, "location.hash"), "q=up")
}

// drag pulls the pointer over the graph, by parts of its width.
func (p *tab) drag(from, to float64) {
	p.t.Helper()
	p.dragOver("#chart", from, to)
}

func (p *tab) dragOver(selector string, from, to float64) {
	p.t.Helper()
	b := p.box(selector)
	x := func(part float64) float64 { return b.X + b.W*part }
	y := b.Y + b.H/2
	held := func(m *input.DispatchMouseEventParams) {
		m.Button, m.Buttons, m.ClickCount = input.MouseButtonLeft, 1, 1
	}
	require.NoError(p.t, chromedp.Do(p.ctx,
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x(from), y),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x(from), y, held),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x((from+to)/2), y, held),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x(to), y, held),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, x(to), y, held),
	))
}

func TestPage_DragZoomsAndThereIsAWayBack(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	require.False(t, p.has("#zoom-back"))
	p.drag(0.5, 0.75)
	p.until("location.hash.includes('range=') && document.getElementById('result').ariaBusy === 'false'")
	shown := eval[string](p, "document.getElementById('chart').ariaLabel")
	rangeText := eval[string](p, "document.getElementById('range').value")
	d, err := time.ParseDuration(rangeText)
	require.NoError(t, err, rangeText)
	require.InDelta(t, (15 * time.Minute).Seconds(), d.Seconds(), 60, shown)
	p.click("#zoom-back")
	p.until("document.getElementById('range').value === '1h'")
	require.NotContains(t, eval[string](p, "location.hash"), "range=")
	require.Contains(t, eval[string](p, "decodeURIComponent(location.hash)"), data.end.UTC().Format("2006-01-02T15:04:05"))
	require.False(t, p.has("#zoom-back"))
	p.settled() // an answer that comes meanwhile ends the drag
	p.drag(0.2, 0.4)
	p.until("location.hash.includes('range=')")
	require.NoError(t, chromedp.Do(p.ctx, chromedp.NavigateBack()))
	p.until("document.getElementById('range').value === '1h'")
	p.noErrors()
}

// The controls are beside one another, also where a scroll bar and the way back take some room.
func TestPage_ControlsStandInOneLine(t *testing.T) {
	p := newTab(t, tabOptions{width: 1280 - 15, height: 900})
	p.open("q", "node_load1", "step", "1m")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	p.drag(0.5, 0.75)
	p.until("document.querySelector('#zoom-back').checkVisibility()")
	require.True(t, p.has("#exemplars-field"))
	require.True(t, p.has("#style-group"))
	require.Less(t, p.box("#controls").H, 2*p.box("#lines").H)
}

// since has a sample some time ago, and one of now.
func since(t *testing.T, ago time.Duration) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	app := db.Appender()
	for _, at := range []time.Time{time.Now().Add(-ago), time.Now()} {
		_, err = app.Append(0, labels.FromStrings("__name__", "up"), at.UnixMilli(), 1)
		require.NoError(t, err)
	}
	_, err = app.Commit(t.Context())
	require.NoError(t, err)
	return db
}

func TestPage_BeginsWithTheTimesThatThereAre(t *testing.T) {
	p := newTab(t, tabOptions{db: since(t, 10*time.Second)})
	shows := func(seconds int) string {
		const spans = `document.getElementById('chart').ariaLabel.match(/\d\d:\d\d:\d\d/g).map((t) => Date.parse('2026-01-01T' + t))`
		return fmt.Sprintf("document.getElementById('chart')?.ariaLabel && (([a, b]) => (b - a + 86400000) %% 86400000 <= %d)(%s)", seconds*1000, spans)
	}
	p.openAt("#q=up")
	p.until("document.getElementById('range').value === '5m' && " + shows(300))
	require.Equal(t, "#q=up", eval[string](p, "location.hash"))
	p.click("#longer")
	p.until("location.hash === '#q=up&range=15m'")
	p.click("#longer")
	p.click("#longer")
	p.until("location.hash === '#q=up&range=1h'")
	p.openAt("#q=up&range=1h")
	p.until("document.getElementById('source').innerText !== ''")
	require.Equal(t, "1h", eval[string](p, "document.getElementById('range').value"))
	p.noErrors()

	p = newTab(t, tabOptions{db: since(t, 25*time.Minute)})
	p.openAt("")
	p.until("document.getElementById('range').value !== '1h'")
	require.Regexp(t, "^2[6-9]m$", eval[string](p, "document.getElementById('range').value"))
	p.noErrors()
}

func TestPage_GraphByKeyboard(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	eval[any](p, "document.getElementById('chart').focus() ?? null")
	p.keys(kb.ArrowLeft)
	p.until("document.querySelectorAll('.hover tr').length === 6")
	require.Contains(t, p.text(".plot [aria-live]"), `instance="web-1:9100"`)
	p.keys(kb.Enter + kb.PageUp + kb.PageUp + kb.Enter) // chooses the last tenth
	p.until("location.hash.includes('range=')")
	p.keys(kb.Backspace)
	p.until("!location.hash.includes('range=')")
	p.noErrors()
}

func TestPage_HoverShowsValues(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	b := p.box("#chart")
	require.NoError(t, chromedp.Do(p.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, b.X+b.W-15, b.Y+40)))
	p.until("document.querySelectorAll('.hover tr').length === 6")
	berlin, err := time.LoadLocation(zone)
	require.NoError(t, err)
	require.Equal(t, data.end.In(berlin).Format("2006-01-02 15:04:05"), p.text(".hover .when"))
	require.Contains(t, p.texts(".hover .number"), fmt.Sprint(data.last[node("node_load1", "db-2")]))
	require.Len(t, p.texts(".hover .nearest"), 1)
}

func TestPage_LegendIsolatesAndToggles(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	p.click("#legend tbody tr:nth-child(3) button.name")
	p.until("document.querySelectorAll('#legend tr.off').length === 5")
	require.Equal(t, []int{2}, eval[[]int](p, colours))
	p.click("#legend tbody tr:nth-child(3) button.name")
	p.until("document.querySelectorAll('#legend tr.off').length === 0")
	p.click("#legend tbody tr:nth-child(1) button.toggle")
	p.until("document.querySelectorAll('#legend tr.off').length === 1")
	require.Equal(t, []int{1, 2, 3, 4, 5}, eval[[]int](p, colours))
	require.Equal(t, "false", eval[string](p, "document.querySelector('#legend button.toggle').ariaPressed"))
}

func TestPage_WrongQueryMarksThePosition(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open()
	p.query("sum(node_load1))")
	p.keys(kb.Escape + kb.Enter)
	p.until("document.querySelector('#notes .error')")
	require.Contains(t, p.text("#notes"), "The server does not understand this query")
	require.Contains(t, p.text("#notes"), "At character 16: unexpected right parenthesis")
	require.Equal(t, []string{")"}, p.texts("#echo mark"))
	require.Equal(t, "sum(node_load1)", eval[string](p, "(() => { const r = document.createRange(); r.setStart(echo, 0); r.setEndBefore(echo.querySelector('mark')); return r.toString(); })()"))
	require.Equal(t, "true", eval[string](p, "document.getElementById('query').ariaInvalid"))
	p.query("rate(ä_metric[5m])")
	p.keys(kb.Escape + kb.Enter)
	p.until("document.querySelector('#echo mark')?.innerText === 'ä'")
	p.query("up")
	p.keys(kb.Escape + kb.Enter)
	p.until("document.querySelectorAll('#legend tbody tr').length === 6 && !document.querySelector('#notes .error')")
	require.Empty(t, p.texts("#echo mark"))
	p.noErrors("status of 400")
}

func TestPage_NothingFoundSaysWhatToDo(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "no_such_metric")
	p.until("document.querySelector('#notes .info')")
	require.Contains(t, p.text("#notes"), "Try other times, or another name")
	p.noErrors()
}

func TestPage_UnreachableServerSaysSoAndCanBeTriedAgain(t *testing.T) {
	var down atomic.Bool // the address stays ours meanwhile: another program could take it
	p := newTab(t, tabOptions{wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				reset(w)
				return
			}
			h.ServeHTTP(w, r)
		})
	}})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	address := p.server.Listener.Addr().String()
	down.Store(true)
	p.click("#run")
	p.until("document.querySelector('#notes .error')")
	require.Contains(t, p.text("#notes"), "The server cannot be reached")
	require.Contains(t, p.text("#notes"), address+" does not answer")
	require.Len(t, p.texts("#legend tbody tr"), 6, "what was there stays")
	p.click("nav a[data-view=health]")
	p.until("document.querySelector('#health-view .error button')")
	p.click("nav a[data-view=graph]")
	p.settled()
	p.until("document.querySelector('#notes .error button')")
	down.Store(false)
	p.click("#notes .error button")
	p.until("!document.querySelector('#notes .error') && document.getElementById('result').className === ''")
	p.noErrors("net::ERR_CONNECTION")
}

// reset ends the connection of a request without an answer, as the system does for a program that
// is gone.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // so that it is not ended in order
	_ = conn.Close()
}

func TestPage_AnswersOfOtherProgramsAreNotTakenForTheAPI(t *testing.T) {
	p := newTab(t, tabOptions{wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/query_range" {
				http.Error(w, "<b>bad gateway</b>", http.StatusBadGateway)
				return
			}
			h.ServeHTTP(w, r)
		})
	}})
	p.open("q", "up")
	p.until("document.querySelector('#notes .error')")
	require.Contains(t, p.text("#notes"), "status 502")
	require.Contains(t, p.text("#notes"), "<b>bad gateway</b>", "markup is text")
}

func TestPage_WarningsAndInfosAreShown(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "rate(node_load1[5m])")
	p.until("document.querySelector('#notes .info')")
	require.Contains(t, p.text("#notes"), "might not be a counter")
}

func TestPage_RefreshRunsTheQueryAgain(t *testing.T) {
	asked := make(chan string, 100)
	p := newTab(t, tabOptions{wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Path
			h.ServeHTTP(w, r)
		})
	}})
	p.open("q", "up", "refresh", "1s")
	deadline := time.After(waitAtMost)
	for n := 0; n < 3; {
		select {
		case path := <-asked:
			if path == "/api/v1/query_range" {
				n++
			}
		case <-deadline:
			t.Fatal("the query was not run again")
		}
	}
}

func TestPage_WhatIsHiddenStaysHiddenWhenTheQueryRunsAgain(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	p.click("#legend tbody tr:nth-child(3) button.name")
	p.until("document.querySelectorAll('#legend tr.off').length === 5")
	eval[any](p, "document.querySelector('#legend tbody').setAttribute('data-old', '') ?? null")
	p.click("#longer")
	p.until("document.querySelector('#legend tbody:not([data-old])')")
	require.Len(t, p.texts("#legend tr.off"), 5)
	p.query("node_load1 * 2")
	p.keys(kb.Escape + kb.Enter)
	p.until("document.querySelectorAll('#legend tbody tr').length === 6 && !document.querySelector('#legend tr.off')")
}

func TestPage_TimesInUTCOnDemand(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "up", "view", "table")
	p.until("document.querySelectorAll('#table tbody tr').length === 6")
	berlin, err := time.LoadLocation(zone)
	require.NoError(t, err)
	require.Contains(t, p.text("#table .caption"), data.end.In(berlin).Format("2006-01-02 15:04:05"))
	require.Equal(t, data.end.In(berlin).Format("2006-01-02T15:04"), eval[string](p, "document.getElementById('end').value.slice(0, 16)"))
	p.click("#zone")
	p.until("location.hash.includes('utc')")
	p.until(fmt.Sprintf("document.querySelector('#table .caption').innerText.includes('%s')", data.end.UTC().Format("2006-01-02 15:04:05")))
	p.until("document.getElementById('source').innerText.includes('Times are in UTC')")
}

func TestPage_ServerThatIsNotReadyIsAskedAgain(t *testing.T) {
	var ready atomic.Bool
	p := newTab(t, tabOptions{wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/query_range" && !ready.Load() {
				http.Error(w, "The server is not ready: 40% of the log is read.", http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	}})
	p.open("q", "up")
	p.until("document.getElementById('notes').innerText.includes('40% of the log is read')")
	ready.Store(true)
	p.until("document.querySelectorAll('#legend tbody tr').length === 6 && !document.querySelector('#notes .error')")
}
