package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const (
	faultAgedSeries    = 4
	faultAgedRetention = 4 * time.Hour
	faultAgedRange     = 10 * time.Minute

	agedPass    = 15 * time.Minute // that one operation lets pass
	agedHistory = 12               // of these are three hours
)

func faultAgedLabels(i int) labels.Labels {
	return labels.FromStrings("__name__", "aged", "i", fmt.Sprint(i))
}

// faultAgedValue is the value of a series at a time, whoever writes it.
func faultAgedValue(i int, t int64) float64 { return float64(t) + float64(i)/16 }

// agedRun does what a program does whose clock, disk and neighbours are not to be trusted: it goes
// on after every error, and remembers what it was told.
type agedRun struct {
	agedWorld
	setup agedSetup
	disk  *tsdbtest.MemFS
	fs    *faultfs.FS
	fault string
	clock *tsdbtest.Clock
	db    *tsdb.DB // nil: closed

	told          []error
	begun         time.Duration
	unrepaired    bool         // a Repair failed: what it set aside is missed until another one
	small         bool         // the disk has a limit, or had one
	power         bool         // it failed: what was removed may be there again
	peak          atomic.Int64 // most bytes on the disk during the operation
	gone, refused int
}

func newAgedRun(setup agedSetup, disk *tsdbtest.MemFS, world agedWorld) *agedRun {
	r := &agedRun{agedWorld: world.clone(), setup: setup, disk: disk, fs: faultfs.New(journaled{disk})}
	r.clock, r.begun = tsdbtest.NewClock(r.honest()), r.elapsed
	disk.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			r.weigh()
		}
		return nil
	})
	return r
}

// weigh looks how much is on the disk.
func (r *agedRun) weigh() {
	used := r.disk.Used()
	for old := r.peak.Load(); used > old && !r.peak.CompareAndSwap(old, used); {
		old = r.peak.Load()
	}
}

func (r *agedRun) options(fs tsdb.FS) *tsdb.Options {
	o := &tsdb.Options{FS: fs, Clock: r.clock}
	o.Blocks = tsdb.BlockOptions{Manual: true, Range: faultAgedRange, MaxRange: 3 * faultAgedRange,
		Retention: faultAgedRetention, RetentionBytes: r.setup.bytes}
	o.Head.SamplesPerChunk, o.Head.ReplayWorkers = 16, 2
	o.WAL.SegmentSize, o.WAL.Sync = crashSegment, syncPolicies[r.setup.sync]
	if r.setup.sync == "interval" {
		o.WAL.Sync = tsdb.SyncInterval(time.Minute) // hours pass here
	}
	return o
}

// step does one operation, and looks at what is there.
func (r *agedRun) step(op string) error {
	r.peak.Store(0)
	r.weigh()
	err := r.try(op)
	r.weigh()
	if err != nil || r.db == nil {
		return err
	}
	return r.look(r.db, false)
}

// try does one operation.
func (r *agedRun) try(op string) error {
	const year = 365 * 24 * time.Hour
	switch op {
	case "hour":
		r.clock.Set(r.honest().Add(time.Hour))
		return nil
	case "clock", "decade":
		r.clock.Set(r.honest().Add(10 * year))
		if op == "clock" {
			return nil
		}
	case "honest":
		r.clock.Set(r.honest())
		return r.settle()
	case "odd":
		return r.putOdd()
	case "import":
		return r.bring(-time.Hour)
	case "future":
		return r.bring(30 * time.Hour)
	case "small":
		r.small = true
		r.disk.SetCapacity(r.disk.Used() + 3000)
		return nil
	case "room":
		r.disk.SetCapacity(0)
		return nil
	case "close":
		return r.tryClose()
	case "repair", "read":
		if r.db != nil {
			if err := r.tryClose(); err != nil {
				return err
			}
		}
		if op == "read" {
			return r.tryRead()
		}
		return r.tryRepair()
	}
	if r.db == nil {
		if err := r.tryOpen(); err != nil || r.db == nil {
			return err
		}
	}
	return r.tryOpened(op)
}

func (r *agedRun) tryOpened(op string) error {
	switch op {
	case "open":
		return nil
	case "decade":
		return r.commit()
	case "pass":
		return r.pass(agedPass, 5)
	case "night": // what was before is too old
		return r.pass(2*time.Hour, 4)
	case "flush":
		return r.judge(r.db.Flush(ctx))
	case "compact":
		err := r.db.Compact(ctx)
		if err == nil {
			r.arrive()
		}
		return r.judge(err)
	case "headsnap":
		return r.judge(tsdb.TakeHeadSnapshot(r.db))
	default:
		return errors.Errorf("no such operation: %s", op)
	}
}

