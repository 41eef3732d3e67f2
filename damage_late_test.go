package tsdb_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// lateSpecimen is a directory whose late samples stand in three segments of the out-of-order log,
// and, but for those of the last commits, nowhere else: a checkpoint has left them out.
type lateSpecimen struct {
	files   map[string][]byte // by path in the data directory
	opts    tsdb.Options
	commits [][]sample
	only    int // so many of them are in the out-of-order log alone
}

// newLateSpecimen makes one. cut: blocks have taken what was in a segment before.
func newLateSpecimen(t *testing.T, cut bool) *lateSpecimen {
	t.Helper()
	sp := &lateSpecimen{}
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.WAL.Sync, o.Head.SnapshotThreshold = tsdb.SyncCommit(), -1
	})
	base := testNow.UnixMilli()
	both := func() { f.commit(sample{`{a="b"}`, base, 1}, sample{`{a="c"}`, base, 1}) }
	both()
	if cut {
		f.commit(sample{`{a="b"}`, base - 59*minute, 1})
		require.NoError(t, tsdb.Checkpoint(f.db))
		require.NoError(t, f.db.Flush(ctx))
		base += minute
		both()
	}
	commit := func(n int) {
		for range n {
			at := base - int64(len(sp.commits)+1)*1000
			c := []sample{{`{a="b"}`, at, float64(at) / 3}, {`{a="c"}`, at + 7, 1}}
			f.commit(c...)
			sp.commits = append(sp.commits, c)
		}
	}
	for session := range 3 {
		if session > 0 {
			f.reopen()
		}
		commit(3)
		require.NoError(t, tsdb.Checkpoint(f.db))
	}
	sp.only = len(sp.commits)
	commit(2)
	disk := f.fs.KillClone()
	sp.files, sp.opts = dataFiles(t, disk), *f.opts
	require.Len(t, sp.segments(), 3, slices.Sorted(maps.Keys(sp.files)))
	return sp
}

// segments returns the names of those of the out-of-order log.
func (sp *lateSpecimen) segments() (names []string) {
	for name := range sp.files {
		if strings.HasPrefix(name, "wbl/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// with returns the files with some of them changed; nil removes one.
func (sp *lateSpecimen) with(changed map[string][]byte) map[string][]byte {
	files := maps.Clone(sp.files)
	for name, data := range changed {
		if files[name] = data; data == nil {
			delete(files, name)
		}
	}
	return files
}

// try opens files, twice, and returns the class of what came of it.
func (sp *lateSpecimen) try(files map[string][]byte) (class string, err error) {
	fs, err := diskOf(files)
	if err != nil {
		return "", err
	}
	v, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: fs, Clock: tsdbtest.NewClock(testNow)})
	if err != nil {
		return "", err
	}
	first, lost, err := sp.open(fs)
	if err != nil {
		if wrong := fmt.Errorf("refused: %w", err); v.Clean() || !strings.Contains(err.Error(), "is missing in") {
			return "", wrong
		}
		return "refused", nil
	}
	again, lostThen, err := sp.open(fs)
	clean := first.Clean()
	switch {
	case err != nil:
		return "", fmt.Errorf("second open: %w", err)
	case lost != lostThen || len(again.Damages) > 0:
		return "", fmt.Errorf("second open lost %d commits, the first %d: %+v", lostThen, lost, again.Damages)
	case lost > 0 && clean:
		return "", fmt.Errorf("%d commits are lost, and nobody says so", lost)
	case clean != v.Clean():
		return "", fmt.Errorf("open says %+v, Verify %+v", first.Damages, v.Findings)
	case lost > 0:
		return "told, commits lost", nil
	case clean:
		return harmless, nil
	default:
		return "told, nothing lost", nil
	}
}

// open returns how many commits are not there.
func (sp *lateSpecimen) open(fs *tsdbtest.MemFS) (r tsdb.OpenReport, lost int, err error) {
	o := sp.opts
	o.FS = fs
	db, err := tsdb.Open("data", &o)
	if err != nil {
		return r, 0, err
	}
	defer db.Close()
	got, err := everything(db)
	if err != nil {
		return r, 0, err
	}
	for i, c := range sp.commits {
		there := 0
		for _, s := range c {
			if slices.Contains(got[s.series], points(float64(s.t), s.v)[0]) {
				there++
			}
		}
		switch {
		case there == len(c):
		case there > 0:
			return r, 0, fmt.Errorf("a part of commit %d is there", i)
		case i >= sp.only:
			return r, 0, fmt.Errorf("commit %d is lost, which the log has", i)
		default:
			lost++
		}
	}
	return db.OpenReport(), lost, db.Close()
}

func (sp *lateSpecimen) count(c *census, kind, what string, files map[string][]byte) {
	class, err := sp.try(files)
	if err != nil {
		c.fail("%s: %v", what, err)
		class = "wrong"
	}
	c.add(kind, class)
}

func TestDamage_OfTheOutOfOrderLogIsNeverSilent(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %v", cut), func(t *testing.T) {
			sp := newLateSpecimen(t, cut)
			class, err := sp.try(sp.files)
			require.NoError(t, err)
			require.Equal(t, harmless, class)
			flips, cuts := sweep.Of(t, 1, 41), sweep.Of(t, 1, 7)
			var c census
			for _, name := range sp.segments() {
				data := sp.files[name]
				bits := flips.Below(8 * len(data))
				inParallel(len(bits), func(i int) {
					flipped := bytes.Clone(data)
					flipped[bits[i]/8] ^= 1 << (bits[i] % 8)
					sp.count(&c, "flip in "+name, fmt.Sprintf("bit %d of %s", bits[i], name), sp.with(map[string][]byte{name: flipped}))
				})
				ends := cuts.Below(len(data))
				inParallel(len(ends), func(i int) {
					n := ends[i]
					what := fmt.Sprintf("%s cut to %d bytes", name, n)
					sp.count(&c, "cut of "+name, what, sp.with(map[string][]byte{name: data[:n:n]}))
					zeroed := append(bytes.Clone(data[:n]), make([]byte, len(data)-n)...)
					sp.count(&c, "zeros in "+name, what+", zeros behind", sp.with(map[string][]byte{name: zeroed}))
				})
			}
			c.report(t)
		})
	}
}

