package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
		TSDB struct {
			OutOfOrderTimeWindow model.Duration `yaml:"out_of_order_time_window,omitempty"`
		} `yaml:"tsdb,omitempty"`
		Exemplars struct {
			MaxExemplars *int `yaml:"max_exemplars,omitempty"`
		} `yaml:"exemplars,omitempty"`
	} `yaml:"storage,omitempty"`
	OTLP      otlpConfig       `yaml:"otlp,omitempty"`
	Receivers sender.Receivers `yaml:"remote_write,omitempty"`

	text string
}

type otlpConfig struct {
	PromoteAllResourceAttributes      bool     `yaml:"promote_all_resource_attributes,omitempty"`
	PromoteResourceAttributes         []string `yaml:"promote_resource_attributes,omitempty"`
	IgnoreResourceAttributes          []string `yaml:"ignore_resource_attributes,omitempty"`
	TranslationStrategy               string   `yaml:"translation_strategy,omitempty"`
	KeepIdentifyingResourceAttributes bool     `yaml:"keep_identifying_resource_attributes,omitempty"`
	ConvertHistogramsToNHCB           bool     `yaml:"convert_histograms_to_nhcb,omitempty"`
	PromoteScopeMetadata              bool     `yaml:"promote_scope_metadata,omitempty"`
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
	if _, known := strategies[f.OTLP.TranslationStrategy]; !known {
		var names []string
		for name := range strategies {
			if name != "" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return fmt.Errorf("otlp.translation_strategy %q: want %s", f.OTLP.TranslationStrategy, strings.Join(names, ", "))
	}
	if n := f.Storage.Exemplars.MaxExemplars; n != nil && *n < 0 {
		return fmt.Errorf("storage.exemplars.max_exemplars %d: want 0 or more", *n)
	}
	return nil
}

// apply gives a database what the file says of it.
func (f *fileConfig) apply(o *tsdb.Options) {
	o.Head.OutOfOrderWindow = time.Duration(f.Storage.TSDB.OutOfOrderTimeWindow)
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
