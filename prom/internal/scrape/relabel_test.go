package scrape

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
)

func rules(t *testing.T, text string) (list []*relabel.Config) {
	t.Helper()
	require.NoError(t, strictyaml.Decode([]byte(text), &list))
	return list
}

// Rules for series rename, drop and change what is stored; what is dropped counts for nothing, and
// ends with nothing.
func TestScrape_MetricRelabel(t *testing.T) {
	w := newWorld(t, func(j *Job) {
		j.SampleLimit = 2
		j.MetricRelabel = rules(t, `
- {source_labels: [__name__], regex: 'debug_.*', action: drop}
- {regex: secret, action: labeldrop}
- {source_labels: [__name__], regex: old_(.+), target_label: __name__, replacement: new_$1}
`)
	})
	const text = "# TYPE old_a gauge\n# HELP old_a Help.\nold_a{secret=\"x\"} 1\ndebug_b 2\ndebug_c 2\n"
	w.scrape(text)
	w.scrape(text)
	w.scrape("debug_b 2\nc 1\n")
	w.scrape("debug_b 2\nc 1\nd 1\ne 1\ndebug_c 1\n") // too many: nothing of it
	w.scrape("debug_b 2\nc 1\n")
	require.Equal(t, map[string]string{`{}`: "1 1 end"}, w.stored("new_a"))
	require.Equal(t, map[string]string{`{}`: "1 end 1"}, w.stored("c"))
	for _, name := range []string{"old_a", "debug_b", "debug_c", "d", "e"} {
		require.Empty(t, w.stored(name), name)
	}
	require.Equal(t, map[string]string{`{}`: "1 1 1 0 1"}, w.stored("up"))
	require.Equal(t, map[string]string{`{}`: "3 3 2 5 2"}, w.stored("scrape_samples_scraped"))
	require.Equal(t, map[string]string{`{}`: "1 1 1 4 1"}, w.stored("scrape_samples_post_metric_relabeling"))
	require.Equal(t, map[string]string{`{}`: "1 0 1 1 0"}, w.stored("scrape_series_added"))
}

// Two series that rules make one are one: the first sample counts, and it has not ended while one
// of them is there.
func TestScrape_SeriesThatRulesMakeOne(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.MetricRelabel = rules(t, "[{regex: i, action: labeldrop}]") })
	w.scrape("a{i=\"1\"} 1\na{i=\"2\"} 2\n")
	w.scrape("a{i=\"2\"} 3\n")
	w.scrape("")
	require.Equal(t, map[string]string{`{}`: "1 3 end"}, w.stored("a"))
}

func TestScrape_ASeriesThatLosesItsName(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.MetricRelabel = rules(t, "[{regex: __name__, action: labeldrop}]") })
	w.scrape("a 1\n")
	require.Equal(t, map[string]string{`{}`: "0"}, w.stored("up"))
	require.Contains(t, w.target.tell().LastError, "without a name")
}

// A job can read its targets through one program, which is told the target.
func TestScrape_TargetsBehindAProber(t *testing.T) {
	var prober string
	w := newWorld(t, func(j *Job) {
		prober = j.Static[0].Targets[0]
		j.Path, j.Params = "/probe", map[string][]string{"module": {"http_2xx"}, "target": {"none", "more"}}
		j.Static = []StaticTargets{{Targets: []string{"https://example.org/x"}, Labels: map[string]string{"zone": "z", "__scrape_interval__": "20s"}}}
		j.Relabel = rules(t, `
- {source_labels: [__address__], target_label: __param_target}
- {source_labels: [__param_target], target_label: instance}
- {target_label: __address__, replacement: '`+prober+`'}
`)
	})
	require.Equal(t, "http://"+prober+"/probe?module=http_2xx&target=https%3A%2F%2Fexample.org%2Fx&target=more", w.target.url)
	require.Equal(t, 20*time.Second, w.target.interval)
	w.scrape("probe_success 1\n")
	require.Equal(t, map[string]string{`{}`: "1"}, w.stored("probe_success"))
	told := w.target.tell()
	require.Equal(t, map[string]string{"instance": "https://example.org/x", "job": "j", "zone": "z"}, told.Labels)
	require.Equal(t, "https://example.org/x", told.Discovered["__address__"])
	require.Equal(t, "20s", told.Interval)
}

