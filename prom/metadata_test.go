package prom_test

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

func openMetadata(t *testing.T) *tsdb.DB {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, Limits: tsdb.Limits{MaxFuture: -1}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// metadataIn is what a database says, by labels.
func metadataIn(t *testing.T, db *tsdb.DB) map[string]tsdb.Metadata {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	list, err := q.Metadata(context.Background())
	require.NoError(t, err)
	all := map[string]tsdb.Metadata{}
	for _, m := range list {
		all[m.Labels.String()] = m.Metadata
	}
	return all
}

func TestAppenders_StoreMetadata(t *testing.T) {
	db := openMetadata(t)
	s := prom.NewStorage(db)
	up := labels.FromStrings("__name__", "up")
	v1 := s.Appender(context.Background())
	ref, err := v1.Append(0, up, 1, 1)
	require.NoError(t, err)
	counter := metadata.Metadata{Type: model.MetricTypeCounter, Unit: "s", Help: "Up."}
	same, err := v1.UpdateMetadata(ref, up, counter)
	require.NoError(t, err)
	require.Equal(t, ref, same)
	_, err = v1.UpdateMetadata(77, labels.EmptyLabels(), counter)
	require.ErrorIs(t, err, tsdb.ErrNotFound)
	require.NoError(t, v1.Commit())
	require.Equal(t, map[string]tsdb.Metadata{`{__name__="up"}`: {Type: tsdb.MetricCounter, Unit: "s", Help: "Up."}}, metadataIn(t, db))

	v2 := s.AppenderV2(context.Background())
	described := func(m metadata.Metadata) storage.AOptions { return storage.AOptions{Metadata: m} }
	_, err = v2.Append(ref, up, 0, 2, 2, nil, nil, described(metadata.Metadata{Type: "odd", Help: "Of an odd type."}))
	require.NoError(t, err)
	_, err = v2.Append(0, labels.FromStrings("__name__", "bad"), 0, 2, 2, nil, nil, described(metadata.Metadata{Help: "\xff"}))
	require.NoError(t, err, "the sample is worth more")
	_, err = v2.Append(ref, up, 0, 0, 2, nil, nil, described(counter))
	require.ErrorIs(t, err, storage.ErrOutOfOrderSample)
	require.NoError(t, v2.Commit())
	require.Equal(t, map[string]tsdb.Metadata{`{__name__="up"}`: {Help: "Of an odd type."}}, metadataIn(t, db))
	require.Equal(t, 2, db.Stats().Series)
}

func TestHandler_AnswersWithMetadata(t *testing.T) {
	db := openMetadata(t)
	app := prom.NewStorage(db).AppenderV2(context.Background())
	add := func(m metadata.Metadata, pairs ...string) {
		_, err := app.Append(0, labels.FromStrings(pairs...), 0, 1, 1, nil, nil, storage.AOptions{Metadata: m})
		require.NoError(t, err)
	}
	requests := metadata.Metadata{Type: model.MetricTypeCounter, Help: "Requests."}
	latency := metadata.Metadata{Type: model.MetricTypeHistogram, Unit: "seconds", Help: "Latency."}
	add(requests, "__name__", "requests_total", "job", "a", "instance", "1")
	add(requests, "__name__", "requests_total", "job", "a", "instance", "1", "code", "500")
	add(metadata.Metadata{Type: model.MetricTypeGauge, Help: "Another."}, "__name__", "requests_total", "job", "b", "instance", "2")
	add(latency, "__name__", "latency_bucket", "le", "1", "job", "a", "instance", "1")
	add(latency, "__name__", "latency_sum", "job", "a", "instance", "1")
	add(metadata.Metadata{}, "__name__", "unknown", "job", "a", "instance", "1")
	require.NoError(t, app.Commit())
	server := httptest.NewServer(prom.NewHandler(db, nil))
	defer server.Close()

	const (
		inLatency  = `{"type":"histogram","unit":"seconds","help":"Latency."}`
		inRequests = `{"type":"counter","unit":"","help":"Requests."}`
		other      = `{"type":"gauge","unit":"","help":"Another."}`
		a, b       = `{"instance":"1","job":"a"}`, `{"instance":"2","job":"b"}`
		ofLatency  = `{"target":` + a + `,"metric":"latency","type":"histogram","unit":"seconds","help":"Latency."}`
		ofRequests = `{"target":` + a + `,"metric":"requests_total","type":"counter","unit":"","help":"Requests."}`
		ofOther    = `{"target":` + b + `,"metric":"requests_total","type":"gauge","unit":"","help":"Another."}`
	)
	for _, c := range []struct {
		path   string
		query  url.Values
		status int
		want   string
	}{
		{"metadata", nil, 200, `{"latency":[` + inLatency + `],"requests_total":[` + inRequests + `,` + other + `]}`},
		{"metadata", url.Values{"metric": {"requests_total"}}, 200, `{"requests_total":[` + inRequests + `,` + other + `]}`},
		{"metadata", url.Values{"metric": {"nothing"}}, 200, `{}`},
		{"metadata", url.Values{"limit": {"1"}}, 200, `{"latency":[` + inLatency + `]}`},
		{"metadata", url.Values{"limit": {"-1"}, "limit_per_metric": {"1"}}, 200, `{"latency":[` + inLatency + `],"requests_total":[` + inRequests + `]}`},
		{"metadata", url.Values{"limit_per_metric": {"x"}}, 400, ``},
		{"targets/metadata", nil, 200, `[` + ofLatency + `,` + ofRequests + `,` + ofOther + `]`},
		{"targets/metadata", url.Values{"limit": {"1"}}, 200, `[` + ofLatency + `,` + ofRequests + `]`},
		{"targets/metadata", url.Values{"match_target": {`{job="b"}`}}, 200, `[` + ofOther + `]`},
		{"targets/metadata", url.Values{"metric": {"latency"}}, 200, `[{"target":` + a + `,"type":"histogram","unit":"seconds","help":"Latency."}]`},
		{"targets/metadata", url.Values{"match_target": {`{job=`}}, 400, ``},
		{"targets/metadata", url.Values{"limit": {"x"}}, 400, ``},
	} {
		res, err := http.Get(server.URL + "/api/v1/" + c.path + "?" + c.query.Encode())
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, c.status, res.StatusCode, "%s %v: %s", c.path, c.query, text)
		if c.status != 200 {
			continue
		}
		var got struct{ Data json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &got))
		require.JSONEq(t, c.want, string(got.Data), "%s %v", c.path, c.query)
	}
}
