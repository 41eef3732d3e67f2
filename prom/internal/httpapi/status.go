package httpapi

import (
	"errors"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/seed347100a3/tsdb"
)

func (a *API) buildInfo(*http.Request) answer { return answer{data: a.Build} }
func (a *API) configYAML(*http.Request) answer {
	return answer{data: map[string]string{"yaml": a.YAML}}
}
func (a *API) flags(*http.Request) answer { return answer{data: a.Flags} }

// runtimeInfo says how the program runs.
func (a *API) runtimeInfo(*http.Request) answer {
	wd, err := os.Getwd()
	if err != nil {
		wd = err.Error()
	}
	host, err := os.Hostname()
	if err != nil {
		host = err.Error()
	}
	return answer{data: struct {
		StartTime           time.Time `json:"startTime"`
		CWD                 string    `json:"CWD"`
		Hostname            string    `json:"hostname"`
		ServerTime          time.Time `json:"serverTime"`
		ReloadConfigSuccess bool      `json:"reloadConfigSuccess"`
		LastConfigTime      time.Time `json:"lastConfigTime"`
		CorruptionCount     int       `json:"corruptionCount"`
		GoroutineCount      int       `json:"goroutineCount"`
		GOMAXPROCS          int       `json:"GOMAXPROCS"`
		GOMEMLIMIT          int64     `json:"GOMEMLIMIT"`
		GOGC                string    `json:"GOGC"`
		GODEBUG             string    `json:"GODEBUG"`
		StorageRetention    string    `json:"storageRetention"`
	}{
		StartTime: a.started.UTC(), CWD: wd, Hostname: host, ServerTime: a.Now().UTC(), ReloadConfigSuccess: true,
		LastConfigTime: a.started.UTC(), CorruptionCount: len(a.DB.OpenReport().Damages), GoroutineCount: runtime.NumGoroutine(),
		GOMAXPROCS: runtime.GOMAXPROCS(0), GOMEMLIMIT: debug.SetMemoryLimit(-1), GOGC: os.Getenv("GOGC"), GODEBUG: os.Getenv("GODEBUG"),
		StorageRetention: a.Flags["storage.tsdb.retention.time"],
	}}
}

// named is a line of a list of what there is most of.
type named struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

func counts(list []tsdb.LabelCount, name func(*tsdb.LabelCount) string) []named {
	out := make([]named, 0, len(list))
	for i := range list {
		out = append(out, named{name(&list[i]), list[i].Count})
	}
	return out
}

const maxStatusLimit = 10000

// topParam reads how long lists of what there is most of shall be.
func topParam(r *http.Request) (int, *answer) {
	s := r.Form.Get("limit")
	if s == "" {
		return 10, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		ans := badData(errors.New("limit must be a positive number"))
		return 0, &ans
	}
	if n > maxStatusLimit {
		ans := badData(errors.New("limit must not exceed 10000"))
		return 0, &ans
	}
	return n, nil
}

// headStatus says which metrics and labels make most of the series of the head.
func (a *API) headStatus(r *http.Request) answer {
	limit, ans := topParam(r)
	if ans != nil {
		return *ans
	}
	st := a.DB.Stats()
	type head struct {
		NumSeries     uint64 `json:"numSeries"`
		NumLabelPairs int    `json:"numLabelPairs"`
		ChunkCount    uint64 `json:"chunkCount"`
		MinTime       int64  `json:"minTime"`
		MaxTime       int64  `json:"maxTime"`
	}
	out := struct {
		Head        head    `json:"headStats"`
		Metrics     []named `json:"seriesCountByMetricName"`
		Names       []named `json:"labelValueCountByLabelName"`
		ValueBytes  []named `json:"memoryInBytesByLabelName"`
		SeriesPairs []named `json:"seriesCountByLabelValuePair"`
	}{Head: head{MinTime: st.MinT, MaxTime: st.MaxT}, Metrics: []named{}, Names: []named{}, ValueBytes: []named{}, SeriesPairs: []named{}}
	if st.MinT > st.MaxT {
		return answer{data: out}
	}
	c, err := a.DB.Cardinality(r.Context(), tsdb.CardinalityOptions{MinT: st.MinT, MaxT: st.MaxT, Limit: limit})
	if err != nil {
		return notDone(err)
	}
	out.Head.NumSeries, out.Head.NumLabelPairs, out.Head.ChunkCount = c.Series, c.LabelPairs, c.Chunks
	name := func(l *tsdb.LabelCount) string { return l.Name }
	out.Metrics, out.Names, out.ValueBytes = counts(c.Metrics, name), counts(c.Names, name), counts(c.ValueBytes, name)
	out.SeriesPairs = counts(c.Pairs, func(l *tsdb.LabelCount) string { return l.Name + "=" + l.Value })
	return answer{data: out, warnings: annotated(c.Warnings)}
}

// replay answers that the log is replayed: it is when there is an API.
func (a *API) replay(*http.Request) answer {
	return answer{data: struct {
		Min     int `json:"min"`
		Max     int `json:"max"`
		Current int `json:"current"`
	}{}}
}

// Version answers with the version alone.
func (a *API) Version() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := newEncoder(w)
		defer e.free()
		e.value(a.Build)
		if err := e.flush(); err != nil {
			a.Logger.Debug("an answer could not be written", "path", "/version", "error", err)
		}
	})
}
