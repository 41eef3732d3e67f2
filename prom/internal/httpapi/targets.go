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

	Dropped bool `json:"-"` // it is not scraped: only its discovered labels and its pool are told
}

// droppedTarget is what is told of one that is not scraped.
type droppedTarget struct {
	Discovered map[string]string `json:"discoveredLabels"`
	Pool       string            `json:"scrapePool"`
}

// targets answers with what is scraped, and with what is configured and dropped.
func (a *API) targets(r *http.Request) answer {
	state, pool := r.Form.Get("state"), r.Form.Get("scrapePool")
	switch state {
	case "", "active", "dropped", "any":
	default:
		return badParam("state", fmt.Errorf("not supported value %q", state))
	}
	active, dropped, counts := []Target{}, []droppedTarget{}, map[string]int{}
	for _, t := range a.allTargets() {
		switch {
		case pool != "" && t.Pool != pool:
		case !t.Dropped && state != "dropped":
			active = append(active, t)
		case t.Dropped && state != "active":
			dropped = append(dropped, droppedTarget{t.Discovered, t.Pool})
		}
		if t.Dropped && state != "active" {
			counts[t.Pool]++
		}
	}
	return answer{data: struct {
		Active  []Target        `json:"activeTargets"`
		Dropped []droppedTarget `json:"droppedTargets"`
		Counts  map[string]int  `json:"droppedTargetCounts"`
	}{active, dropped, counts}}
}

func (a *API) allTargets() []Target {
	if a.Targets == nil {
		return nil
	}
	return a.Targets()
}

// scrapePools answers with the jobs.
func (a *API) scrapePools(*http.Request) answer {
	pools := []string{}
	for _, t := range a.allTargets() {
		pools = append(pools, t.Pool)
	}
	slices.Sort(pools)
	return answer{data: map[string][]string{"scrapePools": slices.Compact(pools)}}
}
