package horizon

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Config is what a Watch works with.
type Config struct {
	FS        fileutil.FS
	Dir       string
	Clock     clock.Clock
	Logger    *slog.Logger
	Retention time.Duration // by time, to begin with; 0 or below: there is none, and the Watch does nothing
}

// Watch holds retention by time to what has passed: one wrong clock, or one sample of it, would
// make everything too old. It keeps where time is in a file, and may be used by any number of
// goroutines once it is open.
type Watch struct {
	cfg Config

	// keep is the retention by time, in nanoseconds, as SetRetention changes it.
	keep atomic.Int64
	// What the file had when it was read, nil if there was none that is whole, and when it was
	// written. Read and SetRetention change them, never at the same time.
	found *Horizon
	at    clock.Passed

	// behind is how far, in milliseconds, retention stays behind what clock and samples say, if
	// blocks are kept for it; 0: none are.
	behind atomic.Int64

	mu struct {
		sync.Mutex
		horizon Horizon
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

// NewWatch returns a Watch that is to Read and to Open.
func NewWatch(cfg Config) *Watch {
	w := &Watch{cfg: cfg}
	w.keep.Store(int64(cfg.Retention))
	return w
}

// on reports whether there is a retention by time.
func (w *Watch) on() bool { return w.keep.Load() > 0 }

// Read reads the file. That it cannot be read now says nothing about what is in it, and is an
// error: begun at the clock again, time would be where a wrong clock says.
func (w *Watch) Read() error {
	if !w.on() {
		return nil
	}
	return w.read()
}

func (w *Watch) read() error {
	h, at, err := Read(w.cfg.FS, w.cfg.Dir)
	switch {
	case errors.Is(err, encbuf.ErrCorrupt):
		w.cfg.Logger.Warn("read horizon of retention", "error", fileutil.Logged(err))
	case err != nil:
		return errors.WithMessage(err, "read horizon of retention")
	}
	w.found, w.at = h, at
	return nil
}

// Open finds out where time was, behind Read, and writes it down if nobody had; newest is the
// newest sample there is, math.MinInt64 if none.
func (w *Watch) Open(newest int64) {
	if !w.on() {
		return
	}
	w.mu.Lock()
	w.loadLocked(newest, time.Duration(w.keep.Load()))
	w.mu.Unlock()
	if w.found != nil {
		return
	}
	w.SaveOrWarn()
}

// SetRetention changes the retention by time, behind Open. The first one, of a Watch that had none,
// begins as Open does: newest is the newest sample there is, math.MinInt64 if none. With an error,
// which is that of Read, nothing is changed.
func (w *Watch) SetRetention(d time.Duration, newest int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case d > 0 && !w.mu.horizon.Known():
		if err := w.read(); err != nil {
			return err
		}
		w.loadLocked(newest, d)
	case d > 0:
		w.mu.horizon.SetKeep(d)
	default:
		w.noteLocked(0, 0) // nothing is kept for it
	}
	w.keep.Store(int64(d))
	return nil
}

func (w *Watch) loadLocked(newest int64, keep time.Duration) {
	passed := clock.PassedBy(w.cfg.Clock)
	h, at := w.found, w.at
	if h == nil {
		h = &Horizon{}
		now := w.cfg.Clock.Now()
		if h.Begin(now.UnixMilli()); newest < now.Add(-believedGap).UnixMilli() && newest > farPast {
			h.Begin(newest + believedGap.Milliseconds())
		}
		at = passed
	}
	w.mu.horizon, w.mu.last, w.mu.saved = *h, passed, passed.Time-saveHorizonEvery
	w.mu.horizon.Keep = keep
	if d, ok := passed.After(at); ok {
		w.mu.horizon.Pass(d)
	}
	w.passLocked()
}

// farPast is before all samples that have a time.
const farPast = -1 << 62

// Look returns how far retention stays behind t, which is not above what the clock shows.
func (w *Watch) Look(t int64) (behind time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.passLocked()
	return w.mu.horizon.Look(t, now)
}

// Back is called when samples are taken by a clock that shows less than they had. It is written
// down at once: a process that starts behind a kill must not believe the other clock again.
func (w *Watch) Back() {
	w.mu.Lock()
	known := w.mu.horizon.Known()
	if known {
		w.mu.horizon.Back(w.passLocked())
		w.noteLocked(0, 0)
	}
	w.mu.Unlock()
	if known {
		w.SaveOrWarn()
	}
}

// SaveOrWarn writes down where time is. Without, less is known, and nothing else is wrong.
func (w *Watch) SaveOrWarn() {
	if err := w.Save(true); err != nil {
		w.cfg.Logger.Warn("write horizon of retention", "error", fileutil.Logged(err))
	}
}

// passLocked lets the time pass that has, and returns what the clock shows, in milliseconds. That a
// clock which shows less is believed is written down with the next retention.
func (w *Watch) passLocked() (now int64) {
	passed := clock.PassedBy(w.cfg.Clock)
	if d, ok := passed.After(w.mu.last); ok {
		w.mu.horizon.Pass(d)
	}
	w.mu.last = passed
	now = clock.UnixMilli(w.cfg.Clock)
	if w.mu.horizon.LookBack(now) {
		w.mu.saved = passed.Time - saveHorizonEvery
	}
	return now
}

// Save writes down where time is, if that is due or must be.
func (w *Watch) Save(must bool) error {
	if !w.on() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passLocked()
	if !w.mu.horizon.Known() || !must && w.mu.last.Time-w.mu.saved < saveHorizonEvery {
		return nil
	}
	if err := Write(w.cfg.FS, w.cfg.Dir, &w.mu.horizon, w.mu.last); err != nil {
		return errors.WithMessage(err, "write horizon of retention")
	}
	w.mu.saved = w.mu.last.Time
	return nil
}

// Note says whether blocks are kept because the clock went further than time.
func (w *Watch) Note(kept int, behind time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on() { // or it was turned off since somebody looked
		w.noteLocked(kept, behind)
	}
}

func (w *Watch) noteLocked(kept int, behind time.Duration) {
	if kept == 0 {
		behind = 0
	}
	before := w.behind.Swap(behind.Milliseconds())
	switch {
	case before == 0 && behind > 0:
		w.cfg.Logger.Warn("retention waits: the clock went further than time passed", "behind", behind, "blocks", kept)
	case before > 0 && behind == 0:
		w.cfg.Logger.Info("retention goes on")
	}
}

// Behind is how far retention stays behind what clock and samples say, if blocks are kept for it;
// 0: none are.
func (w *Watch) Behind() time.Duration {
	return time.Duration(w.behind.Load()) * time.Millisecond
}
