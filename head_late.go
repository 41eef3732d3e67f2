package tsdb

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/headlate"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/latelog"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/wal"
)

// headLate is the late samples of a head (docs/design/late-samples.md).
type headLate struct {
	store  *late.Store
	log    latelog.Log
	place  read.PlaceID
	window atomic.Int64 // milliseconds; 0: none are taken
	found  latelog.Found
	flush  headlate.Flush // its users hold DB.flushing
	within headlate.Head  // the rest of the head, from recovery on

	appended, histograms atomic.Uint64 // samples, and of them histograms
}

func (hl *headLate) init(h *head) {
	hl.store = newLateStore(h.opts)
	hl.place = read.NewPlaceID()
	hl.window.Store(h.opts.Head.OutOfOrderWindow.Milliseconds())
	o := h.opts.WAL
	hl.log.Init(latelog.Config{Path: h.path, Quarantine: filepath.Join(h.path, datadir.QuarantineDir), WAL: wal.Options{
		FS: h.opts.FS, SegmentSize: o.SegmentSize, Compression: o.Compression.wal(), Logger: h.opts.Logger,
	}})
}

func newLateStore(o *Options) *late.Store {
	return late.NewStore(late.Cutting{Range: o.Blocks.Range.Milliseconds(), Samples: o.Head.SamplesPerChunk})
}

// SetOutOfOrderWindow changes Options.Head.OutOfOrderWindow for samples that are appended from now
// on. Late samples that are there stay. An error says why there is no out-of-order log to write to;
// nothing has changed then.
func (db *DB) SetOutOfOrderWindow(d time.Duration) (err error) {
	if d < 0 {
		return errors.Errorf("out-of-order window is %v, want 0 or more", d)
	}
	_, done, err := db.begin(context.Background())
	if err != nil {
		return err
	}
	defer done(&err)
	hl := &db.head.late
	if d > 0 && !hl.log.IsOpen() {
		if _, err = db.head.writable(); err != nil {
			return err
		}
		if err = hl.log.Create(); err != nil {
			return err
		}
	}
	hl.window.Store(d.Milliseconds())
	return nil
}

// begin makes the out-of-order log ready for commits, if there is one or shall be.
func (hl *headLate) begin() error {
	if hl.found.Log == nil && hl.window.Load() == 0 && !hl.found.Incomplete {
		return nil
	}
	return hl.log.Resume(context.Background(), &hl.found, hl.store)
}

// take notes what recovery found.
func (hl *headLate) take(rep *replay.Report, end chunks.Ref) {
	r := &rep.Late
	hl.found = latelog.Found{Log: r.Log, Last: rep.Log.LastSeq, Taken: r.Taken, Incomplete: r.Incomplete, NextSegment: r.NextSegment}
	if r.Chunks > 0 {
		hl.found.Taken = end
	}
}

// attach is called when recovery has made the head what it is: late samples are held against it.
func (hl *headLate) attach(h *head) {
	hl.within = headlate.Head{Series: h.series, Chunks: h.chunks, Deleted: &h.deleted.set, MinValid: &h.bounds.minValid, Mender: &h.queries.mender,
		Commits: h.iso, Store: hl.store, Log: &hl.log, Wins: h.opts.Head.LastWriteWins}
	hl.within.RaiseNewest()
}

// acceptsFrom returns the oldest time of late samples that is accepted now.
func (hl *headLate) acceptsFrom(b *bounds) int64 {
	newest := max(b.maxT.Load(), b.minValid.Load()-1)
	return max(newest, memseries.NoTime+1+hl.window.Load()) - hl.window.Load()
}

// tooOldFor says that a time is too old for a late sample; nil if it is not.
func (hl *headLate) tooOldFor(b *bounds, t int64) error {
	from := hl.acceptsFrom(b)
	if t >= from {
		return nil
	}
	return &BoundsError{T: t, From: from, To: b.acceptsTo(), tooOld: true}
}

// readable is what a query, or a flush, reads of a snapshot.
func (hl *headLate) readable(h *head, snapshot uint64) read.Late {
	l := read.Late{Place: hl.place, Series: h.series, Store: hl.store, Snapshot: snapshot}
	l.From, l.To = hl.store.Bounds()
	return l
}

// stagedLate are the late samples of one commit.
type stagedLate struct {
	headlate.Samples
	beside headlate.Beside // the rest of the commit
	refuse bool            // none is taken
}

func (sl *stagedLate) clear() {
	sl.Clear()
	if sl.refuse = false; sl.beside.Own != nil {
		sl.beside = headlate.Beside{} // it holds the samples
	}
}

// RefuseLate says whether samples that are appended from now on are refused if they are late,
// whatever Options.Head.OutOfOrderWindow says: with ErrOutOfOrder, ErrOutOfBounds, or
// ErrDuplicateSample. Of those that other commits make late meanwhile the newest call decides.
func (a *Appender) RefuseLate(refuse bool) {
	if a.staged != nil {
		a.staged.late.refuse = refuse
	}
}

// stageLate makes a sample a late one, unless it comes too late, or is of the future. The error is
// otherwise, where no late ones are taken.
func (a *Appender) stageLate(st *memseries.Sample, otherwise error) error {
	h, sg := a.h, a.staged
	if h.late.window.Load() == 0 || sg.late.refuse {
		return sg.refused.note(st, otherwise)
	}
	if st.T > a.maxT {
		if a.maxT = h.bounds.acceptsTo(); st.T > a.maxT {
			return a.outOfBounds(st)
		}
	}
	err := h.late.tooOldFor(&h.bounds, st.T)
	if err == nil {
		if err = sg.late.Stage(&h.late.within, st, &sg.wide); err == nil {
			return nil
		}
	}
	return sg.refused.note(st, err)
}

// reserveLateLocked takes a late sample into the store, where nobody sees it yet. n is its number
// among those that were staged as late, -1 for one that other commits made late.
func (sg *staging) reserveLateLocked(st *memseries.Sample, n int) error {
	if st.Series.Dead() {
		return ErrNotFound
	}
	added, err := sg.late.ReserveLocked(&sg.h.late.within, &sg.late.beside, st, n)
	if added {
		sg.logLocked(st.Series)
	}
	return err
}

// becomeLateLocked takes a sample that other commits overtook as a late one, unless why it is not
// taken in order keeps it from that, too.
func (sg *staging) becomeLateLocked(st *memseries.Sample, why error) error {
	h := sg.h
	if h.late.window.Load() == 0 || sg.late.refuse || why == ErrNotFound {
		return why
	}
	if why == nil || why == ErrDuplicateSample {
		if takes, err := h.late.within.TakesPlace(st, why == nil); err != nil {
			return err
		} else if !takes {
			return why
		}
	}
	if err := h.late.tooOldFor(&h.bounds, st.T); err != nil {
		return err
	}
	return sg.reserveLateLocked(st, -1)
}

// encode writes the records of late samples, for both logs.
func (sl *stagedLate) encode(sg *staging) {
	if len(sl.Kept) > 0 {
		sg.wide.AppendRecords(&sl.Records, sl.Kept)
		sl.AppendTo(&sg.commit, sg.h.late.log.Segment())
	}
}

// poison refuses all writes if a sync of the out-of-order log failed, and returns why.
func (hl *headLate) poison(h *head, err error) error {
	if errors.Is(err, ErrPoisoned) {
		h.poison(err)
	}
	return err
}

// sync brings what is applied of late samples to stable storage in the out-of-order log. It is a
// checkpoint.LateSync.
func (hl *headLate) sync(h *head) ([]byte, error) {
	reach, err := hl.within.Sync()
	return reach, hl.poison(h, err)
}
