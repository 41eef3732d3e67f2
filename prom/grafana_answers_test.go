package prom_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// grafanaAnswer is an answer, unpacked.
type grafanaAnswer struct {
	status  int
	typ     string
	packing string
	body    []byte
}

func sendGrafana(t *testing.T, req *http.Request) *grafanaAnswer {
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	a := &grafanaAnswer{status: resp.StatusCode, typ: resp.Header.Get("Content-Type"), packing: resp.Header.Get("Content-Encoding")}
	body := io.Reader(resp.Body)
	switch a.packing {
	case "":
	case "gzip":
		body, err = gzip.NewReader(body)
	case "zstd":
		body, err = zstd.NewReader(body)
	default:
		require.FailNow(t, "packed in a way that was not asked for", a.packing)
	}
	require.NoError(t, err)
	a.body, err = io.ReadAll(body)
	require.NoError(t, err)
	return a
}

// envelope is what is around all data.
type envelope struct {
	Status    string          `json:"status"`
	Data      json.RawMessage `json:"data"`
	ErrorType string          `json:"errorType"`
	Error     string          `json:"error"`
	Warnings  []string        `json:"warnings"`
	Infos     []string        `json:"infos"`
}

func (a *grafanaAnswer) open(t *testing.T, status int) envelope {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	require.Equal(t, "application/json", a.typ)
	var e envelope
	strictly(t, a.body, &e)
	return e
}

// data is what a success carries.
func (a *grafanaAnswer) data(t *testing.T) json.RawMessage {
	t.Helper()
	e := a.open(t, http.StatusOK)
	require.Equal(t, "success", e.Status)
	require.NotEmpty(t, e.Data)
	return e.Data
}

// strictly reads JSON with nothing in it that is not known.
func strictly(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), "%s", text)
}

// result is the result of a query of one type. Versions before 10 need the type in front of it, and
// none can do with null for an empty one.
func (a *grafanaAnswer) result(t *testing.T, typ string, into any) {
	t.Helper()
	data := a.data(t)
	require.True(t, bytes.HasPrefix(data, []byte(`{"resultType":"`+typ+`","result":[`)), "%s", data)
	var r struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	strictly(t, data, &r)
	strictly(t, r.Result, into)
}

// timeValue is a time in seconds, a number, and a value, a string.
type timeValue struct {
	at    float64
	value string
}

func (p *timeValue) UnmarshalJSON(text []byte) error {
	pair := []any{&p.at, &p.value}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("%s is not a time and a value", text)
	}
	return nil
}

// requireNumber requires that the value is what Grafana takes for a number.
func (p timeValue) requireNumber(t *testing.T) {
	t.Helper()
	_, err := strconv.ParseFloat(p.value, 64)
	require.NoError(t, err)
}

type seriesOfValues struct {
	Metric map[string]string `json:"metric"`
	Value  *timeValue        `json:"value"`
	Values []timeValue       `json:"values"`
}

func scalar(at float64, value string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		var p timeValue
		a.result(t, "scalar", &p)
		require.Equal(t, timeValue{at, value}, p)
	}
}

func stringValue(at float64, value string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		var p timeValue
		a.result(t, "string", &p)
		require.Equal(t, timeValue{at, value}, p)
	}
}

// vector is so many series with a value at a time.
func vector(n int, at float64) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		var list []seriesOfValues
		a.result(t, "vector", &list)
		require.Len(t, list, n)
		for _, s := range list {
			require.NotEmpty(t, s.Metric)
			require.Nil(t, s.Values)
			require.InDelta(t, at, s.Value.at, 0)
			s.Value.requireNumber(t)
		}
	}
}

// matrix is so many series with so many values each, in the order of time.
func matrix(n, points int) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		var list []seriesOfValues
		a.result(t, "matrix", &list)
		require.Len(t, list, n)
		for _, s := range list {
			require.NotEmpty(t, s.Metric)
			require.Nil(t, s.Value)
			require.Len(t, s.Values, points)
			for i, p := range s.Values {
				p.requireNumber(t)
				require.True(t, i == 0 || p.at > s.Values[i-1].at)
			}
		}
	}
}

// values is one series with these values.
func values(want ...string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		var list []seriesOfValues
		a.result(t, "matrix", &list)
		require.Len(t, list, 1)
		var got []string
		for _, p := range list[0].Values {
			got = append(got, p.value)
			p.requireNumber(t)
		}
		require.Equal(t, want, got)
	}
}

// noted is data with a note, which Grafana shows in the corner of a panel.
func noted(what string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		e := a.open(t, http.StatusOK)
		require.Equal(t, "success", e.Status)
		require.Len(t, append(e.Infos, e.Warnings...), 1)
		require.Contains(t, append(e.Infos, e.Warnings...)[0], what)
	}
}

// list is strings in order; an empty one is not null.
func list(want ...string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		data := a.data(t)
		require.Equal(t, byte('['), data[0], "%s", data)
		var got []string
		strictly(t, data, &got)
		require.Equal(t, append([]string{}, want...), got)
	}
}

// labelSets is so many objects of strings.
func labelSets(n int) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		var got []map[string]string
		strictly(t, a.data(t), &got)
		require.Len(t, got, n)
		for _, ls := range got {
			require.NotEmpty(t, ls["__name__"])
		}
	}
}

func object(want string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) { require.JSONEq(t, want, string(a.data(t))) }
}

// plainPrometheus is a server without features of others: one with any is taken for Mimir.
func plainPrometheus(t *testing.T, a *grafanaAnswer) {
	var info struct {
		Version, Revision, Branch, BuildUser, BuildDate, GoVersion string
		Features                                                   map[string]string
	}
	require.NoError(t, json.Unmarshal(a.data(t), &info))
	require.NotEmpty(t, info.Version)
	require.NotEmpty(t, info.GoVersion)
	require.Empty(t, info.Features)
}

// failure is an error that a panel shows.
func failure(status int, typ, says string) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) {
		e := a.open(t, status)
		require.Equal(t, "error", e.Status)
		require.Equal(t, typ, e.ErrorType)
		require.Contains(t, e.Error, says)
		require.Empty(t, e.Data)
	}
}

func status(want int) func(*testing.T, *grafanaAnswer) {
	return func(t *testing.T, a *grafanaAnswer) { require.Equal(t, want, a.status, "%s", a.body) }
}
