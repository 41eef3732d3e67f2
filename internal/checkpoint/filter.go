// Package checkpoint decides what of the log's records a checkpoint keeps, writes those anew of
// which a part goes, and puts it in the place of segments.
//
// It knows records, one after the other, and two rules: from when on samples count, and which
// series are wanted. It does not know why: the head says when. wal reads and writes records. It
// also knows which series the log may still have samples of, although they are gone, and which it
// has records of.
//
// A Filter is for one goroutine. docs/format/wal.md tells what a checkpoint is.
package checkpoint

import (
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Filter decides what of the log's records a checkpoint keeps:
//
//   - series that are wanted
//   - samples of every kind from mint on, but those of series that left
//   - deleted intervals of wanted series that reach mint
//   - records that it cannot take apart, as they are: of kinds that this version does not
//     read, and damaged ones
//
// Metadata and exemplars are not: the head has those that are needed, and writes them behind all
// records. A record of which everything is kept stays as it is, byte for byte.
type Filter struct {
	mint   int64
	wanted func(ref uint64) bool
	left   func(ref uint64) bool // nil: none did
	run    [256]record.Sample    // scratch that stays in the first-level cache: most samples are only counted
	starts [256]int64            // of run
	stones []record.Tombstone
	way    foreground.Steps
}

// wayWanted is how many series are asked for between two ways for others, some hundred nanoseconds
// each.
const wayWanted = 256

// NewFilter returns one that keeps samples from mint on, and wanted series. left reports series
// that left the head. Their samples and deletes go, even if wanted keeps their record. nil: none
// left.
func NewFilter(mint int64, wanted, left func(ref uint64) bool) *Filter {
	return &Filter{mint: mint, wanted: wanted, left: left}
}

// keeps reports whether a sample is kept.
func (f *Filter) keeps(ref uint64, t int64) bool {
	return t >= f.mint && (f.left == nil || !f.left(ref))
}

// Keep is wal.CheckpointOptions.Keep.
func (f *Filter) Keep(rec wal.Record, dst []byte) ([]byte, bool) {
	var kept []byte
	var whole bool
	switch typ := record.TypeOf(rec.Data); typ {
	case record.TypeSeries:
		kept, whole = f.series(rec.Data, dst)
	case record.TypeSamples, record.TypeSamplesV2:
		kept, whole = f.samplesFrom(rec.Data, dst)
	case record.TypeTombstones:
		kept, whole = f.tombstones(rec.Data, dst)
	case record.TypeLateTombstones:
		kept, whole = f.tombstones(record.ReadLateTombstones(rec.Data), record.AppendLateTombstones(dst))
	case record.TypeLate, record.TypeLateReach:
		// The out-of-order log has them, on stable storage before the checkpoint was begun: so far
		// it reached then, as is written behind all records.
	case record.TypeMetadata, record.TypeExemplars:
		// The head has what can be read of both, and writes it behind all records.
	case record.TypeMinValidTime:
		// Samples before the time that it names are left out here, and it means something
		// as the first record of a checkpoint only, where ours has its header.
	default:
		if whole = !typ.HoldsHistograms(); !whole {
			kept, whole = f.histogramsFrom(rec.Data, dst)
		}
	}
	if whole {
		return rec.Data, true
	}
	return kept, len(kept) > 0
}

// series keeps the entries of wanted series. whole: the record stays as it is.
func (f *Filter) series(rec, dst []byte) (kept []byte, whole bool) {
	var dec record.SeriesDecoder
	all, wanted := 0, 0
	for dec.Reset(rec); dec.Next(); all++ {
		if f.wanted(dec.Ref()) {
			wanted++
		}
		f.way.Step(wayWanted)
	}
	switch {
	case dec.Err() != nil || wanted == all:
		return nil, true
	case wanted == 0:
		return nil, false
	}
	kept = record.BeginSeries(dst)
	for dec.Reset(rec); dec.Next(); {
		f.way.Step(wayWanted)
		if !f.wanted(dec.Ref()) {
			continue
		}
		entry, err := dec.Entry()
		if err != nil {
			return nil, true
		}
		kept = append(kept, entry...)
	}
	return kept, false
}

// samplesFrom keeps samples from mint on.
func (f *Filter) samplesFrom(rec, dst []byte) (kept []byte, whole bool) {
	var dec record.SampleDecoder
	dec.Reset(rec)
	all, fresh := 0, 0
	for n := len(f.run); n == len(f.run); all += n {
		var err error
		if n, err = dec.Decode(f.run[:]); err != nil {
			return nil, true
		}
		for i := range f.run[:n] {
			if f.keeps(f.run[i].Ref, f.run[i].T) {
				fresh++
			}
		}
	}
	switch fresh {
	case 0:
		return nil, false
	case all:
		return nil, true
	}
	return f.rewrite(rec, dst)
}

// rewrite makes a record of the same type of what is kept.
func (f *Filter) rewrite(rec, dst []byte) (kept []byte, whole bool) {
	var dec record.SampleDecoder
	var plain record.SampleEncoder
	var started record.StartEncoder
	dec.Reset(rec)
	if dec.HasStarts() {
		dst = started.Begin(dst)
	} else {
		dst = plain.Begin(dst)
	}
	for n := len(f.run); n == len(f.run); {
		var err error
		if n, err = dec.DecodeStarts(f.run[:], f.starts[:]); err != nil {
			return nil, true
		}
		for i, s := range f.run[:n] {
			switch {
			case !f.keeps(s.Ref, s.T):
			case dec.HasStarts():
				dst = started.Append(dst, s, f.starts[i])
			default:
				dst = plain.Append(dst, s.Ref, s.T, s.V)
			}
		}
	}
	return dst, false
}

// histogramsFrom keeps histograms from mint on.
func (f *Filter) histogramsFrom(rec, dst []byte) (kept []byte, whole bool) {
	var dec record.HistogramDecoder
	all, fresh := 0, 0
	for dec.Reset(rec); dec.Next(); all++ {
		if f.keeps(dec.Ref(), dec.T()) {
			fresh++
		}
	}
	switch {
	case dec.Err() != nil || fresh == all && all > 0:
		return nil, true
	case fresh == 0:
		return nil, false
	}
	var enc record.HistogramEncoder
	dst = enc.Begin(dst, record.TypeOf(rec))
	for dec.Reset(rec); dec.Next(); {
		if f.keeps(dec.Ref(), dec.T()) {
			dst = enc.Append(dst, dec.Ref(), dec.T(), dec.ST(), dec.Entry())
		}
	}
	return dst, false
}

func (f *Filter) tombstones(rec, dst []byte) (kept []byte, whole bool) {
	var dec record.TombstoneDecoder
	dec.Reset(rec)
	f.stones = f.stones[:0]
	dropped := false
	for dec.Next() {
		stone := dec.At()
		if !f.keeps(stone.Ref, stone.Maxt) || !f.wanted(stone.Ref) {
			dropped = true
			continue
		}
		f.stones = append(f.stones, stone)
	}
	switch {
	case dec.Err() != nil || !dropped:
		return nil, true
	case len(f.stones) == 0:
		return nil, false
	}
	return record.AppendTombstones(dst, f.stones), false
}
