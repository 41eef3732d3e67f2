package scrape

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
)

// Config is what of a prometheus.yml is about scraping, in its spelling.
type Config struct {
	Global struct {
		Interval model.Duration `yaml:"scrape_interval,omitempty"`
		Timeout  model.Duration `yaml:"scrape_timeout,omitempty"`
		// External are labels of everything that leaves this server.
		External map[string]string `yaml:"external_labels,omitempty"`
	} `yaml:"global,omitempty"`
	Jobs []Job `yaml:"scrape_configs,omitempty"`
}

// Job is how some targets are read.
type Job struct {
	Name            string                `yaml:"job_name,omitempty"`
	Interval        model.Duration        `yaml:"scrape_interval,omitempty"`
	Timeout         model.Duration        `yaml:"scrape_timeout,omitempty"`
	Path            string                `yaml:"metrics_path,omitempty"`
	Scheme          string                `yaml:"scheme,omitempty"`
	Params          url.Values            `yaml:"params,omitempty"`
	HonorLabels     bool                  `yaml:"honor_labels,omitempty"`
	HonorTimestamps *bool                 `yaml:"honor_timestamps,omitempty"`
	Histograms      bool                  `yaml:"scrape_native_histograms,omitempty"`
	SampleLimit     int                   `yaml:"sample_limit,omitempty"`
	BodySizeLimit   units.Base2Bytes      `yaml:"body_size_limit,omitempty"`
	Static          []StaticTargets       `yaml:"static_configs,omitempty"`
	Authorization   *config.Authorization `yaml:"authorization,omitempty"`
	BasicAuth       *config.BasicAuth     `yaml:"basic_auth,omitempty"`
	TLS             config.TLSConfig      `yaml:"tls_config,omitempty"`
}

// StaticTargets are targets with labels of their own.
type StaticTargets struct {
	Targets []string          `yaml:"targets,omitempty"`
	Labels  map[string]string `yaml:"labels,omitempty"`
}

const (
	defaultInterval = time.Minute
	defaultTimeout  = 10 * time.Second
	maxBody         = 256 << 20 // of an answer, if no limit is said
)

// Settle puts defaults where nothing is said, and checks what is. It is called once.
func (c *Config) Settle() error {
	setDefault(&c.Global.Interval, model.Duration(defaultInterval))
	setDefault(&c.Global.Timeout, min(model.Duration(defaultTimeout), c.Global.Interval))
	for _, name := range slices.Sorted(maps.Keys(c.Global.External)) {
		if !model.UTF8Validation.IsValidLabelName(name) || c.Global.External[name] == "" {
			return fmt.Errorf("external_labels: %q: want a label with a value", name)
		}
	}
	names := map[string]bool{}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if j.Name == "" || names[j.Name] {
			return fmt.Errorf("scrape_configs: job %d: want a job_name of its own, not %q", i+1, j.Name)
		}
		names[j.Name] = true
		if err := j.settle(c); err != nil {
			return fmt.Errorf("scrape_configs: job %q: %w", j.Name, err)
		}
	}
	return nil
}

func (j *Job) settle(c *Config) error {
	setDefault(&j.Interval, c.Global.Interval)
	setDefault(&j.Timeout, min(c.Global.Timeout, j.Interval))
	setDefault(&j.Path, "/metrics")
	setDefault(&j.Scheme, "http")
	setDefault(&j.BodySizeLimit, maxBody)
	if j.HonorTimestamps == nil {
		yes := true
		j.HonorTimestamps = &yes
	}
	switch {
	case j.Timeout > j.Interval:
		return fmt.Errorf("scrape_timeout %s is longer than scrape_interval %s", j.Timeout, j.Interval)
	case j.Scheme != "http" && j.Scheme != "https":
		return fmt.Errorf("scheme %q: want http or https", j.Scheme)
	case j.SampleLimit < 0, j.BodySizeLimit < 0:
		return errors.New("limits: want 0 or more")
	case len(j.Static) == 0:
		return errors.New("no static_configs: this server finds no targets by itself")
	}
	client := j.client()
	if err := client.Validate(); err != nil {
		return err
	}
	for _, s := range j.Static {
		for _, address := range s.Targets {
			if _, err := j.url(address); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			if !model.UTF8Validation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix) {
				return fmt.Errorf("label %q cannot be given to a target: names that begin with __ have a meaning, which this server does not know", name)
			}
		}
	}
	return nil
}

// client is how requests are sent. Its Validate puts defaults behind the pointers of the job.
func (j *Job) client() config.HTTPClientConfig {
	return config.HTTPClientConfig{BasicAuth: j.BasicAuth, Authorization: j.Authorization, TLSConfig: j.TLS, FollowRedirects: true, EnableHTTP2: true}
}

// SetDirectory is from where the paths of files with secrets and certificates begin: that of the file
// of the configuration.
func (c *Config) SetDirectory(dir string) {
	for i := range c.Jobs {
		j := &c.Jobs[i]
		j.BasicAuth.SetDirectory(dir)
		j.Authorization.SetDirectory(dir)
		j.TLS.SetDirectory(dir)
	}
}

// discovered are the labels that a target has before any are changed, as Prometheus tells them.
func (j *Job) discovered(address string, own map[string]string) map[string]string {
	all := map[string]string{
		model.AddressLabel: address, model.MetricsPathLabel: j.Path, model.SchemeLabel: j.Scheme, model.JobLabel: j.Name,
		model.ScrapeIntervalLabel: j.Interval.String(), model.ScrapeTimeoutLabel: j.Timeout.String(),
	}
	for name, values := range j.Params {
		if len(values) > 0 {
			all[model.ParamLabelPrefix+name] = values[0]
		}
	}
	maps.Copy(all, own)
	return all
}

// url is where a target is read.
func (j *Job) url(address string) (*url.URL, error) {
	u, err := url.Parse(j.Scheme + "://" + address + j.Path)
	if err != nil || u.Host != address || address == "" {
		return nil, fmt.Errorf("target %q: want host:port", address)
	}
	if len(j.Params) > 0 {
		u.RawQuery = j.Params.Encode()
	}
	return u, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