// judge notes an error, which only a fault or a small disk may cause.
func (r *agedRun) judge(err error) error {
	if err == nil {
		return nil
	}
	r.told = append(r.told, err)
	if len(r.fs.Hits()) == 0 && !r.small {
		return err
	}
	if errors.Is(err, tsdb.ErrDiskFull) && !r.small && !strings.Contains(r.fault, "ENOSPC") {
		return errors.WithMessage(err, "the disk is not full")
	}
	return nil
}

// advance lets time pass.
func (r *agedRun) advance(d time.Duration) {
	r.elapsed += d
	r.clock.Advance(d)
}

// pass lets time pass, and commits now and then.
func (r *agedRun) pass(d time.Duration, commits int) error {
	for range commits {
		r.advance(d / time.Duration(commits))
		if err := r.commit(); err != nil {
			return err
		}
	}
	return nil
}

// settle waits for what a right clock is enough for.
func (r *agedRun) settle() error {
	if r.db == nil {
		return nil
	}
	err := r.judge(r.db.Flush(ctx))
	r.advance(time.Second)
	return err
}

// next returns a time that nothing else has.
func (r *agedRun) next() int64 {
	r.advance(time.Millisecond)
	return r.clock.Now().UnixMilli()
}

// commit commits a sample of each series at the time that the clock shows.
func (r *agedRun) commit() error {
	t := r.next()
	s := agedSample{when: r.elapsed, state: agedRefused}
	app := r.db.Appender()
	for i := range faultAgedSeries {
		_, err := app.Append(0, faultAgedLabels(i), t, faultAgedValue(i, t))
		if err == nil {
			continue
		}
		r.note(t, s)
		if rollback := app.Rollback(); rollback != nil {
			return rollback
		}
		if errors.Is(err, tsdb.ErrOutOfBounds) || errors.Is(err, tsdb.ErrOutOfOrder) {
			return nil
		}
		return r.judge(err)
	}
	res, err := app.Commit(ctx)
	switch {
	case err == nil && len(res.Rejected) == 0:
		s.state = agedThere
	case err == nil && len(res.Rejected) < faultAgedSeries:
		return errors.Errorf("of one time some samples are taken and some are not: %+v", res)
	case err == nil || errors.Is(err, tsdb.ErrNotCommitted):
	case errors.Is(err, tsdb.ErrIndeterminate):
		s.state = agedMaybe
	default:
		return errors.WithMessage(err, "commit says neither what is true nor that nobody knows")
	}
	r.note(t, s)
	return r.judge(err)
}

func (r *agedRun) note(t int64, s agedSample) {
	if r.samples[t] = s; s.state == agedRefused {
		r.refused++
	}
	if s.state == agedThere && (r.oldest == 0 || t < r.oldest) {
		r.oldest = t
	}
}

// bring imports a block of a time that lies so far from now, as a program beside this one.
func (r *agedRun) bring(off time.Duration) error {
	r.advance(time.Millisecond)
	t := r.honest().Add(off).UnixMilli()
	s := agedSample{when: r.elapsed, state: agedRefused}
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: r.fs, Clock: tsdbtest.NewClock(r.honest()), Range: faultAgedRange, MaxRange: 3 * faultAgedRange})
	if err != nil {
		return r.judge(err)
	}
	for i := range faultAgedSeries {
		if err := w.Append(faultAgedLabels(i), t, faultAgedValue(i, t)); err != nil {
			return errors.WithMessage(err, "there is memory enough")
		}
	}
	metas, err := w.Flush(ctx)
	switch {
	case err == nil:
		s.state = agedComing
	case len(metas) > 0:
		s.state = agedMaybe
	}
	r.note(t, s)
	if err := r.judge(err); err != nil {
		return err
	}
	return r.judge(w.Close())
}

