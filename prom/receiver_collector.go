package prom

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed347100a3/tsdb/remote"
)

// ReceiverCollector gives the numbers of a remote.WriteHandler or a remote.OTLPHandler to a registry
// of metrics, as tsdb_receive_...; what a Prometheus server counts of remote write has its name, too.
type ReceiverCollector struct {
	stats func() remote.ReceiverStats

	requests, written, refused *prometheus.Desc
	invalid                    *prometheus.Desc // nil: the protocol is another one
}

var _ prometheus.Collector = (*ReceiverCollector)(nil)

// NewReceiverCollector returns a collector of the numbers of a handler; all have its protocol as a
// label. A registry has room for one handler of a protocol.
func NewReceiverCollector(h interface{ Stats() remote.ReceiverStats }) *ReceiverCollector {
	protocol := h.Stats().Protocol
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"protocol": protocol})
	}
	c := &ReceiverCollector{
		stats:    h.Stats,
		requests: of("tsdb_receive_requests_total", "Requests to write that were answered.", "code"),
		written:  of("tsdb_receive_items_written_total", "Items that are in the database, those included that were there before.", "kind"),
		refused:  of("tsdb_receive_items_refused_total", "Items that were refused, or left out.", "kind", "reason"),
	}
	if protocol == "remote_write" {
		c.invalid = prometheus.NewDesc("prometheus_api_remote_write_invalid_labels_samples_total", "Samples and histograms that were refused for their labels.", nil, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *ReceiverCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.requests
	ch <- c.written
	ch <- c.refused
	if c.invalid != nil {
		ch <- c.invalid
	}
}

// Collect implements prometheus.Collector.
func (c *ReceiverCollector) Collect(ch chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	s := c.stats()
	for code, n := range s.Requests {
		counter(c.requests, n, strconv.Itoa(code))
	}
	for kind, n := range s.Written {
		counter(c.written, n, kind)
	}
	for r, n := range s.Refused {
		counter(c.refused, n, r.Kind, r.Reason)
	}
	if c.invalid != nil {
		const why = "invalid_labels"
		counter(c.invalid, s.Refused[remote.Refusal{Kind: "sample", Reason: why}]+s.Refused[remote.Refusal{Kind: "histogram", Reason: why}])
	}
}
