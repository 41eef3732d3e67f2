package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom/internal/scrape"
	"github.com/seed347100a3/tsdb/prom/internal/sender"
	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
	"github.com/seed347100a3/tsdb/remote"
)

// fileConfig is what the server takes of a configuration file of Prometheus, in its spelling.
type fileConfig struct {
	Scrape  scrape.Config `yaml:",inline"`
	Storage struct {
		TSDB      storageConfig `yaml:"tsdb,omitempty"`
		Exemplars struct {
			MaxExemplars *int `yaml:"max_exemplars,omitempty"`
		} `yaml:"exemplars,omitempty"`
	} `yaml:"storage,omitempty"`
	OTLP      otlpConfig       `yaml:"otlp,omitempty"`
	Receivers sender.Receivers `yaml:"remote_write,omitempty"`

	Rules    []string           `yaml:"rule_files,omitempty"`
	Alerting strictyaml.Ignored `yaml:"alerting,omitempty" instead:"no alerts are sent, as no rules are evaluated here"`
	Runtime  strictyaml.Ignored `yaml:"runtime,omitempty" instead:"--log.level counts, and GOGC of the environment"`

	text string
}

type storageConfig struct {
	OutOfOrderTimeWindow model.Duration `yaml:"out_of_order_time_window,omitempty"`
	// Retention goes before the flags.
	Retention struct {
		Time       *model.Duration   `yaml:"time,omitempty"`
		Size       *units.Base2Bytes `yaml:"size,omitempty"`
		Percentage float64           `yaml:"percentage,omitempty"`
	} `yaml:"retention,omitempty"`

	Encoding strictyaml.Ignored `yaml:"chunk_encoding,omitempty" instead:"chunks of floats are XOR, or XOR2 where there are start timestamps"`
	Stale    strictyaml.Ignored `yaml:"stale_series_compaction_threshold,omitempty" instead:"series that ended leave the head when the block of their time is written"`
}

type otlpConfig struct {
	PromoteAllResourceAttributes      bool     `yaml:"promote_all_resource_attributes,omitempty"`
	PromoteResourceAttributes         []string `yaml:"promote_resource_attributes,omitempty"`
	IgnoreResourceAttributes          []string `yaml:"ignore_resource_attributes,omitempty"`
	TranslationStrategy               string   `yaml:"translation_strategy,omitempty"`
	KeepIdentifyingResourceAttributes bool     `yaml:"keep_identifying_resource_attributes,omitempty"`
	ConvertHistogramsToNHCB           bool     `yaml:"convert_histograms_to_nhcb,omitempty"`
	PromoteScopeMetadata              bool     `yaml:"promote_scope_metadata,omitempty"`
	KeyPrefix                         *bool    `yaml:"label_name_underscore_sanitization,omitempty"`
	Underscores                       *bool    `yaml:"label_name_preserve_multiple_underscores,omitempty"`
}

var strategies = map[string]remote.OTLPNames{
	"": remote.OTLPUnderscores, "UnderscoreEscapingWithSuffixes": remote.OTLPUnderscores, "NoUTF8EscapingWithSuffixes": remote.OTLPUTF8,
	"UnderscoreEscapingWithoutSuffixes": remote.OTLPUnderscoresOnly, "NoTranslation": remote.OTLPUntranslated,
}

// readFile reads a configuration file; none is named: there is nothing in it.
func readFile(name string) (*fileConfig, error) {
	f := &fileConfig{}
	if name == "" {
		return f, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--config.file: %w", err)
	}
	if err := strictyaml.Decode(text, f); err != nil {
		return nil, fmt.Errorf("--config.file %s: %w", name, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("--config.file %s: %w", name, err)
	}
	f.Scrape.SetDirectory(filepath.Dir(name))
	f.Receivers.SetDirectory(filepath.Dir(name))
	shown, err := yaml.Marshal(f) // secrets are left out
	f.text = string(shown)
	return f, err
}

func (f *fileConfig) check() error {
	if err := f.Scrape.Settle(); err != nil {
		return err
	}
	if err := f.Receivers.Settle(); err != nil {
		return err
	}
	if len(f.Rules) > 0 {
		return errors.New("rule_files: no rules are evaluated here; another program can, that asks this server")
	}
	if n := f.Storage.Exemplars.MaxExemplars; n != nil && *n < 0 {
		return fmt.Errorf("storage.exemplars.max_exemplars %d: want 0 or more", *n)
	}
	if p := f.Storage.TSDB.Retention.Percentage; p < 0 || p > 100 {
		return fmt.Errorf("storage.tsdb.retention.percentage %v: want 0 to 100", p)
	}
	return f.OTLP.check()
}

func (c *otlpConfig) check() error {
	if _, known := strategies[c.TranslationStrategy]; !known {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(strategies)), func(name string) bool { return name == "" })
		return fmt.Errorf("otlp.translation_strategy %q: want %s", c.TranslationStrategy, strings.Join(names, ", "))
	}
	if no := c.KeyPrefix; no != nil && !*no {
		return errors.New("otlp.label_name_underscore_sanitization: want true, as names are made so here")
	}
	if no := c.Underscores; no != nil && !*no {
		return errors.New("otlp.label_name_preserve_multiple_underscores: want true, as names are made so here")
	}
	return nil
}

// apply gives a database what the file says of it.
func (f *fileConfig) apply(o *tsdb.Options) {
	c := &f.Storage.TSDB
	o.Head.OutOfOrderWindow = time.Duration(c.OutOfOrderTimeWindow)
	if d := c.Retention.Time; d != nil {
		o.Blocks.Retention = time.Duration(*d)
	}
	if n := c.Retention.Size; n != nil {
		o.Blocks.RetentionBytes = int64(*n)
	}
	o.Blocks.RetentionPercent = c.Retention.Percentage
	if n := f.Storage.Exemplars.MaxExemplars; n != nil {
		if o.Head.MaxExemplars = *n; *n == 0 {
			o.Head.MaxExemplars = -1 // none
		}
	}
}

// otlpOptions are those of the receiver.
func (f *fileConfig) otlpOptions() remote.OTLPOptions {
	c := &f.OTLP
	return remote.OTLPOptions{
		Names: strategies[c.TranslationStrategy], PromoteAllResourceAttributes: c.PromoteAllResourceAttributes,
		PromoteResourceAttributes: c.PromoteResourceAttributes, IgnoreResourceAttributes: c.IgnoreResourceAttributes,
		KeepIdentifying: c.KeepIdentifyingResourceAttributes, CustomBuckets: c.ConvertHistogramsToNHCB, PromoteScope: c.PromoteScopeMetadata,
	}
}
