package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// A database evaluates no rules and sends no alerts. What is asked of them is
// answered in the form that clients know, with nothing in it.

// empty is a list without elements; a nil one would be written as null.
var empty = []string{}

func (a *API) rules(r *http.Request) answer {
	switch typ := r.Form.Get("type"); typ {
	case "", "alert", "record":
	default:
		return badParam("type", fmt.Errorf("not supported value %q", typ))
	}
	if s := r.Form.Get("group_limit"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return badParam("group_limit", fmt.Errorf("group_limit needs to be a valid number: %w", err))
		}
		if n <= 0 {
			return badParam("group_limit", errors.New("group_limit needs to be greater than 0"))
		}
	}
	return answer{data: map[string][]string{"groups": empty}}
}

func (a *API) alerts(*http.Request) answer { return answer{data: map[string][]string{"alerts": empty}} }

func (a *API) alertmanagers(*http.Request) answer {
	return answer{data: struct {
		Active  []string `json:"activeAlertmanagers"`
		Dropped []string `json:"droppedAlertmanagers"`
	}{empty, empty}}
}

func (a *API) notifications(*http.Request) answer { return answer{data: empty} }
