package bench

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/pkg/errors"
	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/client_golang/prometheus"
	common "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/storage/remote"
)

func (r *reference) beginSending(string) error { return nil } // it goes by the times of samples

func (r *reference) send(to string, version, samples int) error {
	u, err := url.Parse(to)
	if err != nil {
		return errors.Wrap(err, "parse URL")
	}
	messages := []remoteapi.WriteMessageType{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType}
	queue := config.DefaultQueueConfig
	queue.MinShards, queue.MaxShards, queue.MaxSamplesPerSend = 1, 1, sendSamples
	queue.BatchSendDeadline = model.Duration(100 * time.Millisecond)
	registry := prometheus.NewRegistry()
	s := remote.NewWriteStorage(slog.New(slog.DiscardHandler), registry, r.db.Dir(), time.Second, nil, false)
	err = s.ApplyConfig(&config.Config{RemoteWriteConfigs: []*config.RemoteWriteConfig{{
		URL: &common.URL{URL: u}, RemoteTimeout: model.Duration(30 * time.Second), Name: "bench",
		ProtobufMessage: messages[version], QueueConfig: queue,
	}}})
	if err != nil {
		return errors.Wrap(err, "begin to send")
	}
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		n, err := counterOf(registry, "prometheus_remote_storage_samples_total")
		if err != nil {
			return err
		}
		if n >= float64(samples) {
			break
		}
		if time.Now().After(deadline) {
			return errors.Errorf("%v of %d samples are sent", n, samples)
		}
	}
	return errors.Wrap(s.Close(), "stop sending")
}

// counterOf is the sum of a counter of a registry.
func counterOf(registry *prometheus.Registry, name string) (sum float64, err error) {
	families, err := registry.Gather()
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum, errors.Wrap(err, "gather metrics")
}
