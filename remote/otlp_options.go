package remote

import "slices"

// OTLPOptions configure NewOTLPHandler. The zero value of each field means its default. They are
// copied. Names of attributes are those of the request, as host.name.
type OTLPOptions struct {
	// Write has the limits, what is turned off, the logger and the clock, as for remote write.
	// Versions and CacheBytes mean nothing here.
	Write WriteOptions
	// Names says how names of metrics and attributes become those of series. Default:
	// OTLPUnderscores.
	Names OTLPNames
	// Delta says what becomes of sums and histograms that count from point to point. Default:
	// OTLPDeltaRefused.
	Delta OTLPDelta
	// MaxDeltaSeries bounds the series that OTLPDeltaSummed remembers, and with a KiB for each
	// their memory. Points of more are refused. Default 100,000.
	MaxDeltaSeries int

	// PromoteResourceAttributes become labels of every series of their resource. All of them but
	// IgnoreResourceAttributes do with PromoteAllResourceAttributes. In target_info they are
	// anyway.
	PromoteResourceAttributes    []string
	PromoteAllResourceAttributes bool
	IgnoreResourceAttributes     []string
	// KeepIdentifying has target_info keep service.name, service.namespace and
	// service.instance.id, beside the labels job and instance.
	KeepIdentifying bool
	// PromoteScope gives series labels of their scope: otel_scope_name, otel_scope_version,
	// otel_scope_schema_url and otel_scope_ with the name of each attribute.
	PromoteScope bool
	// TypeAndUnitLabels gives series the labels __type__ and __unit__.
	TypeAndUnitLabels bool
	// CustomBuckets stores histograms with explicit bounds as native ones with custom buckets, one
	// series each. Default: as _bucket, _sum and _count.
	CustomBuckets bool
	// StartTimestamps stores when counting began. Series that have it are read by this database and
	// by the newest versions of Prometheus only. Default: it is left out.
	StartTimestamps bool
}

// OTLPNames is a way to make names of series; the reference calls it a translation strategy.
type OTLPNames uint8

const (
	// OTLPUnderscores: names have the letters, digits and _ that every version of PromQL reads;
	// names of metrics end in their unit, those of counters in _total.
	OTLPUnderscores OTLPNames = iota
	// OTLPUTF8 leaves characters as they are, and has the same endings.
	OTLPUTF8
	// OTLPUnderscoresOnly is OTLPUnderscores without endings.
	OTLPUnderscoresOnly
	// OTLPUntranslated leaves names as they are.
	OTLPUntranslated
)

func (n OTLPNames) escapes() bool { return n == OTLPUnderscores || n == OTLPUnderscoresOnly }

// OTLPDelta is what becomes of delta temporality.
type OTLPDelta uint8

const (
	// OTLPDeltaRefused: each such point is refused.
	OTLPDeltaRefused OTLPDelta = iota
	// OTLPDeltaSummed: points are added up, from the first one that comes. The sums are in memory:
	// when the program starts again they begin at zero, as a counter does that was reset.
	OTLPDeltaSummed
	// OTLPDeltaStored: values are stored as they come, with metadata of type unknown; histograms
	// are gauges.
	OTLPDeltaStored
)

const defaultDeltaSeries = 100_000

// withDefaults returns a copy with every zero replaced.
func (o *OTLPOptions) withDefaults() OTLPOptions {
	c := OTLPOptions{}
	if o != nil {
		c = *o
	}
	setDefault(&c.MaxDeltaSeries, defaultDeltaSeries)
	c.PromoteResourceAttributes = slices.Clone(c.PromoteResourceAttributes)
	c.IgnoreResourceAttributes = slices.Clone(c.IgnoreResourceAttributes)
	return c
}
