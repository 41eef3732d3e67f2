package httpapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

var errNoAdmin = errors.New("admin APIs disabled")

func (a *API) asAdmin(e endpoint) endpoint {
	if a.Admin {
		return e
	}
	return func(*http.Request) answer {
		return failed(http.StatusInternalServerError, "unavailable", errNoAdmin)
	}
}

// deleteSeries deletes what matches in a range of times.
func (a *API) deleteSeries(r *http.Request) answer {
	if len(r.Form["match[]"]) == 0 {
		return badData(errNoMatch)
	}
	mint, maxt, sets, ans := a.selected(r)
	if ans != nil {
		return *ans
	}
	for _, ms := range sets {
		ours, err := a.Matchers(ms)
		if err != nil {
			return badParam("match[]", err)
		}
		if mint > maxt {
			continue
		}
		if err := a.DB.Delete(r.Context(), mint, maxt, ours...); err != nil {
			return failed(http.StatusInternalServerError, "internal", err)
		}
	}
	return answer{status: http.StatusNoContent}
}

// cleanTombstones frees what deleted samples take.
func (a *API) cleanTombstones(r *http.Request) answer {
	if err := a.DB.CleanTombstones(r.Context()); err != nil {
		return failed(http.StatusInternalServerError, "internal", err)
	}
	return answer{status: http.StatusNoContent}
}

// snapshotDir is where snapshots are made, in the data directory.
const snapshotDir = "snapshots"

// snapshot makes a copy of the database, of blocks and head.
func (a *API) snapshot(r *http.Request) answer {
	if s := r.Form.Get("skip_head"); s != "" {
		skip, err := strconv.ParseBool(s)
		if err != nil {
			return badParam("skip_head", fmt.Errorf("unable to parse boolean: %w", err))
		}
		if skip {
			return badParam("skip_head", errors.New("snapshots are made with the head"))
		}
	}
	dir := filepath.Join(a.DB.Dir(), snapshotDir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return failed(http.StatusInternalServerError, "internal", err)
	}
	name := fmt.Sprintf("%s-%016x", a.Now().UTC().Format("20060102T150405Z"), rand.Uint64())
	if err := a.DB.Snapshot(r.Context(), filepath.Join(dir, name)); err != nil {
		return failed(http.StatusInternalServerError, "internal", err)
	}
	return answer{data: map[string]string{"name": name}}
}
