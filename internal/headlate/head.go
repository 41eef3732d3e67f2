// Package headlate is what the head does with late samples: it tells what there is already at their
// time, reserves those of a commit, puts them into both logs, and makes blocks of them.
//
// It knows the samples in order of a head, its deletes, and its late samples. It does not know
// which samples are late or too late, nor when a flush is due, but for how much memory late samples
// may take, nor how blocks are written. A Head may be used by any number of goroutines; Samples are
// for one, and a Flush for one at a time. docs/design/late-samples.md tells how late samples go.
package headlate

import (
	"math"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/latelog"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Head is what late samples are held against, and where they are.
type Head struct {
	Series   *memseries.Directory
	Chunks   *chunks.HeadFiles
	Deleted  *atomic.Pointer[tombstones.Set] // of the samples in order
	MinValid *atomic.Int64                   // blocks have, or soon will have, what is before
	Mender   Mender
	Commits  *isolation.Commits
	Store    *late.Store
	Log      *latelog.Log
	Wins     bool // a late sample takes the place of another one of its time
	// InBlocks reports whether blocks of late samples may have one of a time.
	InBlocks func(t int64) bool
}

// mayBeHidden reports whether what is in order at a time may have lost its place to a late sample
// that a block has.
func (h *Head) mayBeHidden(t int64) bool { return h.Wins && h.InBlocks(t) }

// Mender is told of chunks that could not be read.
type Mender interface {
	NoteDamage(ref chunks.Ref, err error)
}

// IsDeleted reports whether what a series has in order at a time is deleted.
func (h *Head) IsDeleted(s *memseries.Series, t int64) bool {
	return h.Deleted.Load().Of(s.Ref()).Covers(t)
}

// TakesPlace reports whether a sample whose series has one in order at its time may count in the
// place of that; same: it is the same one.
func (h *Head) TakesPlace(st *memseries.Sample, same bool) (bool, error) {
	if h.IsDeleted(st.Series, st.T) {
		return true, nil
	}
	if !h.Wins || !same {
		return h.Wins, nil
	}
	// The same is there, unless a late one took its place.
	sum, found, _, err := h.Store.Find(st.Series.Ref(), st.T)
	return err == nil && (found && sum != st.Sum || !found && h.mayBeHidden(st.T)), err
}

// RaiseNewest makes series take only what is newer than their late samples, where the head takes
// those times in order: once they had something newer, and it is gone.
func (h *Head) RaiseNewest() {
	minValid := h.MinValid.Load()
	for _, ref := range h.Store.Refs() {
		s := h.Series.ByRef(ref)
		if s == nil || !h.Store.Overlaps(ref, max(minValid, s.PendingT()), math.MaxInt64) {
			continue
		}
		newest, ok := h.Store.Newest(ref)
		h.Series.Shards.Lock(memseries.Bit(s))
		if ok && newest.T >= minValid && newest.T > s.PendingT() {
			s.Reserve(newest.T, newest.Sum)
			memseries.ReserveKind(s, newest.Encoding)
		}
		h.Series.Shards.Unlock(memseries.Bit(s))
	}
}

// Sync brings what is applied of late samples to stable storage in the out-of-order log. It is a
// checkpoint.LateSync.
func (h *Head) Sync() (reach []byte, err error) {
	if !h.Log.IsOpen() && !h.Log.IsIncomplete() {
		return nil, nil
	}
	h.Series.Shards.Barrier()
	reach, err = h.Log.Sync()
	if n, _ := h.Store.Len(); n == 0 { // blocks have all, and nobody needs the log
		reach = nil
	}
	return reach, err
}

// Health returns why the out-of-order log lacks samples, nil if it does not. It is nothing that its
// cause is: commits are taken, though a disk was full.
func (h *Head) Health() error {
	if err := h.Log.Err(); err != nil {
		return errors.New(err.Error())
	}
	return nil
}

// looker looks for samples in order. It keeps its memory.
type looker struct {
	excerpt memseries.Excerpt
	finder  late.Finder
}

// sumAt returns the sum of the sample that a series has in order at a time, if it is not in blocks.
// checked is up to when the series was looked at.
func (l *looker) sumAt(h *Head, s *memseries.Series, t int64) (sum uint64, found bool, checked int64, err error) {
	if t < h.MinValid.Load() {
		return 0, false, math.MaxInt64, nil // blocks have what there is, by their own rule
	}
	era := h.Store.Era()
	h.Series.Past(math.MaxUint64).Excerpt(s, t, t, &l.excerpt)
	checked = l.excerpt.Maxt
	if h.IsDeleted(s, t) {
		return 0, false, checked, nil
	}
	sum, found, err = l.find(h, t)
	if known := l.finder.Steady(t); !found && len(l.excerpt.Chunks) == 1 && known.Any() {
		h.Store.NoteSteady(s.Ref(), known, era)
	}
	return sum, found, checked, err
}

// find looks for the sample in the excerpt.
func (l *looker) find(h *Head, t int64) (sum uint64, found bool, err error) {
	l.finder.Forget()
	for _, c := range l.excerpt.Chunks {
		enc, data := c.Encoding, l.excerpt.Data(c)
		if c.Ref != 0 {
			if enc, data, err = h.Chunks.Read(c.Ref, nil); err != nil {
				h.Mender.NoteDamage(c.Ref, err)
				return 0, false, nil // nobody can read it
			}
		}
		if sum, found, err = l.finder.Find(enc, data, t); found || err != nil {
			return sum, found, err
		}
	}
	return 0, false, nil
}