// Rules drop targets, which are told, and two that they make one are one.
func TestNew_RulesOfTargets(t *testing.T) {
	c := &Config{Jobs: []Job{{
		Name: "j", Static: []StaticTargets{{Targets: []string{"a:1", "b:1", "b:2", "c:1"}, Labels: map[string]string{"__meta_of": "x"}}},
		Relabel: rules(t, `
- {source_labels: [__address__], regex: 'a:.*', action: drop}
- {source_labels: [__address__], regex: '(b):.*', target_label: __address__, replacement: $1}
- {action: labelmap, regex: __meta_(.+)}
`),
	}}}
	require.NoError(t, c.Settle())
	r, err := New(c, broken{}, Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	kept, dropped := r.Len()
	require.Equal(t, [2]int{2, 1}, [2]int{kept, dropped})
	all := r.Targets()
	require.Equal(t, []string{"http://b/metrics", "http://c:1/metrics", ""}, []string{all[0].URL, all[1].URL, all[2].URL})
	require.Equal(t, map[string]string{"instance": "b", "job": "j", "of": "x"}, all[0].Labels)
	require.True(t, all[2].Dropped)
	require.Equal(t, "a:1", all[2].Discovered["__address__"])
}

func TestSettle_RulesThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"[{target_label: __address__, replacement: ''}]":            "want host:port",
		"[{target_label: __address__, replacement: 'a/b'}]":         "want host:port",
		"[{target_label: __scheme__, replacement: ftp}]":            `scheme "ftp"`,
		"[{target_label: __scrape_interval__, replacement: often}]": `__scrape_interval__ "often": want a duration`,
		"[{target_label: __scrape_timeout__, replacement: 1h}]":     "__scrape_timeout__ is longer",
		"[{action: replace}]":                                       "relabel_configs: rule 1",
		"[{action: hashmod, target_label: a}]":                      "relabel_configs: rule 1",
		"[{action: labeldrop, regex: a}, null]":                     "rule 2 is empty",
	} {
		c := &Config{Jobs: []Job{{Name: "j", Static: []StaticTargets{{Targets: []string{"h:1"}}}, Relabel: rules(t, text)}}}
		require.ErrorContains(t, c.Settle(), want, text)
	}
}

func TestSettle_LimitOfTargets(t *testing.T) {
	c := &Config{Jobs: []Job{{Name: "j", Static: []StaticTargets{{Targets: []string{"h:1", "h:2"}}}}}}
	c.Global.TargetLimit = 1
	require.ErrorContains(t, c.Settle(), "there are 2 targets, target_limit is 1")
}

// Limits of labels hold behind the rules.
func TestScrape_LimitsOfLabels(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"number": {func(j *Job) { j.LabelLimit = 5 }, "label_limit is 5"},
		"names":  {func(j *Job) { j.LabelNameLimit = 10 }, "label_name_length_limit is 10"},
		"values": {func(j *Job) { j.LabelValueLimit = 30 }, "label_value_length_limit is 30"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(j *Job) {
				test.change(j)
				j.MetricRelabel = rules(t, "[{regex: dropped, action: labeldrop}]")
			})
			w.scrape("a{x=\"1\",dropped=\"" + strings.Repeat("v", 100) + "\"} 1\n")
			require.Empty(t, w.target.tell().LastError)
			w.scrape("a{x=\"1\",a_long_name=\"" + strings.Repeat("v", 31) + "\"} 1\n")
			require.Contains(t, w.target.tell().LastError, test.want)
			require.Equal(t, map[string]string{`{}`: "1 0"}, w.stored("up"))
		})
	}
}
