package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Target is what a server tells of a program that it scrapes.
type Target struct {
	Discovered map[string]string `json:"discoveredLabels"` // as it was configured
	Labels     map[string]string `json:"labels"`           // of its series
	Pool       string            `json:"scrapePool"`       // the job
	URL        string            `json:"scrapeUrl"`
	GlobalURL  string            `json:"globalUrl"`
	LastError  string            `json:"lastError"` // empty: the last scrape was whole
	LastScrape time.Time         `json:"lastScrape"`
	Seconds    float64           `json:"lastScrapeDuration"`
	Health     string            `json:"health"` // up, down, unknown: it was not scraped yet
	Interval   string            `json:"scrapeInterval"`
	Timeout    string            `json:"scrapeTimeout"`
}

// targets answers with what is scraped. Nothing that is configured is dropped.
func (a *API) targets(r *http.Request) answer {
	state := r.Form.Get("state")
	switch state {
	case "", "active", "dropped", "any":
	default:
		return badParam("state", fmt.Errorf("not supported value %q", state))
	}
	active := []Target{}
	if a.Targets != nil && state != "dropped" {
		pool := r.Form.Get("scrapePool")
		active = append(active, slices.DeleteFunc(a.Targets(), func(t Target) bool { return pool != "" && t.Pool != pool })...)
	}
	return answer{data: struct {
		Active  []Target       `json:"activeTargets"`
		Dropped []string       `json:"droppedTargets"`
		Counts  map[string]int `json:"droppedTargetCounts"`
	}{active, empty, map[string]int{}}}
}

// scrapePools answers with the jobs.
func (a *API) scrapePools(*http.Request) answer {
	pools := []string{}
	if a.Targets != nil {
		for _, t := range a.Targets() {
			pools = append(pools, t.Pool)
		}
	}
	slices.Sort(pools)
	return answer{data: map[string][]string{"scrapePools": slices.Compact(pools)}}
}
