package headlate

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/latelog"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Samples are the late samples of one commit. The zero value is ready, and Clear makes it so again.
type Samples struct {
	Kept    []memseries.Sample // that are reserved
	Records latelog.Commit     // of these

	checked []int64 // by sample that is staged as late: up to here its series was looked at
	own     ownSums
	look    looker
	one     late.Sample
	body    []byte
}

// Clear forgets the samples and keeps the memory.
func (sl *Samples) Clear() {
	clear(sl.Kept)
	sl.checked, sl.Kept = sl.checked[:0], sl.Kept[:0]
	sl.own = ownSums{}
	sl.Records.Reset()
}

// Stage makes a sample a late one, or the repeat of one that is there. late.ErrDuplicate: another
// one is.
func (sl *Samples) Stage(h *Head, st *memseries.Sample, wide *memseries.WideSamples) error {
	endHistograms(h, st, wide)
	sum, found, lacks, err := h.Store.Find(st.Series.Ref(), st.T)
	checked, hidden := int64(math.MaxInt64), false // what is late decides
	if !found && !lacks && err == nil {
		sum, found, checked, err = sl.look.sumAt(h, st.Series, st.T)
		hidden = h.mayBeHidden(st.T)
	}
	switch {
	case err != nil:
		return err
	case found && sum == st.Sum && !hidden:
		st.Late = memseries.IsRepeat
	case found && !h.Wins:
		return late.ErrDuplicate
	default:
		st.Late = memseries.IsLate
	}
	sl.checked = append(sl.checked, checked)
	return nil
}

// endHistograms makes a float that is a stale marker of a series of histograms one of them.
func endHistograms(h *Head, st *memseries.Sample, wide *memseries.WideSamples) {
	if st.Sum != histogram.StaleNaN || st.Encoding.Kind() != chunkenc.ValFloat {
		return
	}
	bit := memseries.Bit(st.Series)
	h.Series.Shards.Lock(bit)
	kind := st.Series.PendingKind()
	h.Series.Shards.Unlock(bit)
	if kind != chunkenc.ValFloat {
		wide.End(st, kind)
		st.Sum = wide.Digest(st)
	}
}

// Beside is the commit that late samples are of.
type Beside struct {
	Seq  uint64
	Wide *memseries.WideSamples
	Own  []memseries.Sample // that it has reserved in order
}

// ReserveLocked takes a late sample into the store, where nobody sees it yet, and reports whether
// it was not there. n is its number among those that were staged, -1 for one that other commits
// made late. The shard of its series is locked. late.ErrDuplicate: another one has its time.
func (sl *Samples) ReserveLocked(h *Head, in *Beside, st *memseries.Sample, n int) (added bool, err error) {
	ref := st.Series.Ref()
	if st.Late == memseries.IsRepeat {
		// Another one may have taken the place of what it repeats since, by this commit, too.
		if _, found, _, err := h.Store.Find(ref, st.T); !found || err != nil {
			return false, err
		}
	}
	if n < 0 || sl.checked[n] < min(st.T, st.Series.PendingT()) {
		_, found, _, err := h.Store.Find(ref, st.T) // which decides
		repeat := false
		if !found && err == nil {
			repeat, err = sl.lookAgainLocked(h, in, st)
		}
		if repeat || err != nil {
			return false, err
		}
	}
	sl.one = late.Sample{T: st.T, Sum: st.Sum, ST: in.Wide.Start(st), Encoding: st.Encoding}
	if st.Encoding.Kind() != chunkenc.ValFloat {
		sl.body = in.Wide.AppendBody(sl.body[:0], st)
		sl.one.Body = sl.body
	}
	added, err = h.Store.Add(ref, &sl.one, in.Seq, h.Commits.Floor(), h.Wins)
	if added {
		if st.Late != memseries.IsLate { // what was just written would be waited for below
			st.Late = memseries.IsLate
		}
		sl.Kept = append(sl.Kept, *st)
	}
	return added, err
}

// lookAgainLocked looks for a sample in order at the time of a late one, in what came since that
// was looked for, and reports whether the same is there. Of other commits that are on their way
// only the newest time is known: if one of them has another value at this time, that counts as if
// it were in a block.
func (sl *Samples) lookAgainLocked(h *Head, in *Beside, st *memseries.Sample) (repeat bool, err error) {
	s := st.Series
	sum, found := s.PendingSum(), s.PendingT() == st.T
	if !found && st.T > s.Maxt() && st.T < s.PendingT() {
		sum, found = sl.own.find(in, s, st.T)
	}
	if !found && st.T <= s.Maxt() && st.T >= h.MinValid.Load() {
		h.Series.Shards.ExcerptLocked(s, st.T, &sl.look.excerpt)
		if sum, found, err = sl.look.find(h, st.T); err != nil {
			return false, err
		}
	}
	switch {
	case !found, sum != st.Sum && h.Wins, h.mayBeHidden(st.T), h.IsDeleted(s, st.T):
		return false, nil
	case sum == st.Sum:
		return true, nil
	default:
		return false, late.ErrDuplicate
	}
}

// ownSums are the Sums of what a commit has reserved in order, from when one of them is looked for.
type ownSums struct {
	of map[ownPlace]uint64
	n  int // samples that are in of
}

// ownPlace is where a sample in order is.
type ownPlace struct {
	series *memseries.Series
	t      int64
}

// find looks for a sample among those that the commit has reserved so far.
func (o *ownSums) find(in *Beside, s *memseries.Series, t int64) (sum uint64, found bool) {
	if o.of == nil {
		o.of = make(map[ownPlace]uint64, len(in.Own))
	}
	for ; o.n < len(in.Own); o.n++ {
		own := &in.Own[o.n]
		o.of[ownPlace{own.Series, own.T}] = own.Sum
	}
	sum, found = o.of[ownPlace{s, t}]
	return sum, found
}

// AppendTo appends the records to the commit of the log, which is to be repeated in a segment of
// the out-of-order log.
func (sl *Samples) AppendTo(c *wal.Commit, segment int) {
	for i := range sl.Records.Records() {
		c.End(append(record.AppendLate(c.Begin(), segment), sl.Records.Record(i)...))
	}
}

// ApplyLocked gives the records their place in the out-of-order log, in the order of the log for
// each series.
func (sl *Samples) ApplyLocked(shards *memseries.Shards, log *latelog.Log, seq uint64) {
	if len(sl.Kept) == 0 {
		return
	}
	for i := range sl.Kept {
		shards.NoteAppliedLocked(sl.Kept[i].Series, seq)
	}
	log.Enqueue(seq, &sl.Records)
}

// Write writes them. What cannot be written there the log has.
func (sl *Samples) Write(log *latelog.Log) error {
	if len(sl.Kept) == 0 {
		return nil
	}
	return log.Write(&sl.Records)
}

// Undo takes back what was reserved.
func (sl *Samples) Undo(st *late.Store, seq uint64) {
	for i := range sl.Kept {
		st.Undo(sl.Kept[i].Series.Ref(), seq)
	}
}
