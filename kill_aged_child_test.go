//go:build unix

package tsdb_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/labels"
)

// What a child writes that runs under retention, by a clock that may be wrong, until it is killed.
// Each commit has one sample of each series, at the time that the clock shows; two seconds pass
// with each. So an hour passes in a fraction of a second, and the database's own loops flush, merge
// and remove blocks all the time.
const (
	agedSeries    = 8
	agedStep      = 2000 // ms that pass with a commit
	agedRetention = 2 * time.Hour
	agedRange     = 10 * time.Minute
)

// agedConfig is what the parent tells the child.
type agedConfig struct {
	Dir        string
	Now        int64         // honest time, in milliseconds since 1970
	Off        int64         // what the clock shows besides
	Boot       string        // names the start of the machine
	Sync       int           // index in killSyncs
	CloseAfter time.Duration // 0: never
	Snapshots  bool
	Blocks     tsdb.BlockOptions
}

func (c agedConfig) options(cl *agedClock) *tsdb.Options {
	o := &tsdb.Options{Clock: cl, Blocks: c.Blocks}
	o.Head.SamplesPerChunk = 32
	o.Head.SnapshotThreshold = -1
	if c.Snapshots {
		o.Head.SnapshotThreshold = 16 << 10
	}
	o.WAL.SegmentSize = 32 << 10
	o.WAL.Sync = killSyncs[c.Sync]
	return o
}

// agedClock lets time pass when one goroutine tells it to, and shows it with an error. What happens
// once a minute in operation happens every 30 ms, and what happens once a second every 5 ms.
type agedClock struct {
	boot   string
	off    int64
	honest atomic.Int64
}

func newAgedClock(c agedConfig) *agedClock {
	cl := &agedClock{boot: c.Boot, off: c.Off}
	cl.honest.Store(c.Now)
	return cl
}

func (c *agedClock) Now() time.Time { return time.UnixMilli(c.honest.Load() + c.off) }

func (c *agedClock) NewTicker(d time.Duration) clock.Ticker {
	return clock.System.NewTicker(max(d/2000, 5*time.Millisecond))
}

func (c *agedClock) Passed() clock.Passed {
	return clock.Passed{Since: c.boot, Time: time.Duration(c.honest.Load()) * time.Millisecond}
}

func agedLabels(i int) labels.Labels {
	return labels.FromStrings("__name__", "aged", "i", fmt.Sprint(i))
}

// agedValue is the value of a series at a time, whoever writes it.
func agedValue(i int, t int64) float64 { return float64(t) + float64(i)/16 }

func init() { children["aged"] = agedChild }

func agedChild() error {
	var cfg agedConfig
	say, err := beginChild(&cfg)
	if err != nil {
		return err
	}
	cl := newAgedClock(cfg)
	db, err := tsdb.Open(cfg.Dir, cfg.options(cl))
	if err != nil {
		say("fail open: %q", err.Error())
		return err
	}
	if r := db.OpenReport(); !r.Clean() {
		say("fail open report: %q", fmt.Sprintf("%+v", r))
	}
	say("opened")
	for begun := time.Now(); cfg.CloseAfter == 0 || time.Since(begun) < cfg.CloseAfter; {
		now := cl.honest.Load() + agedStep
		say("try %d %d", now+cfg.Off, now) // before the clock shows it, so that the parent is never behind
		cl.honest.Store(now)
		switch taken, err := agedCommit(db, now+cfg.Off); {
		case errors.Is(err, tsdb.ErrDiskFull) && errors.Is(err, tsdb.ErrNotCommitted):
			say("full")
			<-time.NewTimer(time.Millisecond).C // there may be room in a moment
		case err != nil:
			say("fail commit: %q", err.Error())
			return err
		case taken:
			say("ack")
		default:
			say("refused")
			<-time.NewTimer(time.Millisecond).C // the loops of the database keep up with the clock
		}
	}
	say("closing")
	if err := db.Close(); err != nil && !errors.Is(err, tsdb.ErrDiskFull) {
		say("fail close: %q", err.Error())
		return err
	}
	say("closed")
	return nil
}

// agedCommit commits a sample of each series and reports whether all were taken; none were, else.
func agedCommit(db *tsdb.DB, t int64) (taken bool, err error) {
	app := db.Appender()
	for i := range agedSeries {
		_, err := app.Append(0, agedLabels(i), t, agedValue(i, t))
		if errors.Is(err, tsdb.ErrOutOfBounds) || errors.Is(err, tsdb.ErrOutOfOrder) {
			return false, app.Rollback()
		}
		if err != nil {
			return false, err
		}
	}
	res, err := app.Commit(ctx)
	switch {
	case err != nil:
		return false, err
	case len(res.Rejected) != 0 && len(res.Rejected) != agedSeries:
		return false, errors.Errorf("of one time some samples are taken and some are not: %+v", res)
	}
	return len(res.Rejected) == 0, nil
}
