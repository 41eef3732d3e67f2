package collector

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/remote"
)

// exporter is a way of a collector to send, and ours to receive.
type exporter struct {
	name, kind, options string
	args                []string // of the program
	ours                func(*tsdb.DB) http.Handler
	requests            int64  // for what is posted at once
	why                 string // what it logs of samples that are late
}

var exporters = []exporter{
	{"OTLP", "otlp_http", "sending_queue: {enabled: false}, endpoint: %q", nil, receiveOTLP, 1, "400, Message=out of order sample"},
	// It reads what an error says only if that is protobuf.
	{"OTLP as JSON", "otlp_http", "sending_queue: {enabled: false}, encoding: json, compression: none, endpoint: %q", nil, receiveOTLP, 1, "Status Code 400"},
	{"remote write 1.0", "prometheus_remote_write", "remote_write_queue: {enabled: false}, send_metadata: true, http: {endpoint: %q}", nil, receiveWrite, 2, "out of order sample"},
	{"remote write 2.0", "prometheus_remote_write", "remote_write_queue: {enabled: false}, protobuf_message: io.prometheus.write.v2.Request, http: {endpoint: %q}", []string{secondVersion}, receiveWrite, 1, "out of order sample"},
}

// stores is what of all gets through. The exporter of remote write 1.0 says of nothing since when
// it has been counted; that of 2.0 not of sums that may fall, and it has no exemplars of buckets.
func (e exporter) stores(all stored) stored {
	switch e.name {
	case "remote write 1.0":
		all.samples = notSince(all.samples, "")
	case "remote write 2.0":
		all.samples = notSince(all.samples, "connections")
		all.exemplars = without(all.exemplars, "_bucket")
		all.metadata = append(all.metadata, `{__name__="target_info", host_name="h1", instance="c-1", job="shop/cart"} gauge "" "Target metadata"`)
	}
	return all
}

// secondVersion allows remote write 2.0, which the collector counts among its experiments.
const secondVersion = "--feature-gates=exporter.prometheusremotewritexporter.enableSendingRW2"

// receiveOTLP stores what the exporter of remote write sends anyway: the labels of the scope, and
// since when values have been counted.
func receiveOTLP(db *tsdb.DB) http.Handler {
	return remote.NewOTLPHandler(db, &remote.OTLPOptions{PromoteScope: true, StartTimestamps: true})
}

func receiveWrite(db *tsdb.DB) http.Handler { return remote.NewWriteHandler(db, nil) }

// startCollector runs a collector that takes OTLP and has one exporter, which sends to us; see
// serve.
func startCollector(t *testing.T, e exporter, db *tsdb.DB, busy int64) *program {
	t.Helper()
	p := &program{t: t}
	to := fmt.Sprintf(e.options, p.serve(e.ours, db, busy))
	p.start("otelcol", `
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
exporters: {`+e.kind+`: {retry_on_failure: {initial_interval: 10ms}, `+to+`}}
service:
  telemetry: {metrics: {level: none}, logs: {encoding: json}}
  pipelines: {metrics: {receivers: [otlp], exporters: [`+e.kind+`]}}
`, append(e.args, "--config")...)
	return p
}

// post sends metrics to a collector. It answers when its exporter has done with them, as there is
// no queue in between.
func (p *program) post(all pmetric.Metrics) (status int) {
	p.t.Helper()
	body, err := pmetricotlp.NewExportRequestFromMetrics(all).MarshalProto()
	require.NoError(p.t, err)
	resp, err := http.Post(p.url+"/v1/metrics", "application/x-protobuf", bytes.NewReader(body))
	require.NoError(p.t, err)
	defer func() { require.NoError(p.t, resp.Body.Close()) }()
	return resp.StatusCode
}
