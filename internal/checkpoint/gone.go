package checkpoint

import (
	"context"
	"math"
	"sort"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Gone has the refs of series that were removed, or that duplicate another one, each with the
// newest segment that may have their samples: until a checkpoint covers it, their series records
// are kept. Of duplicates that is math.MaxInt until no sample that Open found is wanted any more.
type Gone map[uint64]int

// Remember notes refs of the log that no series of the head has.
//
//go:noinline
func (g *Gone) Remember(segment int, refs ...uint64) {
	if *g == nil {
		*g = Gone{}
	}
	for _, ref := range refs {
		(*g)[ref] = segment
	}
}

// any reports whether of some refs no segment behind one has samples.
func (g Gone) any(upTo int) bool {
	for _, segment := range g {
		if segment <= upTo {
			return true
		}
	}
	return false
}

// HasDuplicates reports whether there are some that ForgetDuplicates would forget.
func (g Gone) HasDuplicates() bool {
	for _, segment := range g {
		if segment == math.MaxInt {
			return true
		}
	}
	return false
}

// ForgetDuplicates is called when blocks have all samples that Open found: since then none came
// under a ref that duplicates another one. Segments behind this one have none.
func (g Gone) ForgetDuplicates(segment int) {
	for ref, newest := range g {
		if newest == math.MaxInt {
			g[ref] = segment
		}
	}
}

// List is what is remembered, for a snapshot.
func (g Gone) List() []headsnap.Gone {
	list := make([]headsnap.Gone, 0, len(g))
	for ref, segment := range g {
		list = append(list, headsnap.Gone{Ref: ref, Segment: segment})
	}
	sort.Slice(list, func(i, k int) bool { return list[i].Ref < list[k].Ref })
	return list
}

// Logged returns the refs that the log has series records of, and the number of its newest commit.
func Logged(ctx context.Context, fsys fileutil.FS, walDir string) (refs map[uint64]bool, lastSeq uint64, err error) {
	refs = map[uint64]bool{}
	rep, err := wal.Replay(ctx, wal.ReplayOptions{FS: fsys, Dir: walDir, Decoders: 1, Apply: func(b *wal.Batch) error {
		var dec record.SeriesDecoder
		for _, rec := range b.Records {
			if record.TypeOf(rec.Data) != record.TypeSeries {
				continue
			}
			for dec.Reset(rec.Data); dec.Next(); {
				refs[dec.Ref()] = true
			}
		}
		return nil
	}})
	if err != nil {
		return nil, 0, err
	}
	return refs, rep.LastSeq, nil
}
