package scrape

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
)

// Config is what of a prometheus.yml is about scraping, in its spelling.
type Config struct {
	Global Global `yaml:"global,omitempty"`
	Jobs   []Job  `yaml:"scrape_configs,omitempty"`
}

// Global is what jobs have that do not say it themselves, and what is of the whole server.
type Global struct {
	Common  `yaml:",inline"`
	Timeout model.Duration `yaml:"scrape_timeout,omitempty"`
	// External are labels of everything that leaves this server.
	External map[string]string `yaml:"external_labels,omitempty"`

	Evaluation strictyaml.Ignored `yaml:"evaluation_interval,omitempty" instead:"no rules are evaluated here"`
	RuleOffset strictyaml.Ignored `yaml:"rule_query_offset,omitempty" instead:"no rules are evaluated here"`
}

// Common is what a job says, or else the global part.
type Common struct {
	Interval model.Duration `yaml:"scrape_interval,omitempty"`
	// Histograms: native histograms are asked for and stored.
	Histograms *bool `yaml:"scrape_native_histograms,omitempty"`
	// CustomBuckets stores histograms with buckets for values as native ones.
	CustomBuckets *bool `yaml:"convert_classic_histograms_to_nhcb,omitempty"`
	// BothHistograms stores buckets also of what is a native histogram.
	BothHistograms *bool `yaml:"always_scrape_classic_histograms,omitempty"`

	SampleLimit     int              `yaml:"sample_limit,omitempty"`
	BodySizeLimit   units.Base2Bytes `yaml:"body_size_limit,omitempty"`
	TargetLimit     int              `yaml:"target_limit,omitempty"`
	LabelLimit      int              `yaml:"label_limit,omitempty"`
	LabelNameLimit  int              `yaml:"label_name_length_limit,omitempty"`
	LabelValueLimit int              `yaml:"label_value_length_limit,omitempty"`

	Names    string `yaml:"metric_name_validation_scheme,omitempty"`
	Escaping string `yaml:"metric_name_escaping_scheme,omitempty"`

	Protocols   strictyaml.Ignored `yaml:"scrape_protocols,omitempty" instead:"text is asked for, and protobuf with scrape_native_histograms"`
	KeepDropped strictyaml.Ignored `yaml:"keep_dropped_targets,omitempty" instead:"all dropped targets are told"`
	FailureLog  strictyaml.Ignored `yaml:"scrape_failure_log_file,omitempty" instead:"the log has the first failure of a target"`
	More        strictyaml.Ignored `yaml:"extra_scrape_metrics,omitempty" instead:"a scrape has up and four metrics more"`
}

// Job is how some targets are read.
type Job struct {
	Name            string `yaml:"job_name,omitempty"`
	Common          `yaml:",inline"`
	Timeout         model.Duration     `yaml:"scrape_timeout,omitempty"`
	Path            string             `yaml:"metrics_path,omitempty"`
	Scheme          string             `yaml:"scheme,omitempty"`
	Params          url.Values         `yaml:"params,omitempty"`
	HonorLabels     bool               `yaml:"honor_labels,omitempty"`
	HonorTimestamps *bool              `yaml:"honor_timestamps,omitempty"`
	TrackTimestamps bool               `yaml:"track_timestamps_staleness,omitempty"`
	Compression     *bool              `yaml:"enable_compression,omitempty"`
	Fallback        strictyaml.Ignored `yaml:"fallback_scrape_protocol,omitempty" instead:"an answer of no known type is read as text"`
	Static          []StaticTargets    `yaml:"static_configs,omitempty"`

	// Relabel changes the labels of targets, and drops targets; MetricRelabel does so with series.
	Relabel       []*relabel.Config `yaml:"relabel_configs,omitempty"`
	MetricRelabel []*relabel.Config `yaml:"metric_relabel_configs,omitempty"`

	Client config.HTTPClientConfig `yaml:",inline"`
}

