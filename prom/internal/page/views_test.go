package page_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPage_BlocksViewShowsBlocksAndHead(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("view", "blocks")
	p.until("document.querySelectorAll('#blocks-table tbody tr').length > 0")
	blocks := data.db.Blocks()
	require.Greater(t, len(blocks), 2)
	rows := p.texts("#blocks-table tbody tr")
	require.Len(t, rows, len(blocks)+1)
	require.True(t, strings.HasPrefix(rows[0], "head"), rows[0])
	require.Equal(t, len(blocks)+1, eval[int](p, "document.querySelectorAll('.timeline rect').length"))
	for _, b := range blocks {
		row := p.text("#block-" + b.ULID.String())
		require.Contains(t, row, thousands(float64(b.Stats.NumSamples)))
		require.Regexp(t, `\d [kM]B`, row, "its size")
	}
	require.Empty(t, p.texts("#blocks-view .note"))
	p.noErrors()
}

func TestPage_BlocksViewShowsWhatIsMissing(t *testing.T) {
	db := damaged(t, func(block string) { require.NoError(t, os.Truncate(block+"/index", 40)) })
	defer func() { require.NoError(t, db.Close()) }()
	p := newTab(t, tabOptions{db: db})
	p.open("view", "blocks", "range", "12h")
	p.until("document.querySelectorAll('#blocks-view .note').length === 2")
	require.Contains(t, p.text("#blocks-view .note.error"), "1 block is missing")
	require.Contains(t, p.text("#blocks-view .note.warning"), db.OpenReport().Quarantined[0])
	missing := db.MissingBlocks()
	require.Len(t, missing, 1)
	row := p.text("tr.missing")
	require.Contains(t, row, missing[0].ULID.String())
	require.Contains(t, row, "not read, it is in "+missing[0].Path)
	berlin, err := time.LoadLocation(zone)
	require.NoError(t, err)
	require.Contains(t, row, time.UnixMilli(missing[0].MinTime).In(berlin).Format("2006-01-02 15:04:05"))
	require.Equal(t, 1, eval[int](p, "document.querySelectorAll('.timeline .missing rect').length"))
	require.Equal(t, "missing", eval[string](p, "document.querySelector('.timeline .lane').textContent"))
	p.click("nav a[data-view=health]")
	p.until("document.querySelectorAll('#damages tbody tr').length > 0")
	require.Contains(t, p.text("#health-view"), "Something was lost before the last start")
	require.Contains(t, p.texts(".facts .bad dt"), "Blocks set aside")
	require.True(t, p.has("#health-dot"))
	p.click("nav a[data-view=graph]")
	p.query("up")
	p.keys("\r")
	p.until("document.querySelector('#notes .warning')")
	require.Contains(t, p.text("#notes"), "The answer may lack something")
	p.noErrors()
}

func TestPage_BlocksViewSaysIfNobodyKnowsTheTimesOfAMissingBlock(t *testing.T) {
	db := damaged(t, func(block string) { require.NoError(t, os.Truncate(block+"/meta.json", 0)) })
	defer func() { require.NoError(t, db.Close()) }()
	p := newTab(t, tabOptions{db: db})
	p.open("view", "blocks")
	p.until("document.querySelectorAll('tr.missing').length === 1")
	require.Contains(t, p.text("tr.missing"), "not known")
	require.Zero(t, eval[int](p, "document.querySelectorAll('.timeline .missing').length"))
	p.noErrors()
}

func TestPage_BlocksViewShowsABlockThatVanished(t *testing.T) {
	db := damaged(t, func(block string) { require.NoError(t, os.RemoveAll(block)) })
	defer func() { require.NoError(t, db.Close()) }()
	p := newTab(t, tabOptions{db: db})
	p.open("view", "blocks")
	p.until("document.querySelectorAll('tr.missing').length === 1")
	require.Contains(t, p.text("tr.missing"), "vanished")
	require.Equal(t, 1, eval[int](p, "document.querySelectorAll('.timeline .missing rect').length"))
	p.noErrors()
}

func TestPage_HealthViewShowsFacts(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("view", "health")
	p.until("document.querySelectorAll('#health-view .facts').length === 6")
	require.Contains(t, p.text("#health-view .note"), "All is well")
	all := strings.Join(p.texts("#health-view .facts dl > div"), "\n")
	st := data.db.Stats()
	for name, want := range map[string]string{
		"Commits": thousands(float64(st.Commits)), "Samples appended": thousands(float64(st.SamplesAppended)),
		"Refused, out of bounds": "0", "On stable storage": "left to the system", "Retention": "everything is kept", "Blocks set aside": "0", "Directory": regexp.QuoteMeta(data.db.Dir()), "Free": `[\d.]+ [GT]B`,
	} {
		require.Regexp(t, fmt.Sprintf(`(?m)^%s\s+%s$`, name, want), all)
	}
	require.False(t, p.has("#health-dot"))
	p.noErrors()
}

func TestPage_CardinalityViewLeadsToQueries(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("view", "cardinality")
	p.until("document.querySelectorAll('#cardinality-view .bars').length === 6")
	require.Contains(t, p.text("#cardinality-view .tiles"), fmt.Sprint(data.db.Stats().Series))
	metrics := p.texts("#cardinality-view .bars:first-child th")
	require.Contains(t, metrics, "node_load1")
	churn := p.texts("#cardinality-view .churn .bars:first-child th")
	require.Contains(t, churn, "version", "it changed with each deployment")
	require.NotContains(t, churn, "le", "its series were there all the time")
	p.click("#cardinality-view .bars:first-child button.name")
	p.until("document.querySelectorAll('#legend tbody tr').length === 8")
	p.noErrors()
}

