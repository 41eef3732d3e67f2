package httpapi

import (
	"errors"
	"net/http"

	"github.com/seed347100a3/tsdb"
)

// churned is a line of a list of labels by how much their series come and go.
type churned struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// churn says which labels make series come and go, in a range of times, all by default. Clients of
// Prometheus do not know it.
func (a *API) churn(r *http.Request) answer {
	limit, ans := topParam(r)
	if ans != nil {
		return *ans
	}
	mint, maxt, ans := rangeParams(r)
	if ans != nil {
		return *ans
	}
	if maxt < mint {
		return badData(errors.New("end timestamp must not be before start timestamp"))
	}
	c, err := a.DB.Cardinality(r.Context(), tsdb.CardinalityOptions{MinT: mint, MaxT: maxt, Limit: limit})
	if err != nil {
		return notDone(err)
	}
	out := struct {
		MinTime int64     `json:"minTime"`
		MaxTime int64     `json:"maxTime"`
		Series  uint64    `json:"numSeries"`
		Names   []churned `json:"churnByLabelName"`
		Pairs   []churned `json:"churnByLabelValuePair"`
	}{MinTime: c.MinT, MaxTime: c.MaxT, Series: c.Series, Names: []churned{}, Pairs: []churned{}}
	for _, l := range c.ChurnNames {
		out.Names = append(out.Names, churned{l.Name, l.Churn})
	}
	for _, l := range c.ChurnPairs {
		out.Pairs = append(out.Pairs, churned{l.Name + "=" + l.Value, l.Churn})
	}
	return answer{data: out, warnings: annotated(c.Warnings)}
}
