package httpapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
)

// farSeconds is the time, from 1970 in both directions, up to which milliseconds are an int64 with
// room for what an engine adds to them. Clients that mean all times send it; what is further is
// taken for it.
const farSeconds = math.MaxInt64/1000 - 62135596801

var (
	minTime = time.Unix(-farSeconds, 0).UTC()
	maxTime = time.Unix(farSeconds, 999999999).UTC()
	// As clients write them, as other forms of time cannot.
	minTimeText = minTime.Format(time.RFC3339Nano)
	maxTimeText = maxTime.Format(time.RFC3339Nano)
)

// parseForm reads parameters from the URL and from the body of a form, which count first.
func (a *API) parseForm(w http.ResponseWriter, r *http.Request) *failure {
	r.Body = http.MaxBytesReader(w, r.Body, a.MaxFormBytes)
	err := r.ParseForm()
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return &failure{http.StatusRequestEntityTooLarge, "bad_data", fmt.Errorf("a form of more than %d bytes", long.Limit)}
	case err != nil:
		return &failure{http.StatusBadRequest, "bad_data", fmt.Errorf("error parsing form values: %w", err)}
	default:
		return nil
	}
}

// parseTime reads seconds since 1970, or a time as RFC 3339 has it.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case math.IsNaN(f):
			return time.Time{}, fmt.Errorf("%q is no time", s)
		case f <= -farSeconds:
			return minTime, nil
		case f >= farSeconds:
			return maxTime, nil
		}
		seconds, part := math.Modf(f)
		return time.Unix(int64(seconds), int64(math.Round(part*1000))*int64(time.Millisecond)).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	switch s {
	case minTimeText:
		return minTime, nil
	case maxTimeText:
		return maxTime, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// timeParam reads a time that has a default.
func timeParam(r *http.Request, name string, missing time.Time) (time.Time, error) {
	s := r.Form.Get(name)
	if s == "" {
		return missing, nil
	}
	t, err := parseTime(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time value for '%s': %w", name, err)
	}
	return t, nil
}

// rangeParams reads start and end, all times by default, as milliseconds.
func rangeParams(r *http.Request) (mint, maxt int64, ans *answer) {
	start, err := timeParam(r, "start", minTime)
	if err != nil {
		a := badParam("start", err)
		return 0, 0, &a
	}
	end, err := timeParam(r, "end", maxTime)
	if err != nil {
		a := badParam("end", err)
		return 0, 0, &a
	}
	return timestamp.FromTime(start), timestamp.FromTime(end), nil
}

// parseDuration reads seconds, or a duration as Prometheus writes it.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * float64(time.Second)
		if math.IsNaN(ns) || ns >= math.MaxInt64 || ns <= math.MinInt64 {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// limitParam reads how much is wanted; 0: everything.
func limitParam(r *http.Request) (int, error) {
	s := r.Form.Get("limit")
	if s == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(s)
	if err != nil {
		return 0, err
	}
	if limit < 0 {
		return 0, errors.New("limit must be non-negative")
	}
	return limit, nil
}

var errNoMatch = errors.New("no match[] parameter provided")

// matchParams reads selectors, each of which must say something.
func (a *API) matchParams(r *http.Request) ([][]*labels.Matcher, error) {
	var sets [][]*labels.Matcher
	for _, s := range r.Form["match[]"] {
		if err := a.checkLength(s); err != nil {
			return nil, err
		}
		ms, err := a.Parser.ParseMetricSelector(s)
		if err != nil {
			return nil, err
		}
		if !saysSomething(ms) {
			return nil, errors.New("match[] must contain at least one non-empty matcher")
		}
		sets = append(sets, ms)
	}
	return sets, nil
}

func saysSomething(ms []*labels.Matcher) bool {
	for _, m := range ms {
		if m != nil && !m.Matches("") {
			return true
		}
	}
	return false
}

// checkLength keeps the parser from expressions that nobody has written.
func (a *API) checkLength(query string) error {
	if len(query) > a.MaxQueryBytes {
		return fmt.Errorf("an expression of %d bytes: at most %d are read", len(query), a.MaxQueryBytes)
	}
	return nil
}
