package main

import (
	"fmt"
	"slices"
	"strings"
)

// What --enable-feature turns on, in the spelling of Prometheus.
const (
	featureStarts      = "st-storage"
	featureDeltaSummed = "otlp-deltatocumulative"
	featureDeltaStored = "otlp-native-delta-ingestion"
	featureTypes       = "type-and-unit-labels"
)

var features = []string{featureDeltaSummed, featureDeltaStored, featureStarts, featureTypes}

const featureHelp = "What is off by itself; can be repeated, or have commas. " +
	featureStarts + ": what is scraped or received is stored with the time since when it counts; older programs, and Thanos, cannot read such chunks. " +
	featureDeltaSummed + ": OTLP values that count from point to point are added up. " +
	featureDeltaStored + ": they are stored as they come; without either they are refused. " +
	featureTypes + ": what is scraped or comes by OTLP has its type and unit in labels, too, __type__ and __unit__."

// settleFeatures splits what was given by commas, and checks it.
func (c *config) settleFeatures() error {
	var named []string
	for _, given := range c.features {
		for name := range strings.SplitSeq(given, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(features, name) {
				return fmt.Errorf("--enable-feature %q: want %s", name, strings.Join(features, ", "))
			}
			named = append(named, name)
		}
	}
	if c.features = named; c.has(featureDeltaSummed) && c.has(featureDeltaStored) {
		return fmt.Errorf("--enable-feature: want one of %s and %s", featureDeltaSummed, featureDeltaStored)
	}
	return nil
}

func (c *config) has(feature string) bool { return slices.Contains(c.features, feature) }

// startsAreStored says whether start timestamps are.
func (c *config) startsAreStored() bool { return c.has(featureStarts) }
