package tsdb

import (
	"context"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/latelog"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/record"
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
	flush  lateFlush

	appended, histograms atomic.Uint64 // samples, and of them histograms
}

func (hl *headLate) init(h *head) {
	hl.store = h.newLateStore()
	hl.place = read.NewPlaceID()
	hl.window.Store(h.opts.Head.OutOfOrderWindow.Milliseconds())
	o := h.opts.WAL
	hl.log.Init(latelog.Config{Path: h.path, Quarantine: filepath.Join(h.path, datadir.QuarantineDir), WAL: wal.Options{
		FS: h.opts.FS, SegmentSize: o.SegmentSize, Compression: o.Compression.wal(), Logger: h.opts.Logger,
	}})
}

func (h *head) newLateStore() *late.Store {
	return late.NewStore(late.Cutting{Range: h.opts.Blocks.Range.Milliseconds(), Samples: h.opts.Head.SamplesPerChunk})
}

// SetOutOfOrderWindow changes Options.Head.OutOfOrderWindow for samples that are appended from now
// on. Late samples that are there stay. An error says why there is no out-of-order log to write to;
// nothing has changed then.
func (db *DB) SetOutOfOrderWindow(d time.Duration) error {
	if d < 0 {
		return errors.Errorf("out-of-order window is %v, want 0 or more", d)
	}
	hl := &db.head.late
	if d > 0 && !hl.log.IsOpen() {
		if _, err := db.head.writable(); err != nil {
			return err
		}
		if err := hl.log.Create(); err != nil {
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
	hl.found = latelog.Found{Log: r.Log, Last: rep.Log.LastSeq, Taken: r.Taken, Incomplete: r.Incomplete}
	if r.Chunks > 0 {
		hl.found.Taken = end
	}
}

// raiseNewest makes series take only what is newer than their late samples, where the head takes
// those times in order: once they had something newer, and it is gone. The head is alone.
func (hl *headLate) raiseNewest(h *head) {
	minValid := h.bounds.minValid.Load()
	for _, ref := range hl.store.Refs() {
		newest, ok := hl.store.Newest(ref)
		if s := h.series.ByRef(ref); ok && s != nil && newest.T >= minValid && newest.T > s.PendingT() {
			s.Reserve(newest.T, newest.Sum)
			s.ReserveKind(newest.Encoding)
		}
	}
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
	checked []int64            // by sample that is staged as late: up to here its series was looked at
	kept    []memseries.Sample // that are reserved
	before  int                // samples that are reserved in order
	commit  latelog.Commit
	one     late.Sample
	excerpt memseries.Excerpt
	finder  late.Finder
	body    []byte
}

func (sl *stagedLate) clear() {
	clear(sl.kept)
	sl.checked, sl.kept = sl.checked[:0], sl.kept[:0]
	sl.commit.Reset()
}

// stageLate makes a sample a late one, unless it comes too late. The error is otherwise, where no
// late ones are taken.
func (a *Appender) stageLate(st *memseries.Sample, otherwise error) error {
	h := a.h
	if h.late.window.Load() == 0 {
		return a.staged.refused.note(st, otherwise)
	}
	if err := h.late.tooOldFor(&h.bounds, st.T); err != nil {
		return a.staged.refused.note(st, err)
	}
	a.staged.endHistograms(st)
	sl := &a.staged.late
	sum, found, err := h.late.store.Find(st.Series.Ref(), st.T)
	checked := int64(math.MinInt64)
	if !found && err == nil {
		sum, found, checked, err = h.sumAt(st.Series, st.T, sl)
	} else {
		checked = math.MaxInt64 // what is late decides
	}
	switch {
	case err != nil:
		return err
	case found && sum == st.Sum:
		st.Late = memseries.IsRepeat
	case found && !h.opts.Head.LastWriteWins:
		return a.staged.refused.note(st, ErrDuplicateSample)
	default:
		st.Late = memseries.IsLate
	}
	sl.checked = append(sl.checked, checked)
	return nil
}

// endHistograms makes a float that is a stale marker of a series of histograms one of them.
func (sg *staging) endHistograms(st *memseries.Sample) {
	if st.Sum != histogram.StaleNaN || st.Encoding.Kind() != chunkenc.ValFloat {
		return
	}
	bit := memseries.Bit(st.Series)
	sg.h.series.Shards.Lock(bit)
	kind := st.Series.PendingKind()
	sg.h.series.Shards.Unlock(bit)
	if kind != chunkenc.ValFloat {
		sg.wide.End(st, kind)
		st.Sum = sg.wide.Digest(st)
	}
}

// sumAt returns the sum of the sample that a series has in order at a time, if it is not in blocks.
// checked is up to when the series was looked at.
func (h *head) sumAt(s *memseries.Series, t int64, sl *stagedLate) (sum uint64, found bool, checked int64, err error) {
	if t < h.bounds.minValid.Load() {
		return 0, false, math.MaxInt64, nil // blocks have what there is, by their own rule
	}
	h.series.Past(math.MaxUint64).Excerpt(s, t, t, &sl.excerpt)
	checked = sl.excerpt.Maxt
	if h.isDeleted(s, t) {
		return 0, false, checked, nil
	}
	sum, found, err = sl.find(h, t)
	return sum, found, checked, err
}

// isDeleted reports whether what a series has in order at a time is deleted.
func (h *head) isDeleted(s *memseries.Series, t int64) bool {
	return h.deleted.set.Load().Of(s.Ref()).Covers(t)
}

// find looks for the sample in the excerpt.
func (sl *stagedLate) find(h *head, t int64) (sum uint64, found bool, err error) {
	for _, c := range sl.excerpt.Chunks {
		enc, data := c.Encoding, sl.excerpt.Data(c)
		if c.Ref != 0 {
			if enc, data, err = h.chunks.Read(c.Ref, nil); err != nil {
				h.queries.mender.NoteDamage(c.Ref, err)
				return 0, false, nil // nobody can read it
			}
		}
		if sum, found, err = sl.finder.Find(enc, data, t); found || err != nil {
			return sum, found, err
		}
	}
	return 0, false, nil
}

// reserveLateLocked takes a late sample into the store, where nobody sees it yet. n is its number
// among those that were staged as late, -1 for one that other commits made late.
func (sg *staging) reserveLateLocked(st *memseries.Sample, n int) error {
	h, sl := sg.h, &sg.late
	switch {
	case st.Series.Dead():
		return ErrNotFound
	case st.Late == memseries.IsRepeat:
		// Another one may have taken the place of what it repeats since, by this commit, too.
		if _, found, err := h.late.store.Find(st.Series.Ref(), st.T); !found || err != nil {
			return err
		}
	}
	if n < 0 || sl.checked[n] < min(st.T, st.Series.PendingT()) {
		_, found, err := h.late.store.Find(st.Series.Ref(), st.T) // which decides
		if !found && err == nil {
			err = sg.lookAgainLocked(st)
		}
		if err != nil {
			if err == errRepeat {
				return nil
			}
			return err
		}
	}
	sl.one = late.Sample{T: st.T, Sum: st.Sum, ST: sg.wide.Start(st), Encoding: st.Encoding}
	if st.Encoding.Kind() != chunkenc.ValFloat {
		sl.body = sg.wide.AppendBody(sl.body[:0], st)
		sl.one.Body = sl.body
	}
	added, err := h.late.store.Add(st.Series.Ref(), &sl.one, sg.commit.Seq(), h.iso.Floor(), h.opts.Head.LastWriteWins)
	if errors.Is(err, late.ErrDuplicate) {
		return ErrDuplicateSample
	}
	if added {
		st.Late = memseries.IsLate
		sl.kept = append(sl.kept, *st)
		sg.logLocked(st.Series)
	}
	return err
}

// lookAgainLocked looks for a sample in order at the time of a late one, in what came since that
// was looked for. Of other commits that are on their way only the newest time is known: if one of
// them has another value at this time, that counts as if it were in a block.
func (sg *staging) lookAgainLocked(st *memseries.Sample) error {
	s, wins := st.Series, sg.h.opts.Head.LastWriteWins
	sum, found := s.PendingSum(), s.PendingT() == st.T
	if !found && st.T > s.Maxt() && st.T < s.PendingT() {
		sum, found = sg.ownSum(s, st.T)
	}
	if !found && st.T <= s.Maxt() && st.T >= sg.h.bounds.minValid.Load() {
		sg.h.series.Shards.ExcerptLocked(s, st.T, &sg.late.excerpt)
		var err error
		if sum, found, err = sg.late.find(sg.h, st.T); err != nil {
			return err
		}
	}
	found = found && !sg.h.isDeleted(s, st.T)
	switch {
	case !found, sum != st.Sum && wins:
		return nil
	case sum == st.Sum:
		return errRepeat
	default:
		return ErrDuplicateSample
	}
}

// ownSum looks for a sample among those that this commit has reserved in order.
func (sg *staging) ownSum(s *memseries.Series, t int64) (sum uint64, found bool) {
	for i := range sg.samples[:sg.late.before] {
		if own := &sg.samples[i]; own.Series == s && own.T == t {
			return own.Sum, true
		}
	}
	return 0, false
}

// becomeLateLocked takes a sample that other commits overtook as a late one, unless why it is not
// taken in order keeps it from that, too.
func (sg *staging) becomeLateLocked(st *memseries.Sample, why error) error {
	h, wins := sg.h, sg.h.opts.Head.LastWriteWins
	if h.late.window.Load() == 0 || why == ErrNotFound {
		return why
	}
	deleted := (why == nil || why == ErrDuplicateSample) && h.isDeleted(st.Series, st.T)
	if !wins && !deleted && (why == nil || why == ErrDuplicateSample) {
		return why
	}
	if why == nil && !deleted { // the same is there, unless a late one took its place
		if sum, found, err := h.late.store.Find(st.Series.Ref(), st.T); !found || sum == st.Sum || err != nil {
			return err
		}
	}
	if err := h.late.tooOldFor(&h.bounds, st.T); err != nil {
		return err
	}
	return sg.reserveLateLocked(st, -1)
}

// encode writes the records of late samples, for both logs.
func (sl *stagedLate) encode(sg *staging) {
	if len(sl.kept) == 0 {
		return
	}
	sg.encodeRuns(&sl.commit, sl.kept)
	segment := sg.h.late.log.Segment()
	for i := range sl.commit.Records() {
		sg.commit.End(append(record.AppendLate(sg.commit.Begin(), segment), sl.commit.Record(i)...))
	}
}

// applyLocked gives the records their place in the out-of-order log, in the order of the log for
// each series.
func (sl *stagedLate) applyLocked(sg *staging) {
	if len(sl.kept) == 0 {
		return
	}
	for i := range sl.kept {
		sg.h.series.Shards.NoteAppliedLocked(sl.kept[i].Series, sg.commit.Seq())
	}
	sg.h.late.log.Enqueue(sg.commit.Seq(), &sl.commit)
}

// write writes them. What cannot be written there the log has.
func (sl *stagedLate) write(sg *staging) {
	if len(sl.kept) == 0 {
		return
	}
	hl := &sg.h.late
	if err := hl.log.Write(&sl.commit); errors.Is(err, ErrPoisoned) {
		sg.h.poison(err)
	}
}

// undo takes back what was reserved.
func (sl *stagedLate) undo(sg *staging) {
	for i := range sl.kept {
		sg.h.late.store.Undo(sl.kept[i].Series.Ref(), sg.commit.Seq())
	}
}

// sync brings what is applied of late samples to stable storage in the out-of-order log.
func (hl *headLate) sync(h *head) error {
	if !hl.log.IsOpen() && !hl.log.IsIncomplete() {
		return nil
	}
	h.series.Shards.Barrier()
	err := hl.log.Sync()
	if errors.Is(err, ErrPoisoned) {
		h.poison(err)
	}
	return err
}