// UnmarshalYAML implements the unmarshaler of package yaml that has a function.
func (j *Job) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Job
	j.Client = config.DefaultHTTPClientConfig
	return unmarshal((*plain)(j))
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
	if err := c.Global.check(); err != nil {
		return fmt.Errorf("global: %w", err)
	}
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
		if err := j.settle(&c.Global); err != nil {
			return fmt.Errorf("scrape_configs: job %q: %w", j.Name, err)
		}
	}
	return nil
}

// inherit takes what is not said from the global part.
func (c *Common) inherit(g *Common) {
	setDefault(&c.Interval, g.Interval)
	for _, is := range []struct{ own, global **bool }{
		{&c.Histograms, &g.Histograms}, {&c.CustomBuckets, &g.CustomBuckets}, {&c.BothHistograms, &g.BothHistograms},
	} {
		setDefault(is.own, *is.global)
		setDefault(is.own, new(bool))
	}
	for _, is := range []struct{ own, global *int }{
		{&c.SampleLimit, &g.SampleLimit}, {&c.TargetLimit, &g.TargetLimit}, {&c.LabelLimit, &g.LabelLimit},
		{&c.LabelNameLimit, &g.LabelNameLimit}, {&c.LabelValueLimit, &g.LabelValueLimit},
	} {
		setDefault(is.own, *is.global)
	}
	setDefault(&c.BodySizeLimit, g.BodySizeLimit)
	setDefault(&c.BodySizeLimit, maxBody)
}

func (c *Common) check() error {
	for _, limit := range []int{c.SampleLimit, int(c.BodySizeLimit), c.TargetLimit, c.LabelLimit, c.LabelNameLimit, c.LabelValueLimit} {
		if limit < 0 {
			return errors.New("limits: want 0 or more")
		}
	}
	if c.Names != "" && c.Names != "utf8" {
		return fmt.Errorf("metric_name_validation_scheme %q: want utf8, names are taken as they are", c.Names)
	}
	if c.Escaping != "" && c.Escaping != "allow-utf-8" {
		return fmt.Errorf("metric_name_escaping_scheme %q: want allow-utf-8, names are taken as they are", c.Escaping)
	}
	return nil
}

func (j *Job) settle(g *Global) error {
	if err := j.check(); err != nil {
		return err
	}
	j.inherit(&g.Common)
	setDefault(&j.Timeout, min(g.Timeout, j.Interval))
	setDefault(&j.Path, "/metrics")
	setDefault(&j.Scheme, "http")
	yes := true
	setDefault(&j.HonorTimestamps, &yes)
	setDefault(&j.Compression, &yes)
	switch {
	case j.Timeout > j.Interval:
		return fmt.Errorf("scrape_timeout %s is longer than scrape_interval %s", j.Timeout, j.Interval)
	case len(j.Static) == 0:
		return errors.New("no static_configs: this server finds no targets by itself")
	}
	if err := j.Client.Validate(); err != nil {
		return err
	}
	if err := errors.Join(checkRules("relabel_configs", j.Relabel), checkRules("metric_relabel_configs", j.MetricRelabel)); err != nil {
		return err
	}
	kept, _, err := j.endpoints()
	if err == nil && j.TargetLimit > 0 && len(kept) > j.TargetLimit {
		err = fmt.Errorf("there are %d targets, target_limit is %d", len(kept), j.TargetLimit)
	}
	return err
}

func checkRules(key string, rules []*relabel.Config) error {
	for i, rule := range rules {
		if rule == nil {
			return fmt.Errorf("%s: rule %d is empty", key, i+1)
		}
		if err := rule.Validate(model.UTF8Validation); err != nil {
			return fmt.Errorf("%s: rule %d: %w", key, i+1, err)
		}
	}
	return nil
}

// SetDirectory is from where the paths of files with secrets and certificates begin: that of the file
// of the configuration.
func (c *Config) SetDirectory(dir string) {
	for i := range c.Jobs {
		c.Jobs[i].Client.SetDirectory(dir)
	}
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
