// Package metadata keeps what is known of the metrics that series are part of: type, unit and help.
//
// It knows refs of series and values as the log has them, which it does not take apart: package
// record does. It does not know series, commits or files. What it has is in memory; checkpoints and
// snapshots of the head have copies.
package metadata

import (
	"slices"
	"sync"

	"github.com/seed347100a3/tsdb/internal/record"
)

// Table has the value of each series that has one. All series of a metric have the same one, so
// equal values are stored once. The zero value is empty. It is safe for concurrent use; its lock is
// a leaf.
type Table struct {
	mu struct {
		sync.RWMutex
		of     map[uint64]*value // by ref
		values map[string]*value // by text
		text   int64             // bytes of values
	}
}

// value is one that some series have.
type value struct {
	text   string
	series int // that have it; without any it goes
}

// What is counted of memory beside text, with the slack of maps.
const (
	seriesBytes = 28
	valueBytes  = 96
)

// Set gives a series a value in place of the one that it has.
func (t *Table) Set(ref uint64, text string) {
	t.mu.Lock()
	v := t.mu.values[text]
	if v == nil {
		v = t.addLocked(text)
	}
	v.series++
	t.dropLocked(ref)
	t.mu.of[ref] = v
	t.mu.Unlock()
}

func (t *Table) addLocked(text string) *value {
	if t.mu.of == nil {
		t.mu.of, t.mu.values = map[uint64]*value{}, map[string]*value{}
	}
	v := &value{text: text}
	t.mu.values[text] = v
	t.mu.text += int64(len(text))
	return v
}

// dropLocked takes its value from a series.
//
//go:noinline
func (t *Table) dropLocked(ref uint64) {
	v := t.mu.of[ref]
	if v == nil {
		return
	}
	delete(t.mu.of, ref)
	if v.series--; v.series == 0 {
		delete(t.mu.values, v.text)
		t.mu.text -= int64(len(v.text))
	}
}

// Remove forgets a series, if it is known.
func (t *Table) Remove(ref uint64) {
	t.mu.Lock()
	t.dropLocked(ref)
	t.mu.Unlock()
}

// Of returns the value of a series, empty if it has none: no value is.
func (t *Table) Of(ref uint64) string {
	t.mu.RLock()
	v := t.mu.of[ref]
	t.mu.RUnlock()
	if v == nil {
		return ""
	}
	return v.text // never changed
}

// recordBytes is about how long a record gets.
const recordBytes = 64 << 10

// Records gives records of the log with all values to emit, which does not keep them, in ascending
// order of refs. What is set meanwhile may be there or not. Nothing is locked while emit runs.
func (t *Table) Records(emit func(rec []byte) error) error {
	refs := t.refs()
	for rec := []byte(nil); len(refs) > 0; rec = rec[:0] {
		rec = record.BeginMetadata(rec)
		for len(refs) > 0 && len(rec) < recordBytes {
			if v := t.Of(refs[0]); v != "" {
				rec = record.AppendMetadataEntry(rec, refs[0], v)
			}
			refs = refs[1:]
		}
		if err := emit(rec); err != nil {
			return err
		}
	}
	return nil
}

// refs returns the series that have a value, ascending.
func (t *Table) refs() []uint64 {
	t.mu.RLock()
	refs := make([]uint64, 0, len(t.mu.of))
	for ref := range t.mu.of {
		refs = append(refs, ref)
	}
	t.mu.RUnlock()
	slices.Sort(refs)
	return refs
}

// Size returns how many series have a value, and about how much memory all of it takes.
func (t *Table) Size() (series int, bytes int64) {
	t.mu.RLock()
	series = len(t.mu.of)
	bytes = t.mu.text + seriesBytes*int64(series) + valueBytes*int64(len(t.mu.values))
	t.mu.RUnlock()
	return series, bytes
}
