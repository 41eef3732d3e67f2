// Package sender sends what a database takes to receivers of remote write, as a configuration file in
// the spelling of Prometheus says.
package sender

import (
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
	"github.com/seed347100a3/tsdb/remote"
)

// Receiver is an entry of remote_write. What is not said has the defaults of remote.WriterOptions.
type Receiver struct {
	URL            *config.URL              `yaml:"url"`
	Name           string                   `yaml:"name,omitempty"`
	Timeout        model.Duration           `yaml:"remote_timeout,omitempty"`
	Headers        map[string]config.Secret `yaml:"headers,omitempty"`
	Message        string                   `yaml:"protobuf_message,omitempty"`
	SendExemplars  *bool                    `yaml:"send_exemplars,omitempty"`
	SendHistograms *bool                    `yaml:"send_native_histograms,omitempty"`

	// Relabel chooses which series are sent.
	Relabel []*relabel.Config `yaml:"write_relabel_configs,omitempty"`

	Client config.HTTPClientConfig `yaml:",inline"`

	Queue    Queue `yaml:"queue_config,omitempty"`
	Metadata struct {
		Send       *bool              `yaml:"send,omitempty"`
		Interval   model.Duration     `yaml:"send_interval,omitempty"`
		MaxSamples strictyaml.Ignored `yaml:"max_samples_per_send,omitempty" instead:"max_samples_per_send of queue_config bounds metadata, too"`
	} `yaml:"metadata_config,omitempty"`

	RoundRobin strictyaml.Ignored `yaml:"round_robin_dns,omitempty" instead:"of several addresses the first that answers is used"`
	LogFailed  strictyaml.Ignored `yaml:"failed_request_logging,omitempty" instead:"the log has what a receiver refuses"`
}

// Queue is how samples wait, and how often a request is tried.
type Queue struct {
	MaxShards  int            `yaml:"max_shards,omitempty"`
	MaxSamples int            `yaml:"max_samples_per_send,omitempty"`
	Deadline   model.Duration `yaml:"batch_send_deadline,omitempty"`
	MinBackoff model.Duration `yaml:"min_backoff,omitempty"`
	MaxBackoff model.Duration `yaml:"max_backoff,omitempty"`

	Capacity  strictyaml.Ignored `yaml:"capacity,omitempty" instead:"a shard holds three requests of max_samples_per_send; the log, and blocks, keep what waits"`
	MinShards strictyaml.Ignored `yaml:"min_shards,omitempty" instead:"there are as many shards as it takes, from one to max_shards"`
	Retry429  strictyaml.Ignored `yaml:"retry_on_http_429,omitempty" instead:"what is answered 429 is always sent again"`
	AgeLimit  strictyaml.Ignored `yaml:"sample_age_limit,omitempty" instead:"samples are sent however old they are"`
}

// UnmarshalYAML implements the unmarshaler of package yaml that has a function. Several connections
// are faster than one of HTTP/2, so that is off unless it is asked for, as with Prometheus.
func (r *Receiver) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Receiver
	r.Client = config.DefaultHTTPClientConfig
	r.Client.EnableHTTP2 = false
	return unmarshal((*plain)(r))
}

// Receivers are all entries of remote_write.
type Receivers []Receiver

var protocols = map[string]remote.WriterProtocol{
	"": remote.ProtocolAny, "prometheus.WriteRequest": remote.ProtocolV1, "io.prometheus.write.v2.Request": remote.ProtocolV2,
}

// Settle gives names to those who have none, and checks what is said. It is called once.
func (rs Receivers) Settle() error {
	names := map[string]bool{}
	for i := range rs {
		r := &rs[i]
		if r.Name == "" {
			sum := fnv.New32a()
			_, _ = sum.Write([]byte(r.shown())) // it never fails
			r.Name = strconv.FormatUint(uint64(sum.Sum32()), 16)
		}
		if names[r.Name] {
			return fmt.Errorf("remote_write: %q: want a name of its own, what was sent is remembered by it", r.Name)
		}
		names[r.Name] = true
		if err := r.check(); err != nil {
			return fmt.Errorf("remote_write: %q: %w", r.Name, err)
		}
	}
	return nil
}

func (r *Receiver) check() error {
	if r.URL == nil || r.URL.URL == nil || r.URL.Host == "" || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return fmt.Errorf("url %q: want http://host:port/path", r.shown())
	}
	if strings.ContainsAny(r.Name, `/\:`) || strings.HasPrefix(r.Name, ".") {
		return errors.New("name: a file is named by it")
	}
	if _, known := protocols[r.Message]; !known {
		return fmt.Errorf("protobuf_message %q: want prometheus.WriteRequest or io.prometheus.write.v2.Request", r.Message)
	}
	if q := &r.Queue; q.MaxShards < 0 || q.MaxSamples < 0 {
		return errors.New("queue_config: want 0 or more")
	}
	if err := checkRules(r.Relabel); err != nil {
		return err
	}
	return r.Client.Validate()
}

// SetDirectory is from where the paths of files with secrets and certificates begin.
func (rs Receivers) SetDirectory(dir string) {
	for i := range rs {
		rs[i].Client.SetDirectory(dir)
	}
}

// Senders send to all receivers until they are closed.
type Senders []*remote.Writer

// Start begins to send what a database takes, and tells a registry of it.
func Start(db *tsdb.DB, rs Receivers, external map[string]string, logger *slog.Logger, registry prometheus.Registerer) (all Senders, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	for i := range rs {
		r := &rs[i]
		opts, err := r.options(external, logger)
		if err != nil {
			return all, fmt.Errorf("remote_write %s: %w", r.Name, err)
		}
		w, err := remote.NewWriter(db, opts)
		if err != nil {
			return all, fmt.Errorf("remote_write %s: %w", r.Name, err)
		}
		all = append(all, w)
		if err := registry.Register(prom.NewWriterCollector(w, r.Name)); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Close ends all, at once: each may wait for a request.
func (s Senders) Close() error {
	errs := make([]error, len(s))
	var group sync.WaitGroup
	for i, w := range s {
		group.Go(func() { errs[i] = w.Close() })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (r *Receiver) options(external map[string]string, logger *slog.Logger) (*remote.WriterOptions, error) {
	client, err := config.NewClientFromConfig(r.Client, r.Name)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range r.Headers {
		header.Set(name, string(value))
	}
	off := func(said *bool) bool { return said != nil && !*said }
	return &remote.WriterOptions{
		URL: r.URL.String(), Name: r.Name, HTTP: client, Header: header, Protocol: protocols[r.Message], ExternalLabels: labels.FromMap(external),
		Keep: r.keep(labels.FromMap(external)), NoHistograms: off(r.SendHistograms), NoExemplars: off(r.SendExemplars), NoMetadata: off(r.Metadata.Send),
		MaxSamples: r.Queue.MaxSamples, Deadline: time.Duration(r.Queue.Deadline), MaxShards: r.Queue.MaxShards, Timeout: time.Duration(r.Timeout),
		MinBackoff: time.Duration(r.Queue.MinBackoff), MaxBackoff: time.Duration(r.Queue.MaxBackoff),
		MetadataInterval: time.Duration(r.Metadata.Interval), Logger: logger.With("url", r.shown()),
	}, nil
}

// shown is the URL without its password.
func (r *Receiver) shown() string {
	if r.URL == nil || r.URL.URL == nil {
		return ""
	}
	return r.URL.Redacted()
}