// Everything is used on a phone by thumb, and nothing is wider than the screen.
func TestPage_PhoneHasNoHorizontalScroll(t *testing.T) {
	p := newTab(t, tabOptions{width: 360, height: 740})
	for _, state := range [][]string{
		{"q", ""}, {"q", "node_load1"}, {"q", "http_request_duration_seconds_bucket", "view", "table"},
		{"view", "cardinality"}, {"view", "blocks"}, {"view", "health"},
	} {
		p.open(state...)
		p.settled()
		p.until("document.getElementById('source').innerText !== ''")
		require.LessOrEqual(t, eval[int](p, "document.documentElement.scrollWidth"), 360, "%v", state)
	}
	p.open("q", "sum by (instance) (")
	p.until("document.querySelector('#notes .error')")
	require.LessOrEqual(t, eval[int](p, "document.documentElement.scrollWidth"), 360)
	p.query("n")
	p.until("!document.getElementById('completion-box').hidden")
	require.LessOrEqual(t, eval[int](p, "document.documentElement.scrollWidth"), 360)
}

// The time until when a query goes is read as a whole on a phone, too.
func TestPage_PhoneHasRoomForTheTime(t *testing.T) {
	p := newTab(t, tabOptions{width: 360, height: 740})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	wanted := eval[float64](p, `((e) => {
		const probe = e.parentNode.appendChild(e.cloneNode());
		probe.value = e.value;
		probe.style.flex = 'none';
		probe.style.width = 'max-content';
		const { width } = probe.getBoundingClientRect();
		probe.remove();
		return width;
	})(document.getElementById('end'))`)
	require.Greater(t, wanted, 100.0)
	require.LessOrEqual(t, wanted, p.box("#end").W)
	berlin, err := time.LoadLocation(zone)
	require.NoError(t, err)
	require.Equal(t, data.end.In(berlin).Format("2006-01-02T15:04"), eval[string](p, "document.getElementById('end').value"))
}

func TestPage_DarkByTheSystemAndByTheButton(t *testing.T) {
	p := newTab(t, tabOptions{dark: true})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	ground := func() string { return eval[string](p, "getComputedStyle(document.documentElement).backgroundColor") }
	const dark, light = "rgb(20, 23, 27)", "rgb(255, 255, 255)"
	require.Equal(t, dark, ground())
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, eval[[]int](p, colours))
	p.click("#theme")
	require.Equal(t, light, ground())
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, eval[[]int](p, colours))
	p.click("#theme")
	require.Equal(t, dark, ground())
	p.dark(false)
	require.Equal(t, dark, ground(), "it is chosen")
	p.click("#theme")
	require.Equal(t, light, ground(), "as the system says")
	p.click("#theme")
	p.click("#theme")
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	require.Equal(t, dark, ground(), "it is remembered")
}

// What can be clicked can be reached by the keyboard, has a name, and shows where it is.
func TestPage_EverythingIsReachedByTab(t *testing.T) {
	p := newTab(t, tabOptions{})
	p.open("q", "node_load1")
	p.until("document.querySelectorAll('#legend tbody tr').length === 6")
	eval[any](p, "document.activeElement.blur() ?? null")
	want := eval[int](p, `[...document.querySelectorAll('a, button, input, select, textarea, [tabindex="0"]')].filter((e) => e.checkVisibility() && e.tabIndex >= 0).length`)
	reached := map[string]bool{}
	for range want + 10 {
		p.keys("\t")
		what := eval[[]string](p, `(() => {
			const e = document.activeElement;
			const all = [...document.querySelectorAll('*')];
			const name = e.ariaLabel || e.labels?.[0]?.innerText || e.innerText || e.title || '';
			const s = getComputedStyle(e);
			const shown = s.outlineStyle !== 'none' || !!e.closest('.editor');
			return [e === document.body ? '' : e.outerHTML.slice(0, 100) + all.indexOf(e), name.trim(), String(shown)];
		})()`)
		if what[0] == "" {
			continue
		}
		reached[what[0]] = true
		require.NotEmpty(t, what[1], "the name of element %s", what[0])
		require.Equal(t, "true", what[2], "focus is visible on %s", what[1])
	}
	require.Len(t, reached, want)
}

func TestPage_ManySeriesAreCutAndItSaysSo(t *testing.T) {
	if browser == nil {
		newTab(t, tabOptions{}) // skips or fails
	}
	p := newTab(t, tabOptions{db: crowded(t, 2100)})
	p.open("q", "queue_length", "range", "15m")
	p.until("document.querySelectorAll('#legend tbody tr').length === 200")
	require.Contains(t, p.text("#legend .caption"), "2,000 series")
	require.Contains(t, p.text("#notes .warning"), "There are more series than are shown")
	p.click("#legend > button")
	p.until("document.querySelectorAll('#legend tbody tr').length === 2000")
	p.open("q", "queue_length", "view", "table")
	p.until("document.querySelectorAll('#table tbody tr').length === 500")
	require.Contains(t, p.text("#table > button"), "Show 1,600 more")
	p.noErrors()
}
