package tsdb_test

import (
	stderrors "errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What a crasher does with blocks. Each of these operations finds something to do, or is
// errIdle: a workload that does nothing would pass every test. Where operations are chosen
// at random that may be.

var errIdle = stderrors.New("nothing to do")

// The hints of blocks that say nothing about the head.
const (
	fromOutOfOrder  = "from-out-of-order"
	fromStaleSeries = "from-stale-series"
)

// flushHead commits into a block range that nothing is in yet, and makes a block of it.
func (c *crasher) flushHead() error {
	c.history.blocks = true
	c.nextRange(1)
	if err := c.commit(); err != nil {
		return err
	}
	before := len(c.db.Blocks())
	if err := c.db.Flush(ctx); err != nil {
		return err
	}
	if len(c.db.Blocks()) <= before {
		return errors.WithMessage(errIdle, "flush")
	}
	c.durable = c.history.len() // blocks do not outrun the log
	return nil
}

// letGo makes a block of all series but the one with the newest sample, and lets go of them.
func (c *crasher) letGo() error {
	c.history.blocks = true
	if err := c.commit(); err != nil {
		return err
	}
	effects := c.effects
	c.effects = effects.withEnded(c.ending())
	c.history.commits = append(c.history.commits, entry{}) // they are deleted from the head, and there as before
	before, commits := len(c.db.Blocks()), c.db.Stats().Log.Commits
	if err := tsdb.LetGo(ctx, c.db, c.now); err != nil {
		return err
	}
	if c.db.Stats().Log.Commits == commits { // none may leave for now
		c.history.commits = c.history.commits[:c.history.len()-1]
		if len(c.db.Blocks()) == before {
			c.effects = effects
		}
		return errors.WithMessage(errIdle, "let go of series that ended")
	}
	if len(c.db.Blocks()) <= before || c.db.Stats().Log.Commits != commits+1 {
		return errors.New("series have left, and there is no block of them, or not one commit")
	}
	c.durable = c.history.len() // nor are they away before the log is
	return nil
}

// keysIn returns which samples a block has.
func (c *crasher) keysIn(b *tsdb.BlockMeta) (map[sampleKey]bool, error) {
	disk := c.disk.KillClone()
	name := b.ULID.String()
	if err := stderrors.Join(disk.MkdirAll("alone"), disk.Rename(fixtureDir+"/"+name, "alone/"+name)); err != nil {
		return nil, err
	}
	r, err := tsdb.OpenReadOnly("alone", &tsdb.Options{FS: disk})
	if err != nil {
		return nil, err
	}
	got, err := readContent(r)
	return keysOfContent(got), stderrors.Join(err, r.Close())
}

// ending are the samples in the head of series that have none at the newest time.
func (c *crasher) ending() (keys []sampleKey) {
	start := c.headStart()
	for ls, ps := range c.history.after(c.history.len(), c.effects).series {
		for _, p := range ps {
			if p.T >= start && ps[len(ps)-1].T < c.now {
				keys = append(keys, sampleKey{ls, p.T})
			}
		}
	}
	return keys
}

// nextRange moves to the begin of a window of so many block ranges.
func (c *crasher) nextRange(n int64) {
	window := n * crashRange.Milliseconds()
	c.now = (c.now/window+1)*window + c.rng.Int64N(1000)
}

// blocks makes as many as are needed for a merge: a window of three, and two behind it.
func (c *crasher) blocks() error {
	c.nextRange(3)
	c.now-- // the next range is the first of a window
	c.now -= c.now % crashRange.Milliseconds()
	c.now--
	for range 5 {
		if err := c.flushHead(); err != nil {
			return err
		}
	}
	return nil
}

// due commits over several block ranges and lets Compact flush those that are over.
func (c *crasher) due() error {
	c.history.blocks = true
	for range 4 {
		if err := c.commit(); err != nil {
			return err
		}
		c.now += crashRange.Milliseconds()
	}
	start := c.headStart()
	if err := c.db.Compact(ctx); err != nil {
		return err
	}
	if c.headStart() <= start || c.db.Stats().MinT > c.db.Stats().MaxT {
		return errors.WithMessage(errIdle, "nothing was due, or everything")
	}
	return nil
}

// merge does what is due with blocks.
func (c *crasher) merge() error {
	before := c.db.Blocks()
	if err := c.db.Compact(ctx); err != nil {
		return err
	}
	if after := c.db.Blocks(); slices.EqualFunc(before, after, func(a, b tsdb.BlockMeta) bool { return a.ULID == b.ULID }) {
		return errors.WithMessagef(errIdle, "%d blocks", len(before))
	}
	return nil
}

// tidy is merge, if anything is due.
func (c *crasher) tidy() error { return c.db.Compact(ctx) }

// clean writes blocks anew of which something is deleted.
func (c *crasher) clean() error {
	deleted := func() bool {
		return slices.ContainsFunc(c.db.Blocks(), func(m tsdb.BlockMeta) bool { return m.Stats.NumTombstones > 0 })
	}
	was := deleted()
	if err := c.db.CleanTombstones(ctx); err != nil {
		return err
	}
	if deleted() {
		return errors.New("something is still deleted in blocks")
	}
	if !was {
		return errIdle
	}
	return nil
}

// headStart returns where the blocks end.
func (c *crasher) headStart() int64 { return headStart(c.db.Blocks()) }

func headStart(blocks []tsdb.BlockMeta) int64 {
	start := int64(math.MinInt64)
	for _, b := range blocks {
		if !b.HasHint(fromOutOfOrder) && !b.HasHint(fromStaleSeries) {
			start = max(start, b.MaxTime)
		}
	}
	return start
}

// erase deletes the samples of a series around the middle of what there is, in blocks and
// in the head.
func (c *crasher) erase() error {
	return c.eraseRange(c.now-3*crashRange.Milliseconds(), c.now-500, "steady")
}

// eraseBeside deletes, and commits, while everything in the head becomes blocks, and while
// blocks are merged.
func (c *crasher) eraseBeside() error {
	c.history.blocks = true
	c.nextRange(1)
	if err := c.commit(); err != nil {
		return err
	}
	// A block gets its name with what was deleted meanwhile, whether the log keeps that or
	// not.
	c.beside = func() error {
		err := c.erase()
		c.maybe = byRange(c.history.commits[c.history.len()-1].gone)
		return stderrors.Join(err, c.commit())
	}
	if err := c.db.Flush(ctx); err != nil {
		return err
	}
	c.effects, c.maybe = c.effects.without(keysOf(c.maybe)), nil
	if c.beside != nil || c.besides != nil {
		return errors.WithMessage(c.besides, "no block was made")
	}
	c.beside = func() error { return stderrors.Join(c.erase(), c.commit()) }
	if err := c.db.Compact(ctx); err != nil {
		return err
	}
	idle := c.beside != nil
	c.beside = nil
	if idle {
		return errIdle
	}
	return c.besides
}

// eraseOld deletes all of the oldest block, so that nothing is left to merge of it.
func (c *crasher) eraseOld() error {
	b := c.db.Blocks()
	if len(b) == 0 {
		return errIdle
	}
	return c.eraseRange(math.MinInt64, b[0].MaxTime-1, "")
}

// eraseAll deletes everything.
func (c *crasher) eraseAll() error { return c.eraseRange(math.MinInt64, math.MaxInt64, "") }

// eraseSome deletes something.
func (c *crasher) eraseSome() error {
	from := c.now - c.rng.Int64N(6*crashRange.Milliseconds())
	name := []string{"steady", "other", "crowd-1", ""}[c.rng.IntN(4)]
	return c.eraseRange(from, from+c.rng.Int64N(2*crashRange.Milliseconds()), name)
}

// eraseRange deletes a closed range of the series of a name, of all if there is none.
func (c *crasher) eraseRange(mint, maxt int64, name string) error {
	groups, gone, err := c.places(mint, maxt, name)
	if err != nil {
		return err
	}
	if len(groups) > 0 {
		c.history.blocks = true
	}
	var ms []*labels.Matcher
	if name != "" {
		ms = append(ms, labels.Equal("__name__", name))
	}
	before := c.db.Stats().Log
	c.maybe = groups
	c.history.commits = append(c.history.commits, entry{gone: gone})
	if err := c.db.Delete(ctx, mint, maxt, ms...); err != nil {
		return err
	}
	c.effects, c.maybe = c.effects.without(keysOf(groups)), nil
	if c.db.Stats().Log.Commits == before.Commits {
		if len(gone) > 0 {
			return errors.Errorf("samples in the head were deleted, and the log says nothing: %v", gone)
		}
		c.history.commits = c.history.commits[:c.history.len()-1]
	} else {
		c.acked(before.Segment)
	}
	return nil
}

// places returns which samples of a closed range are in blocks, one group a block, and
// which are in the head.
func (c *crasher) places(mint, maxt int64, name string) (groups []group, head []sampleKey, err error) {
	blocks := c.db.Blocks()
	start := headStart(blocks)
	ended := map[ulid.ULID]map[sampleKey]bool{}
	for i := range blocks {
		if b := &blocks[i]; b.HasHint(fromStaleSeries) || c.setup.late {
			if ended[b.ULID], err = c.keysIn(b); err != nil {
				return nil, nil, err
			}
			if !b.HasHint(fromStaleSeries) {
				continue
			}
			maps.DeleteFunc(ended[b.ULID], func(k sampleKey, _ bool) bool { // the head has what has not left yet
				return k.t >= start && tsdb.InHead(c.db, k.ls, k.t)
			})
		}
	}
	byPlace := map[string]group{}
	for ls, ps := range c.history.after(c.history.len(), c.effects).series {
		if name != "" && ls.Get("__name__") != name {
			continue
		}
		for _, p := range ps {
			if p.T < mint || p.T > maxt {
				continue
			}
			place := placeOf(blocks, ended, sampleKey{ls, p.T})
			if place == "" && (p.T >= start || c.setup.late) {
				head = append(head, sampleKey{ls, p.T})
			} else {
				byPlace[place] = append(byPlace[place], sampleKey{ls, p.T})
			}
		}
	}
	for _, g := range byPlace {
		groups = append(groups, g)
	}
	return groups, head, nil
}

// placeOf names the block that has a sample. Where several have its time, that of its
// series is one of them. Of blocks of series that ended it is known what they have, of all where
// there are late samples.
func placeOf(blocks []tsdb.BlockMeta, ended map[ulid.ULID]map[sampleKey]bool, k sampleKey) string {
	var in []ulid.ULID
	for _, b := range blocks {
		has := true
		switch keys, known := ended[b.ULID]; {
		case known:
			has = keys[k]
		case b.HasHint(fromOutOfOrder):
			has = strings.HasPrefix(k.ls.Get("__name__"), "old-")
		}
		if has && b.MinTime <= k.t && k.t < b.MaxTime {
			in = append(in, b.ULID)
		}
	}
	switch len(in) {
	case 0:
		return ""
	case 1:
		return in[0].String()
	default:
		return fmt.Sprint(in, k.ls)
	}
}

// retainBlocks opens with retention, so that old blocks go, and then without. Everything is
// in merged blocks before, so that nothing else happens at the same time.
func (c *crasher) retainBlocks() error {
	c.history.blocks = true
	if err := c.db.Flush(ctx); err != nil {
		return err
	}
	if err := c.db.Compact(ctx); err != nil {
		return err
	}
	c.durable = c.history.len()
	c.setup.retain = true
	err := c.reopen()
	if err == nil {
		err = c.removeOld()
	}
	c.setup.retain = false
	return stderrors.Join(err, c.reopen())
}

func (c *crasher) removeOld() error {
	blocks := c.db.Blocks()
	newest := headStart(blocks) - 1
	for _, ps := range c.history.after(c.history.len(), c.effects).series {
		newest = max(newest, ps[len(ps)-1].T)
	}
	var err error
	if c.maybe, err = c.obsolete(blocks, newest-crashRetention.Milliseconds()+1); err != nil {
		return err
	}
	if err := c.db.Compact(ctx); err != nil {
		return err
	}
	idle := len(c.maybe) == 0
	c.effects, c.maybe = c.effects.without(keysOf(c.maybe)), nil
	if idle {
		return errIdle
	}
	return nil
}

// obsolete returns the samples of the blocks that end at a time or before.
func (c *crasher) obsolete(blocks []tsdb.BlockMeta, end int64) (groups []group, err error) {
	for _, b := range blocks {
		if b.MaxTime <= end {
			g, _, err := c.places(b.MinTime, b.MaxTime-1, "")
			if err != nil {
				return nil, err
			}
			groups = append(groups, g...)
		}
	}
	return groups, nil
}

// backfill writes two blocks of series that are not in the log, one of them where other
// blocks are, and has them taken up.
func (c *crasher) backfill() error {
	c.history.blocks = true
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{
		FS: c.disk, Clock: c.clock, Range: crashRange, MaxRange: crashRange,
	})
	if err != nil {
		return err
	}
	defer w.Close()
	c.serial++
	var rows []row
	ls := labels.FromStrings("__name__", fmt.Sprintf("old-%d", c.serial))
	window := crashRange.Milliseconds()
	for _, from := range []int64{-50 * window, (c.headStart() - 1) / window * window} {
		var g group
		for i := range int64(3) {
			r := floatRow(ls, from+i, float64(c.serial))
			rows, g = append(rows, r), append(g, r.key())
			if err := w.Append(ls, r.T, r.sample.V); err != nil {
				return err
			}
		}
		c.maybe = append(c.maybe, g)
	}
	c.effects = c.effects.with(rows)
	if metas, err := w.Flush(ctx); err != nil || len(metas) != 2 {
		return errors.Errorf("%d blocks were written, %v", len(metas), err)
	}
	c.maybe = nil
	if err := w.Close(); err != nil {
		return err
	}
	return c.db.Compact(ctx)
}

