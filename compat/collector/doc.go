// Package collector has only tests: a real OpenTelemetry Collector and a real Telegraf send to our
// receivers, and Telegraf takes what our Writer sends. It is a module of its own, so that what the
// two are made of goes with nothing else.
//
//   - collector_test.go: the Collector sends samples of all kinds, with exemplars and metadata, by
//     OTLP as protobuf and as JSON, and by remote write 1.0 and 2.0 (exporters_test.go). What is
//     stored is compared with testdata/shop.txt.
//   - refused_test.go: what it does with what we cannot take yet, never take, or take in part.
//   - telegraf_test.go: Telegraf sends what it gathers, and what our Writer sends it.
//
// Both programs are built from the commands here, which have the components that the tests need,
// and no others: on first use that takes two processors some two minutes. All listens on loopback.
//
// Two receivers of the Collector are left out. The module proxy does not serve the one of remote
// write. The one that scrapes would double what is built, for a client that is that of Prometheus.
package collector
