package memseries

import (
	"sync/atomic"

	"github.com/pkg/errors"
)

// Budget bounds what the series of a Directory take. It refuses new series and nothing else: those
// that are there get samples as before, and what recovery restores is not asked for. The zero value
// bounds nothing, and then costs two comparisons for each new series.
type Budget struct {
	d *Directory
	// Beside returns what the head keeps of its samples elsewhere, in bytes; set before series are
	// created. nil: nothing.
	Beside func() int64
	// Limits, which do not change once series are created; 0 or less: none.
	series int
	bytes  int64

	tries    atomic.Int64 // to create a series since the last flush, where bytes are bounded
	measured atomic.Int64 // bytes, at the last look
	left     atomic.Int64 // bytes that the last flush left, or fewer that were seen since

	asked int64 // the time that EndedHelp was last asked for in earnest

	// common is what several heads may take together, of which this one takes what is counted; nil:
	// it stands alone.
	common  *CommonBudget
	counted struct{ series, bytes atomic.Int64 }
	gone    atomic.Bool // it counts no more
}

// CommonBudget bounds what the series of several Directories take together. Of each it knows what
// that took when it was looked at last, so bytes may be exceeded by what all of them grow in
// between.
type CommonBudget struct {
	Series, Bytes int64 // 0 or less: no limit; they do not change

	hasSeries, hasBytes atomic.Int64
}

// Has returns how much all of them take.
func (c *CommonBudget) Has() (series, bytes int64) { return c.hasSeries.Load(), c.hasBytes.Load() }

func (c *CommonBudget) near() bool {
	return c != nil && (c.Series > 0 && c.hasSeries.Load() >= c.Series-c.Series/nearShare || c.nearBytes())
}

func (c *CommonBudget) nearBytes() bool {
	return c != nil && c.Bytes > 0 && c.hasBytes.Load() >= c.Bytes-c.Bytes/nearShare
}

// Join makes a Directory count for c, with what it has.
func (b *Budget) Join(c *CommonBudget) {
	if b.common = c; c != nil {
		b.countSeries(0)
		b.measure()
	}
}

// Leave ends what Join began.
func (b *Budget) Leave() {
	if c := b.common; c != nil && !b.gone.Swap(true) {
		c.hasSeries.Add(-b.counted.series.Swap(0))
		c.hasBytes.Add(-b.counted.bytes.Swap(0))
	}
}

// countSeries tells the common budget how many series there are, and some that are about to be.
func (b *Budget) countSeries(more int) (all int64) {
	if b.gone.Load() {
		return 0
	}
	n := int64(b.d.Len() + more)
	return b.common.hasSeries.Add(n - b.counted.series.Swap(n))
}

const (
	// measureEvery is how many new series are created, or refused, by one look at the bytes: it
	// takes some microseconds. Their labels are what the limit may be exceeded by.
	measureEvery = 64
	// nearShare: the budget is near when less than this part of it is left.
	nearShare = 8
	// worthShare: a flush is worth it that frees about this part. It is done for less no more than
	// once, as what it cannot free it does not free by being repeated.
	worthShare = 16
	// muchShare is the part that is much, see IsMuch.
	muchShare = 8
	// askEvery is how far time goes, in milliseconds, until all series are looked at again.
	askEvery = 10_000
)

// Limit sets the limits, before series are created; 0 or less: none.
func (b *Budget) Limit(series int, bytes int64) { b.series, b.bytes = series, bytes }

// refuseBytes says why a new series may not be created as far as bytes go. It looks at the bytes
// now and then, which takes locks.
func (b *Budget) refuseBytes() error {
	if b.bytes <= 0 && (b.common == nil || b.common.Bytes <= 0) {
		return nil
	}
	if b.tries.Add(1)%measureEvery == 1 {
		b.measure()
	}
	if has := b.measured.Load(); b.bytes > 0 && has >= b.bytes {
		return beyond("the head takes %d bytes, Head.MaxBytes is %d", has, b.bytes)
	}
	if c := b.common; c != nil && c.Bytes > 0 && c.hasBytes.Load() >= c.Bytes {
		return beyond("the heads of the group take %d bytes, GroupOptions.MaxBytes is %d", c.hasBytes.Load(), c.Bytes)
	}
	return nil
}

