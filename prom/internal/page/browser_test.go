package page_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

var update = flag.Bool("update", false, "make the pictures of docs/img anew")

const (
	waitAtMost = 2 * time.Minute  // for anything that the page does
	tabAtMost  = 10 * time.Minute // for a whole test
	pollEvery  = 15 * time.Millisecond
	zone       = "Europe/Berlin"
)

// What all tests share: a browser, and a database that none of them changes.
var (
	browser context.Context // nil: there is none
	data    *hosts
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	path := findBrowser()
	if path == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if data, err = openHosts(dir); err != nil {
		fmt.Println("the database of the tests:", err)
		return 1
	}
	defer data.db.Close()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.Flag("lang", "en-US"))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	ctx, end := chromedp.NewContext(alloc)
	defer end()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Println("start", path+":", err)
		return 1
	}
	browser = ctx
	return m.Run()
}

// findBrowser returns the path of a Chromium, or nothing.
func findBrowser() string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// tab is the page in a browser, at a server.
type tab struct {
	t      *testing.T
	ctx    context.Context
	server *httptest.Server
	opts   tabOptions

	mu     sync.Mutex
	errors []string // of the console: exceptions, what was refused, and failed requests
}

type tabOptions struct {
	db            *tsdb.DB
	width, height int64
	dark          bool
	wrap          func(http.Handler) http.Handler
}

// newTab serves a database and opens a tab; it shows nothing yet.
func newTab(t *testing.T, opts tabOptions) *tab {
	t.Helper()
	if browser == nil {
		const text = "no Chromium: install Debian's chromium-headless-shell or chromium"
		if os.Getenv("TSDB_REQUIRE_ROOT_TESTS") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	if opts.db == nil {
		opts.db = data.db
	}
	if opts.width == 0 {
		opts.width, opts.height = 1280, 900
	}
	p := &tab{t: t, opts: opts}
	p.serve()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, tabAtMost)
	t.Cleanup(end)
	p.ctx = ctx
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(opts.width, opts.height)))
	_, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
	require.NoError(t, err)
	p.dark(opts.dark)
	require.NoError(t, chromedp.Listen(ctx, p.hear))
	return p
}

func (p *tab) serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	h := prom.NewHandler(p.opts.db, &prom.HandlerOptions{Version: "1.0.0"})
	if p.opts.wrap != nil {
		h = p.opts.wrap(h)
	}
	p.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	p.server.Start()
	p.t.Cleanup(p.server.Close)
}

func (p *tab) hear(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, fmt.Sprint("exception: ", ev.ExceptionDetails.Text, " ", exceptionText(ev.ExceptionDetails)))
	case *cdplog.EventEntryAdded:
		if ev.Entry.Level == cdplog.EntryLevelError || ev.Entry.Level == cdplog.EntryLevelWarning {
			p.errors = append(p.errors, fmt.Sprint(ev.Entry.Source, ": ", ev.Entry.Text, " ", ev.Entry.URL))
		}
	}
}

func exceptionText(d *runtime.ExceptionDetails) string {
	if d.Exception == nil {
		return ""
	}
	return d.Exception.Description
}

// noErrors fails if the console has something beyond what is expected.
func (p *tab) noErrors(expected ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.errors {
		known := false
		for _, e := range expected {
			known = known || strings.Contains(text, e)
		}
		require.True(p.t, known, "console: %s", text)
	}
}

// open shows the page with a state, as a link would, at the end of the data.
func (p *tab) open(pairs ...string) {
	p.t.Helper()
	q := url.Values{"end": {data.end.UTC().Format(time.RFC3339)}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	p.openAt("#" + strings.ReplaceAll(q.Encode(), "+", "%20"))
}

func (p *tab) openAt(fragment string) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(p.server.URL+"/"+fragment)))
}

func (p *tab) dark(on bool) {
	p.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
	require.NoError(p.t, err)
}

// eval gets the value of an expression in the page. The page's policy allows no evaluation in it,
// so that what waits does so from here.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("JSON.stringify("+expression+")"))
	require.NoError(p.t, err, expression)
	var v T
	require.NoError(p.t, json.Unmarshal([]byte(text), &v), "%s: %s", expression, text)
	return v
}

// until waits for a condition.
func (p *tab) until(condition string) {
	p.t.Helper()
	deadline := time.Now().Add(waitAtMost)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !eval[bool](p, "!!("+condition+")") {
		if time.Now().After(deadline) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Fatalf("waited %v for %s\nconsole: %v\npage: %s", waitAtMost, condition, p.errors, eval[string](p, "document.getElementById('main').innerText"))
		}
		<-tick.C
	}
}

// settled waits for the answer to what was asked last.
func (p *tab) settled() {
	p.t.Helper()
	p.until(`document.querySelector('#main > section:not([hidden])') && !document.querySelector('#main > section:not([hidden]) [aria-busy="true"]')`)
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

func (p *tab) texts(selector string) []string {
	p.t.Helper()
	return eval[[]string](p, fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.innerText.trim())", selector))
}

func (p *tab) has(selector string) bool {
	p.t.Helper()
	return eval[bool](p, fmt.Sprintf("!!document.querySelector(%q)?.checkVisibility()", selector))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(selector))), selector)
}

// keys types.
func (p *tab) keys(text string, opts ...chromedp.KeyOption) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, chromedp.KeyEvent(text, opts...)))
}

// query types a query in the place of what is there.
func (p *tab) query(text string) {
	p.t.Helper()
	p.click("#query")
	p.until("document.activeElement.id === 'query'")
	eval[any](p, "document.getElementById('query').select() ?? null")
	p.keys(text)
}

type box struct{ X, Y, W, H float64 }

func (p *tab) box(selector string) box {
	p.t.Helper()
	return eval[box](p, fmt.Sprintf("(({x, y, width, height}) => ({X: x, Y: y, W: width, H: height}))(document.querySelector(%q).getBoundingClientRect())", selector))
}
