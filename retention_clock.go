package tsdb

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/horizon"
)

// retentionClock holds retention by time to what has passed: one wrong clock, or one sample of
// it, would make everything too old.
type retentionClock struct {
	opts *Options
	dir  string

	// What the file had when the directory was opened, nil if there was none that is whole, and
	// when it was written. They are not changed after read.
	found *horizon.Horizon
	at    clock.Passed

	// behind is how far, in milliseconds, retention stays behind what clock and samples say, if
	// blocks are kept for it; 0: none are.
	behind atomic.Int64

	mu struct {
		sync.Mutex
		horizon horizon.Horizon
		last    clock.Passed  // of the last look
		saved   time.Duration // last.Time when the file was written
	}
}

const (
	// saveHorizonEvery is how much time may pass unknown to a process that is killed.
	saveHorizonEvery = 10 * time.Minute
	// believedGap is how far the clock may be ahead of the newest sample when a directory is
	// opened that nothing is known of: it was closed for less than that, or waits.
	believedGap = 24 * time.Hour
)

// read reads the file. That it cannot be read now says nothing about what is in it, and is an
// error: begun at the clock again, time would be where a wrong clock says.
func (rc *retentionClock) read() error {
	if rc.opts.Blocks.Retention <= 0 {
		return nil
	}
	h, at, err := horizon.Read(rc.opts.FS, rc.dir)
	switch {
	case errors.Is(err, ErrCorrupt):
		rc.opts.Logger.Warn("read horizon of retention", "error", logged(err))
	case err != nil:
		return errors.WithMessage(err, "read horizon of retention")
	}
	rc.found, rc.at = h, at
	return nil
}

// open finds out where time was, behind read, and writes it down if nobody had; newest is the
// newest sample there is, math.MinInt64 if none.
func (rc *retentionClock) open(newest int64) {
	if rc.opts.Blocks.Retention <= 0 {
		return
	}
	rc.load(newest)
	if rc.found != nil {
		return
	}
	rc.saveOrWarn()
}

func (rc *retentionClock) load(newest int64) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	passed := clock.PassedBy(rc.opts.Clock)
	h, at := rc.found, rc.at
	if h == nil {
		h = &horizon.Horizon{}
		now := rc.opts.Clock.Now()
		if h.Begin(now.UnixMilli()); newest < now.Add(-believedGap).UnixMilli() && newest > farPast {
			h.Begin(newest + believedGap.Milliseconds())
		}
		at = passed
	}
	rc.mu.horizon, rc.mu.last, rc.mu.saved = *h, passed, passed.Time-saveHorizonEvery
	rc.mu.horizon.Keep = rc.opts.Blocks.Retention
	if d, ok := passed.After(at); ok {
		rc.mu.horizon.Pass(d)
	}
	rc.passLocked()
}

// farPast is before all samples that have a time.
const farPast = -1 << 62

// look returns how far retention stays behind t, which is not above what the clock shows.
func (rc *retentionClock) look(t int64) (behind time.Duration) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	now := rc.passLocked()
	return rc.mu.horizon.Look(t, now)
}

// back is called when samples are taken by a clock that shows less than they had. It is written
// down at once: a process that starts behind a kill must not believe the other clock again.
func (rc *retentionClock) back() {
	if rc.opts.Blocks.Retention <= 0 {
		return
	}
	rc.mu.Lock()
	rc.mu.horizon.Back(rc.passLocked())
	rc.mu.Unlock()
	rc.saveOrWarn()
}

// saveOrWarn writes down where time is. Without, less is known, and nothing else is wrong.
func (rc *retentionClock) saveOrWarn() {
	if err := rc.save(true); err != nil {
		rc.opts.Logger.Warn("write horizon of retention", "error", logged(err))
	}
}

// passLocked lets the time pass that has, and returns what the clock shows, in milliseconds. That a
// clock which shows less is believed is written down with the next retention.
func (rc *retentionClock) passLocked() (now int64) {
	passed := clock.PassedBy(rc.opts.Clock)
	if d, ok := passed.After(rc.mu.last); ok {
		rc.mu.horizon.Pass(d)
	}
	rc.mu.last = passed
	now = rc.opts.Clock.Now().UnixMilli()
	if rc.mu.horizon.LookBack(now) {
		rc.mu.saved = passed.Time - saveHorizonEvery
	}
	return now
}

// save writes down where time is, if that is due or must be.
func (rc *retentionClock) save(must bool) error {
	if rc.opts.Blocks.Retention <= 0 {
		return nil
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.passLocked()
	if !rc.mu.horizon.Known() || !must && rc.mu.last.Time-rc.mu.saved < saveHorizonEvery {
		return nil
	}
	if err := horizon.Write(rc.opts.FS, rc.dir, &rc.mu.horizon, rc.mu.last); err != nil {
		return errors.WithMessage(err, "write horizon of retention")
	}
	rc.mu.saved = rc.mu.last.Time
	return nil
}

// note says whether blocks are kept because the clock went further than time.
func (rc *retentionClock) note(kept int, behind time.Duration) {
	if kept == 0 {
		behind = 0
	}
	before := rc.behind.Swap(behind.Milliseconds())
	switch {
	case before == 0 && behind > 0:
		rc.opts.Logger.Warn("retention waits: the clock went further than time passed", "behind", behind, "blocks", kept)
	case before > 0 && behind == 0:
		rc.opts.Logger.Info("retention goes on")
	}
}

// err is why retention waits, nil if it does not.
func (rc *retentionClock) err() error {
	behind := time.Duration(rc.behind.Load()) * time.Millisecond
	if behind == 0 {
		return nil
	}
	return errors.WithMessagef(ErrClock, "retention stays %s behind the clock (%s) until that is sure; if the clock is right, "+
		"close the database and remove its file %s", behind.Round(time.Second), rc.opts.Clock.Now().UTC().Format(time.RFC3339), horizon.FileName)
}