// snapshotCopy is a snapshot, and what it has.
type snapshotCopy struct {
	dir     string
	commits int
	effects *effects
	whole   bool // it was acknowledged
}

// snapshot copies the database.
func (c *crasher) snapshot() error {
	c.serial++
	begun := snapshotCopy{dir: fmt.Sprintf("copy-%d", c.serial), commits: c.history.len(), effects: c.effects}
	c.copy = &begun
	if err := c.db.Snapshot(ctx, begun.dir); err != nil {
		return err
	}
	ended := begun
	ended.whole = true
	c.copy = &ended
	return ended.verify(c.disk, c.setup, c.history)
}

// verify opens a snapshot on a copy of the disk: it has everything, or it is not there.
func (s *snapshotCopy) verify(disk *tsdbtest.MemFS, setup crashSetup, h *history) error {
	if s == nil {
		return nil
	}
	if _, err := disk.Stat(s.dir); err != nil {
		if s.whole {
			return errors.WithMessage(err, "a snapshot is gone")
		}
		return nil
	}
	db, err := tsdb.Open(s.dir, setup.options(disk.KillClone(), tsdbtest.NewClock(testNow)))
	if err != nil {
		return errors.WithMessage(err, "open a snapshot")
	}
	rep := db.OpenReport()
	got, err := readContent(db)
	if err == nil {
		err = sameContent(got, h.after(s.commits, s.effects))
	}
	if err == nil {
		err = h.verifyBeside(db, s.commits, s.effects, got)
	}
	if err == nil && !rep.Clean() {
		err = errors.Errorf("%+v", rep)
	}
	return errors.WithMessage(stderrors.Join(err, db.Close()), "snapshot")
}