// refuseSeriesLocked says why a new series may not be created as far as their number goes. The
// caller holds the lock of creation, so the limit is exact.
func (b *Budget) refuseSeriesLocked() error {
	if has := b.d.Len(); b.series > 0 && has >= b.series {
		return beyond("the head has %d series, Head.MaxSeries is %d", int64(has), int64(b.series))
	}
	if c := b.common; c != nil {
		if all := b.countSeries(1); c.Series > 0 && all > c.Series {
			return beyond("the heads of the group have %d series, GroupOptions.MaxSeries is %d", b.countSeries(0), c.Series)
		}
	}
	return nil
}

func beyond(format string, has, limit int64) error {
	return errors.WithMessagef(ErrBudget, format, has, limit)
}

func (b *Budget) measure() int64 {
	has := b.d.SizeBytes()
	if b.Beside != nil {
		has += b.Beside()
	}
	b.measured.Store(has)
	if c := b.common; c != nil && !b.gone.Load() {
		c.hasBytes.Add(has - b.counted.bytes.Swap(has))
	}
	return has
}

// Near reports whether an eighth or less of the budget is left.
func (b *Budget) Near() bool {
	has := int64(0)
	if b.bytes > 0 || b.common != nil && b.common.Bytes > 0 {
		has = b.measure()
	}
	return b.nearSeries() || b.bytes > 0 && has >= b.bytes-b.bytes/nearShare || b.common.near()
}

func (b *Budget) nearSeries() bool {
	return b.series > 0 && b.d.Len() >= b.series-b.series/nearShare
}

// EndedHelp reports whether the budget is near, and so many series have had no sample since a time,
// in milliseconds, that a good part of it is free without them. One goroutine asks. It looks at all
// series, so it says no for a while after it was asked.
func (b *Budget) EndedHelp(since int64) bool {
	if !b.Near() {
		return false
	}
	if passed := since - b.asked; passed >= 0 && passed < askEvery {
		return false
	}
	b.asked = since
	n := 0
	b.d.Shards.eachLocked(func(_ *Shard, s *Series) {
		if s.PendingT() < since {
			n++
		}
	})
	return b.IsWorth(n)
}

// IsWorth reports whether so many series are a good part of all.
func (b *Budget) IsWorth(n int) bool { return n > 0 && n >= b.d.Len()/worthShare }

// FlushHelps reports whether the budget is near, and a flush of all samples would free a good part
// of it, because the bytes have grown as much since the last flush. One goroutine asks.
func (b *Budget) FlushHelps() bool {
	if !b.Near() {
		return false
	}
	has := b.measured.Load()
	b.left.Store(min(b.left.Load(), has))
	grown := has - b.left.Load()
	return b.bytes > 0 && has >= b.bytes-b.bytes/nearShare && grown >= b.bytes/worthShare ||
		b.common.nearBytes() && grown >= has/worthShare
}

// IsMuch reports whether bytes that could go without a flush of all samples are a good part of the
// budget of the head; or, where the common one is near, of what the head takes.
func (b *Budget) IsMuch(bytes int64) bool {
	if bytes <= 0 {
		return false
	}
	if b.bytes > 0 && bytes > b.bytes/muchShare {
		return true
	}
	if b.common == nil || b.common.Bytes <= 0 {
		return false
	}
	has := b.measure()
	return b.common.nearBytes() && bytes > has/muchShare
}

// Flushed says that samples, and maybe series, have gone: the next new series is judged by what is
// left.
func (b *Budget) Flushed() {
	b.Left()
	b.left.Store(b.measured.Load())
}

// Left is Flushed where some series have left, without a flush of all samples.
func (b *Budget) Left() {
	if b.common != nil {
		b.countSeries(0)
	}
	if b.bytes > 0 || b.common != nil {
		b.left.Store(min(b.left.Load(), b.measure()))
		b.tries.Store(0)
	}
}