func TestDamage_MissingSegmentsOfTheOutOfOrderLogAreTold(t *testing.T) {
	for _, cut := range []bool{false, true} {
		sp := newLateSpecimen(t, cut)
		names := sp.segments()
		for missing := 1; missing < 1<<len(names); missing++ {
			gone := map[string][]byte{}
			for i, name := range names {
				if missing&(1<<i) != 0 {
					gone[name] = nil
				}
			}
			class, err := sp.try(sp.with(gone))
			require.NoError(t, err, "%v", gone)
			if missing == 2 {
				require.Equal(t, "refused", class)
				continue
			}
			require.Equal(t, "told, commits lost", class, "%v", gone)
		}
	}
}

// What a snapshot of the head has no late samples of is in the log before it, as long as that is
// there: then the snapshot is worth nothing.
func TestDamage_OfTheOutOfOrderLogBehindAHeadSnapshotIsMadeGood(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.WAL.Sync = tsdb.SyncCommit()
	})
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	f.commit(sample{`{a="b"}`, base - minute, 2})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="b"}`, base - 2*minute, 3})
	want := f.all()
	disk := f.fs.KillClone()
	files := dataFiles(t, disk)
	name := strings.TrimPrefix(lastOf(t, disk, "data/wbl"), "data/")
	for how, data := range map[string][]byte{"whole": files[name], "removed": nil, "cut": files[name][:len(files[name])/2]} {
		changed := maps.Clone(files)
		if changed[name] = data; data == nil {
			delete(changed, name)
		}
		fs, err := diskOf(changed)
		require.NoError(t, err)
		o := *f.opts
		o.FS = fs
		for range 2 {
			db, err := tsdb.Open("data", &o)
			require.NoError(t, err)
			r := db.OpenReport()
			require.Equal(t, want, dump(t, db, 0, base), "%s: %+v", how, r)
			require.NoError(t, db.Close())
		}
	}
}

// lateSteps does what may change either log, and gives the disk to look at before each operation.
func lateSteps(f *fixture) {
	t, base, n := f.t, testNow.UnixMilli(), int64(0)
	late := func() {
		n++
		f.commit(sample{`{a="b"}`, base - n*minute, float64(n)}, sample{`{a="late"}`, base - n*minute, float64(n)})
	}
	checkpoint := func() { require.NoError(t, tsdb.Checkpoint(f.db)) }
	f.commit(sample{`{a="b"}`, base, 1})
	late()
	checkpoint()
	late()
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	late()
	f.reopen()
	late()
	checkpoint()
	require.NoError(t, f.db.Flush(ctx))
	base += minute
	f.commit(sample{`{a="b"}`, base, 1})
	late()
	checkpoint()
	f.opts.Head.OutOfOrderWindow = 0
	f.reopen()
	f.commit(sample{`{a="b"}`, base + 1, 1})
	checkpoint()
	f.opts.Head.OutOfOrderWindow = time.Hour
	f.reopen()
	late()
	require.NoError(t, f.db.Flush(ctx))
	checkpoint()
}

func TestOpen_OfLateSamplesAfterAnyCrash_TellsOfNoDamage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.WAL.Sync = tsdb.SyncCommit()
	})
	type cut struct {
		disk *tsdbtest.MemFS
		what string
	}
	var cuts []cut
	places, n := sweep.Of(t, 1, 3), 0
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			if n++; places.Has(n) {
				what := fmt.Sprintf("%d, before %s of %s", n, op.Kind, op.Name)
				cuts = append(cuts, cut{f.fs.KillClone(), "kill " + what}, cut{f.fs.CrashClone(tsdbtest.CrashOptions{Seed: uint64(n)}), "crash " + what})
			}
		}
		return nil
	})
	lateSteps(f)
	f.fs.SetHook(nil)
	for _, c := range cuts {
		if _, err := c.disk.Stat("data/wal"); err != nil {
			continue
		}
		v, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: c.disk, Clock: f.clock})
		require.NoError(t, err)
		require.True(t, v.Clean(), "%s: %+v", c.what, v.Findings)
		o := *f.opts
		o.FS = c.disk
		var last map[string][]point
		for i := range 3 {
			db, err := tsdb.Open(fixtureDir, &o)
			require.NoError(t, err, c.what)
			r := db.OpenReport()
			require.True(t, r.Clean(), "%s: %+v", c.what, r)
			got, err := everything(db)
			require.NoError(t, err)
			require.True(t, i == 0 || sameData(last, got), "%s: %v, then %v", c.what, last, got)
			last = got
			if i == 1 {
				require.NoError(t, tsdb.Checkpoint(db))
			}
			require.NoError(t, db.Close())
		}
	}
}

// Who removes the segment that is written has the only late samples of a checkpoint on his
// conscience: none is made.
func TestCheckpoint_WithoutTheOutOfOrderLogIsNotMade(t *testing.T) {
	f := newFixture(t, withWindow)
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	f.commit(sample{`{a="b"}`, base - minute, 2})
	require.NoError(t, f.fs.Remove(lastOf(t, f.fs, "data/wbl")))
	require.ErrorContains(t, tsdb.Checkpoint(f.db), "segment 00000000 is gone from data/wbl")
	require.ErrorContains(t, f.db.Health(), "out-of-order log")
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Health())
	require.NoError(t, tsdb.Checkpoint(f.db))
	f.reopen()
	r := f.db.OpenReport()
	require.True(t, r.Clean(), "%+v", r.Damages)
	require.Equal(t, map[string][]point{`{a="b"}`: points(float64(base-minute), 2, float64(base), 1)}, f.all())
}

// Copies, readers and Repair tell nothing of a log that is whole.
func TestOpen_CopiesOfTheOutOfOrderLogAreWhole(t *testing.T) {
	f := newFixture(t, withWindow)
	look := func() {
		t.Helper()
		r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		report := r.OpenReport()
		require.True(t, report.Clean(), "%+v", report)
	}
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	for i := range int64(3) {
		f.commit(sample{`{a="b"}`, base - minute*(i+1), 2})
		require.NoError(t, tsdb.Checkpoint(f.db))
		look()
		f.commit(sample{`{a="b"}`, base - minute*(i+1) - 1, 2})
		look()
		want := f.all()
		dir := fmt.Sprintf("copy%d", i)
		require.NoError(t, f.db.Snapshot(ctx, dir))
		db, err := tsdb.Open(dir, f.opts)
		require.NoError(t, err)
		r := db.OpenReport()
		require.True(t, r.Clean(), "%+v", r)
		require.Equal(t, want, dump(t, db, 0, base+hour))
		require.NoError(t, db.Close())
		if i == 1 {
			require.NoError(t, f.db.Flush(ctx))
			base += minute
			f.commit(sample{`{a="b"}`, base, 1})
		}
	}
	closeFixture(t, f)
	rep, err := tsdb.Repair(ctx, fixtureDir, &tsdb.RepairOptions{Options: f.opts})
	require.NoError(t, err)
	require.True(t, rep.Clean(), "%+v", rep)
	f.open()
	r := f.db.OpenReport()
	require.True(t, r.Clean())
}

// A segment in the middle that is missing keeps the directory from being opened, until Repair goes
// on without it.
func TestRepair_GoesOnWithoutASegmentOfTheOutOfOrderLog(t *testing.T) {
	sp := newLateSpecimen(t, false)
	name := sp.segments()[1]
	fs, err := diskOf(sp.with(map[string][]byte{name: nil}))
	require.NoError(t, err)
	o := sp.opts
	o.FS = fs
	_, err = tsdb.Open("data", &o)
	require.ErrorIs(t, err, wal.ErrSegments)
	rep, err := tsdb.Repair(ctx, "data", &tsdb.RepairOptions{Options: &o})
	require.NoError(t, err)
	require.Equal(t, []string{name}, rep.Filled)
	require.False(t, rep.Clean())
	r, lost, err := sp.open(fs)
	require.NoError(t, err)
	require.True(t, r.Clean(), "%+v", r)
	require.Equal(t, 3, lost)
}

// Who removes an out-of-order log that had nothing takes nothing away, and is not told of later.
func TestOpen_AnOutOfOrderLogWithoutSamplesIsNotMissed(t *testing.T) {
	f := newFixture(t, withWindow)
	base := testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	require.NoError(t, tsdb.Checkpoint(f.db))
	closeFixture(t, f)
	for _, name := range f.fs.Files() {
		if strings.HasPrefix(name, "data/wbl/") {
			require.NoError(t, f.fs.Remove(name))
		}
	}
	require.NoError(t, f.fs.Remove("data/wbl"))
	for i := range int64(3) {
		f.open()
		r := f.db.OpenReport()
		require.True(t, r.Clean(), "%d: %+v", i, r.Damages)
		require.EqualValues(t, i, r.LateSamples)
		f.commit(sample{`{a="b"}`, base - 1 - i, 1})
		closeFixture(t, f)
		v := verifyLate(t, f)
		require.True(t, v.Clean(), "%+v", v.Findings)
	}
}
