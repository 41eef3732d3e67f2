package tsdb

import (
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Metadata is what is known of the metric that a series is part of: Type, a MetricType, and the
// texts Unit and Help. It has no time: a series has the one that was committed last.
type Metadata = record.Metadata

// MetricType is what kind of metric a series is part of.
type MetricType = record.MetricType

// The kinds of metrics. Their String is the name that text formats have for them.
const (
	MetricUnknown        = record.MetricUnknown
	MetricCounter        = record.MetricCounter
	MetricGauge          = record.MetricGauge
	MetricHistogram      = record.MetricHistogram
	MetricGaugeHistogram = record.MetricGaugeHistogram
	MetricSummary        = record.MetricSummary
	MetricInfo           = record.MetricInfo
	MetricStateset       = record.MetricStateset
)

// MetricTypeOf returns the kind of a name, MetricUnknown where nobody knows it.
func MetricTypeOf(name string) MetricType { return record.MetricTypeOf(name) }

// stagedMetadata is the metadata that an Appender has staged. Its series are pinned.
type stagedMetadata struct {
	entries []metadataEntry
	at      map[uint64]int // in entries, by ref
}

// metadataEntry is the value of one series, as the log has it.
type metadataEntry struct {
	series *memseries.Series
	value  string
}

// add stages a value; of several for one series the last one counts.
func (sm *stagedMetadata) add(s *memseries.Series, value string) {
	if i, ok := sm.at[s.Ref()]; ok {
		sm.entries[i].value = value
		return
	}
	if sm.at == nil {
		sm.at = map[uint64]int{}
	}
	sm.at[s.Ref()] = len(sm.entries)
	sm.entries = append(sm.entries, metadataEntry{s, value})
}

// reserveLocked has the commit log the series that the log does not have.
func (sm *stagedMetadata) reserveLocked(sg *staging) {
	for _, e := range sm.entries {
		sg.logLocked(e.series)
	}
}

// encode writes the record of all of it.
func (sm *stagedMetadata) encode(c *wal.Commit) {
	if len(sm.entries) == 0 {
		return
	}
	rec := record.BeginMetadata(c.Begin())
	for _, e := range sm.entries {
		rec = record.AppendMetadataEntry(rec, e.series.Ref(), e.value)
	}
	c.End(rec)
}

// applyLocked makes it the head's, behind all commits that reserved before.
func (sm *stagedMetadata) applyLocked(sg *staging) {
	for _, e := range sm.entries {
		sg.h.commits.metadata.Set(e.series.Ref(), e.value)
		sg.h.series.Shards.NoteAppliedLocked(e.series, sg.commit.Seq())
	}
}

// clear forgets it, with its memory: most commits have none.
func (sm *stagedMetadata) clear() { *sm = stagedMetadata{} }