// putOdd closes the database and puts a block into the directory that another writer left in no
// order, before all that there is: it says nothing of what lies beside it in the log.
func (r *agedRun) putOdd() error {
	if r.db != nil {
		if err := r.tryClose(); err != nil {
			return err
		}
	}
	t := r.oldest - 5*time.Minute.Milliseconds()
	b := &oddBlock{id: ulid.MustNew(uint64(r.honest().UnixMilli()), nil), mint: t, maxt: t + 4}
	b.id[15] = byte(len(r.samples))
	for _, i := range []int{2, 0, 3, 1, 0} {
		ls := [][2]string{{"i", fmt.Sprint(i)}, {"__name__", "aged"}}
		b.series = append(b.series, oddSeries{labels: ls, chunks: []*oddChunk{oddAgedChunk(i, t+2, t+3), oddAgedChunk(i, t, t+1, t+2)}})
	}
	for at := t; at < b.maxt; at++ {
		r.note(at, agedSample{when: r.elapsed, state: agedThere})
	}
	return b.write(r.disk, fixtureDir)
}

// arrive says that blocks were looked for in the directory.
func (r *agedRun) arrive() {
	for t, s := range r.samples {
		if s.state == agedComing {
			r.samples[t] = agedSample{s.when, agedThere}
		}
	}
}

func oddAgedChunk(i int, times ...int64) *oddChunk {
	c := &oddChunk{}
	for _, t := range times {
		c.add(t, faultAgedValue(i, t))
	}
	return c
}

func (r *agedRun) tryOpen() error {
	db, err := tsdb.Open(fixtureDir, r.options(r.fs))
	if err != nil {
		if open := r.disk.OpenHandles(); len(open) > 0 {
			return errors.Errorf("files are open after a failed Open: %v", open)
		}
		return r.judge(err)
	}
	r.db = db
	r.arrive()
	if rep := db.OpenReport(); rep.BlocksVanished > 0 || rep.BlocksSetAside > 0 || !rep.Clean() && !r.unrepaired {
		return errors.Errorf("something is lost: %+v", rep)
	}
	r.weigh()
	return r.look(db, true)
}

// tryRepair repairs. One that fails, or reads damage where a mapping fails, may leave blocks in
// quarantine, as Open says then; another one brings them back.
func (r *agedRun) tryRepair() error {
	rep, err := tsdb.Repair(ctx, fixtureDir, &tsdb.RepairOptions{Options: r.options(r.fs)})
	if err != nil {
		r.unrepaired = true
		return r.judge(err)
	}
	r.unrepaired = !rep.Clean()
	if r.unrepaired && !strings.HasPrefix(r.fault, "mapread-fault") { // then a block looks damaged
		return errors.Errorf("something is lost by Repair: %+v", rep)
	}
	return nil
}

func (r *agedRun) tryClose() error {
	if r.db == nil {
		return nil
	}
	db := r.db
	r.db = nil
	err := r.judge(db.Close())
	if open := r.disk.OpenHandles(); err == nil && len(open) > 0 {
		err = errors.Errorf("files are open after Close: %v", open)
	}
	return err
}

// tryRead reads the directory without changing it.
func (r *agedRun) tryRead() error {
	reader, err := tsdb.OpenReadOnly(fixtureDir, r.options(r.fs))
	if err != nil {
		return r.judge(err)
	}
	r.arrive()
	if err := r.look(reader, false); err != nil {
		return err
	}
	return r.judge(reader.Close())
}

// look holds what can be read against what must and may be there. An open settles what nobody knew.
func (r *agedRun) look(db snapshots, opened bool) error {
	got, err := readContent(db)
	if err != nil {
		return r.judge(err)
	}
	found, err := agedTimes(got)
	if err != nil {
		return err
	}
	for t := range found {
		s := r.samples[t]
		switch {
		case s.state == 0 || s.state == agedRefused:
			return errors.Errorf("samples of %d are there, and were refused or never written", t)
		case s.state == agedGone && len(r.fs.Hits()) == 0 && !r.small && !r.power:
			return errors.Errorf("samples of %d are there again", t)
		}
		r.samples[t] = agedSample{s.when, agedThere}
	}
	for t, s := range r.samples {
		switch {
		case found[t] || s.state == agedThere && r.unrepaired:
		case s.state == agedMaybe && opened:
			r.samples[t] = agedSample{s.when, agedRefused}
		case s.state == agedThere:
			if !r.mayGo(t, s) {
				return errors.Errorf("lost %s, written %s ago; it is %s", time.UnixMilli(t).UTC(), r.elapsed-s.when, r.honest().UTC())
			}
			r.gone++
			r.samples[t] = agedSample{s.when, agedGone}
		}
	}
	return nil
}

