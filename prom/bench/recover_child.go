package bench

import (
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// recoverWrite appends as fast as it can until it is killed, and tells when there are as many
// samples as were asked for and a snapshot of the head. It gives up when nobody kills it then.
func recoverWrite(t task) (m measures, err error) {
	o, out := t.Sustain, &teller{to: os.Stdout}
	acks, err := os.Create(o.ackFile())
	if err != nil {
		return nil, errors.Wrap(err, "make acknowledgements")
	}
	defer acks.Close()
	if err := acks.Truncate(acknowledgement); err != nil {
		return nil, errors.Wrap(err, "size acknowledgements")
	}
	db, err := tsdb.Open(o.dataDir(), o.options(&teller{to: io.Discard}))
	if err != nil {
		return nil, err
	}
	w, err := newSustainWriter(o, db, 0, acks)
	if err != nil {
		return nil, err
	}
	var told time.Time
	var done taken
	for enough := int64(t.Samples * w.commits()); told.IsZero() || time.Since(told) < t.Time; {
		if err := w.one(time.Now()); err != nil {
			return nil, err
		}
		done.took = done.took[:0]
		w.take(&done, time.Now()) // or the writer keeps it for a recorder
		if told.IsZero() && w.next >= enough && db.Stats().HeadSnapshots > 0 {
			told = time.Now()
			if err := out.tell(sustainMessage{Event: &SustainEvent{Kind: eventStart}, Least: leastMemory()}); err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.Errorf("nobody killed this process within %v", t.Time)
}

// recoverOpen opens what a kill left, says what that took, and that the database is good: it goes
// on with the commit that may have been made and not acknowledged, and has the samples of some
// series.
func recoverOpen(t task) (m measures, err error) {
	err = t.recovered(func(db *tsdb.DB, want wanted, opened measures) error {
		m = opened
		rep := db.OpenReport()
		switch {
		case t.Whole && rep.Snapshot != "":
			return errors.Errorf("opened with snapshot %s, which was to be taken away", rep.Snapshot)
		case !t.Whole && rep.Snapshot == "":
			return errors.Errorf("opened without the snapshot of the process that was killed; left out: %v", rep.SnapshotsIgnored)
		}
		return want.some(db, max(1, t.Sustain.Series/checkedSeries))
	})
	return m, err
}

// checkedSeries is about how many series are read after opening.
const checkedSeries = 100

// recoverCheck opens what a kill left in the same way and reads all of it.
func recoverCheck(t task) (m measures, err error) {
	err = t.recovered(func(db *tsdb.DB, want wanted, _ measures) error {
		got, err := want.all(db)
		m = measures{"samples": float64(got.samples)}
		return err
	})
	return m, err
}

// recovered opens what a kill left, goes on with a commit, and has use look at it: at what there
// must be, and at what opening took.
func (t task) recovered(use func(db *tsdb.DB, want wanted, opened measures) error) (err error) {
	o := t.Sustain
	if t.Whole {
		if err := t.onlyLog(); err != nil {
			return err
		}
	}
	if t.Limit > 0 {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(t.Limit)))
	}
	watch, before := watchProcess(os.Getpid()), now()
	db, err := tsdb.Open(o.dataDir(), o.options(&teller{to: io.Discard}))
	cost, peak := now().since(before), peakResident()
	watch.stop()
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := db.Close(); err == nil {
			err = closeErr
		}
	}()
	want, err := o.goOn(db)
	if err != nil {
		return err
	}
	return use(db, want, measures{
		"cpu": cost.cpu.Seconds(), "wall": cost.wall.Seconds(), "peak": peak, "own": watch.own, "log": float64(db.OpenReport().Bytes),
	})
}

// goOn makes the next commit, and says what there must be then.
func (o *sustainOrder) goOn(db *tsdb.DB) (want wanted, err error) {
	acks, err := os.OpenFile(o.ackFile(), os.O_RDWR, 0)
	if err != nil {
		return want, errors.Wrap(err, "open acknowledgements")
	}
	defer acks.Close()
	w, err := newSustainWriter(o, db, 0, acks)
	if err == nil {
		err = w.one(time.Now())
	}
	if err != nil {
		return want, err
	}
	return o.wanted()
}
