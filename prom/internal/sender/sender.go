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

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
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

	BasicAuth     *config.BasicAuth     `yaml:"basic_auth,omitempty"`
	Authorization *config.Authorization `yaml:"authorization,omitempty"`
	TLS           config.TLSConfig      `yaml:"tls_config,omitempty"`

	Queue struct {
		MaxShards  int            `yaml:"max_shards,omitempty"`
		MaxSamples int            `yaml:"max_samples_per_send,omitempty"`
		Deadline   model.Duration `yaml:"batch_send_deadline,omitempty"`
		MinBackoff model.Duration `yaml:"min_backoff,omitempty"`
		MaxBackoff model.Duration `yaml:"max_backoff,omitempty"`
	} `yaml:"queue_config,omitempty"`
	Metadata struct {
		Send     *bool          `yaml:"send,omitempty"`
		Interval model.Duration `yaml:"send_interval,omitempty"`
	} `yaml:"metadata_config,omitempty"`
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
	client := r.client()
	return client.Validate()
}

func (r *Receiver) client() config.HTTPClientConfig {
	return config.HTTPClientConfig{BasicAuth: r.BasicAuth, Authorization: r.Authorization, TLSConfig: r.TLS, FollowRedirects: true}
}

// SetDirectory is from where the paths of files with secrets and certificates begin.
func (rs Receivers) SetDirectory(dir string) {
	for i := range rs {
		rs[i].BasicAuth.SetDirectory(dir)
		rs[i].Authorization.SetDirectory(dir)
		rs[i].TLS.SetDirectory(dir)
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
	client, err := config.NewClientFromConfig(r.client(), r.Name)
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
		NoHistograms: off(r.SendHistograms), NoExemplars: off(r.SendExemplars), NoMetadata: off(r.Metadata.Send),
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