// agedTimes returns the times of the samples, of which each series has one.
func agedTimes(got map[labels.Labels][]point) (map[int64]bool, error) {
	found := map[int64]bool{}
	for _, p := range got[faultAgedLabels(0)] {
		found[p.T] = true
	}
	for i := range faultAgedSeries {
		ps := got[faultAgedLabels(i)]
		if len(ps) != len(found) {
			return nil, errors.Errorf("series %d has samples at %d times, the first one at %d", i, len(ps), len(found))
		}
		if !slices.IsSortedFunc(ps, func(a, b point) int { return int(a.T - b.T) }) {
			return nil, errors.Errorf("series %d is not in order", i)
		}
		for _, p := range ps {
			if !found[p.T] || p.V != math.Float64bits(faultAgedValue(i, p.T)) {
				return nil, errors.Errorf("series %d has %x at %d", i, p.V, p.T)
			}
		}
	}
	return found, nil
}

// mayGo says that a sample is too old by an honest clock, or that bytes must be paid for.
func (r *agedRun) mayGo(t int64, s agedSample) bool {
	old := t <= r.honest().Add(-faultAgedRetention).UnixMilli() || r.elapsed-s.when >= faultAgedRetention
	return old || r.setup.bytes > 0 && r.peak.Load() > r.setup.bytes
}

// well says that disk and clock are well again, and requires that the database is, too.
func (r *agedRun) well() error {
	r.fs.Lift()
	r.disk.SetCapacity(0)
	r.clock.Set(r.honest())
	told := len(r.told)
	if r.db != nil && errors.Is(r.db.Health(), tsdb.ErrPoisoned) {
		_ = r.db.Close() // it says so once more
		r.db = nil
	}
	r.advance(2 * loopInterval) // what failed is tried again
	ops := []string{"open", "honest", "compact"}
	if r.unrepaired {
		ops = slices.Insert(ops, 0, "repair")
	}
	for _, op := range ops {
		if err := r.step(op); err != nil {
			return errors.WithMessage(err, op)
		}
	}
	if n := len(r.told); n > told {
		return errors.WithMessage(r.told[n-1], "on a disk that is well")
	}
	return r.goesOn()
}

// goesOn requires that samples of the present are taken, and that there is nothing to complain of.
func (r *agedRun) goesOn() error {
	if wait := time.UnixMilli(r.db.Stats().AcceptsFrom).Sub(r.clock.Now()); wait > 0 {
		if wait > time.Hour+faultAgedRange {
			return errors.Errorf("accepted is from %d on, which is in %s", r.db.Stats().AcceptsFrom, wait)
		}
		r.advance(wait.Truncate(time.Second) + time.Second)
	}
	refused, told := r.refused, len(r.told)
	if err := r.step("pass"); err != nil {
		return err
	}
	if r.refused > refused {
		return errors.Errorf("samples of the present are refused; accepted is from %d to %d", r.db.Stats().AcceptsFrom, r.db.Stats().AcceptsTo)
	}
	for _, do := range []func(context.Context) error{r.db.Flush, r.db.Compact, r.db.CleanTombstones} {
		r.peak.Store(0)
		r.weigh()
		if err := do(ctx); err != nil {
			return errors.WithMessage(err, "blocks on a disk that is well")
		}
		if err := r.look(r.db, false); err != nil {
			return err
		}
	}
	if n := len(r.told); n > told {
		return errors.WithMessage(r.told[n-1], "on a disk that is well")
	}
	if limit, b := r.setup.bytes, r.db.Stats().BlockBytes; limit > 0 && b > limit {
		return errors.Errorf("blocks have %d bytes, the limit of all is %d", b, limit)
	}
	return errors.WithMessage(r.health(), "health when all is well")
}

// health is that of the database. Only time that could not be written down is in doubt.
func (r *agedRun) health() error {
	err := r.db.Health()
	behind := r.db.Stats().RetentionBehind
	if errors.Is(err, tsdb.ErrClock) && len(r.fs.Hits()) > 0 && behind <= r.elapsed-r.begun+agedPass {
		return nil
	}
	return err
}

// reopened opens a disk as the end of the process, or of the machine, left it. What had gone may be
// there again after that of the machine.
func (r *agedRun) reopened(disk *tsdbtest.MemFS, power bool) error {
	o := newAgedRun(r.setup, disk, r.agedWorld)
	o.power = power
	if err := o.step("open"); err != nil || o.db == nil {
		return errors.WithMessagef(err, "open: %v", o.told)
	}
	return o.step("close")
}
