package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

// Samples of blocks are 15 seconds apart, and begin where a block of six hours does.
const (
	blockStart = 1_700_006_400_000
	blockStep  = 15_000
	blockRange = 2 * 60 * 60 * 1000
	inputs     = 3 // blocks of blockRange that one merge makes one of
	bystanders = 2 // newer blocks
)

// feedBlock appends samples of all series from a time on. The series are made again: after
// a flush the reference does not know them any more.
func (t task) feedBlock(e engine, v *values, from int64, samples int) error {
	vs := make([]float64, t.Series)
	for k := range samples {
		v.scrape(vs)
		at := from + int64(k)*blockStep
		var err error
		if k == 0 {
			err = e.create(t.sets(), at, vs, perCommit)
		} else {
			err = scrape(e.appendBatch, at, vs, perCommit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flush measures making a block of the head.
func flush(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	if err := t.feedBlock(e, newValues(t.Series, seed), blockStart, t.Samples); err != nil {
		return nil, err
	}
	heap := watchHeap()
	before := now()
	err = e.flush()
	cost := now().since(before)
	peak := heap.stop()
	if err != nil {
		return nil, err
	}
	blocks, size, err := t.blocks()
	if err != nil {
		return nil, err
	}
	if len(blocks) != 1 {
		return nil, errors.Errorf("%d blocks were made, want 1", len(blocks))
	}
	return measures{
		"flush/cpu":     cost.cpu.Seconds(),
		"flush/wall":    cost.wall.Seconds(),
		"flush/garbage": float64(cost.allocBytes),
		"flush/heap":    peak,
		"flush/size":    float64(size) / float64(t.Series*t.Samples),
	}, nil
}

// fillBlocks writes a directory with one block and nothing else.
func fillBlocks(t task) (measures, error) {
	return nil, t.fillRanges([]int{t.Samples})
}

// fillMerge writes a directory with the blocks of a merge and newer ones that take no
// part: the newest block is never merged, and the one before says that a range is over.
// One of them has a quarter of the samples, the other one a scrape.
func fillMerge(t task) (measures, error) {
	ranges := []int{}
	for range inputs {
		ranges = append(ranges, t.Samples)
	}
	return nil, t.fillRanges(append(ranges, (t.Samples+3)/4, 1))
}

// fillRanges makes a block of each range, with so many samples of each series, and then
// takes log and head chunks away.
func (t task) fillRanges(samples []int) error {
	if err := t.writeRanges(samples); err != nil {
		return err
	}
	for _, name := range []string{"wal", "chunks_head"} {
		if err := os.RemoveAll(filepath.Join(t.Dir, name)); err != nil {
			return errors.Wrap(err, "remove head")
		}
	}
	return nil
}

func (t task) writeRanges(samples []int) (err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	v := newValues(t.Series, seed)
	for i, n := range samples {
		if err := t.feedBlock(e, v, blockStart+int64(i)*blockRange, n); err != nil {
			return err
		}
		if err := e.flush(); err != nil {
			return err
		}
	}
	if t.Engine == Victoria && len(samples) == 1 {
		return e.merge() // one part is what others have as one block
	}
	return nil
}

// readBlocks measures queries of one block, and what is on disk.
func readBlocks(t task) (measures, error) {
	_, size, err := t.blocks()
	if err != nil {
		return nil, err
	}
	if t.Engine == Victoria {
		if size, err = t.victoriaSize(); err != nil {
			return nil, err
		}
	}
	m, err := selects(t, blockSelections(t.Series, t.Samples))
	if err != nil {
		return nil, err
	}
	m["blocks/disk"] = float64(size) / float64(t.Series*t.Samples)
	return m, nil
}

// victoriaSize is everything but its caches.
func (t task) victoriaSize() (int64, error) {
	all, err := sizeOf(t.Dir)
	if err != nil {
		return 0, err
	}
	cache := filepath.Join(t.Dir, "cache")
	if _, err := os.Stat(cache); err != nil {
		return all, nil
	}
	caches, err := sizeOf(cache)
	return all - caches, err
}

// blocks returns the directories of the blocks and the bytes in them.
func (t task) blocks() (dirs []string, size int64, err error) {
	dirs, err = filepath.Glob(filepath.Join(t.Dir, "*", "meta.json"))
	if err != nil {
		return nil, 0, errors.Wrap(err, "list blocks")
	}
	for i, name := range dirs {
		dirs[i] = filepath.Dir(name)
		n, err := sizeOf(dirs[i])
		if err != nil {
			return nil, 0, err
		}
		size += n
	}
	return dirs, size, nil
}

// openIndex measures opening the index of a block, again and again.
func openIndex(t task) (measures, error) {
	dirs, _, err := t.blocks()
	if err != nil {
		return nil, err
	}
	if len(dirs) != 1 {
		return nil, errors.Errorf("there are %d blocks, want 1", len(dirs))
	}
	name := filepath.Join(dirs[0], "index")
	before := heapBytes()
	closeIndex, err := indexes[t.Engine](name)
	if err != nil {
		return nil, err
	}
	heap := heapBytes() - before
	n := 0
	start := now()
	for err = closeIndex(); err == nil && (n < 3 || time.Since(start.at) < t.Time); n++ {
		if closeIndex, err = indexes[t.Engine](name); err == nil {
			err = closeIndex()
		}
	}
	cost := now().since(start)
	return measures{
		"index/wall": cost.wall.Seconds() / float64(n),
		"index/heap": max(0, heap),
	}, err
}

// mergeBlocks measures merging blocks, and what that does to the page cache, which has
// all of them when it begins.
func mergeBlocks(t task) (m measures, err error) {
	if t.Engine == Victoria {
		return t.mergeParts()
	}
	dirs, _, err := t.blocks()
	if err != nil {
		return nil, err
	}
	if len(dirs) != inputs+bystanders {
		return nil, errors.Errorf("there are %d blocks, want %d", len(dirs), inputs+bystanders)
	}
	cached, err := cacheFiles(dirs)
	if err != nil {
		return nil, err
	}
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	cost, peak, err := watchMerge(e)
	if err != nil {
		return nil, err
	}
	hot, err := cached.resident()
	if err != nil {
		return nil, err
	}
	result, written, err := t.merged(dirs)
	if err != nil {
		return nil, err
	}
	samples := float64(inputs * t.Series * t.Samples)
	m = measures{
		"merge/cpu":     cost.cpu.Seconds(),
		"merge/wall":    cost.wall.Seconds(),
		"merge/heap":    peak,
		"merge/allocs":  float64(cost.allocs) / samples,
		"merge/garbage": float64(cost.allocBytes),
		"merge/size":    float64(written) / samples,
		"merge/rate":    float64(written) / cost.wall.Seconds(),
		"merge/hot":     hot / max(1, cached.bytes()),
	}
	left, err := mapFiles(result)
	if err != nil {
		return nil, err
	}
	is, err := left.resident()
	m["merge/cached"] = is / max(1, left.bytes())
	return m, err
}

// watchMerge merges all that there is, and returns what it took and the most heap.
func watchMerge(e engine) (cost spent, peak float64, err error) {
	heap := watchHeap()
	before := now()
	err = e.merge()
	cost = now().since(before)
	return cost, heap.stop(), err
}

// mergeParts measures making one part of all that VictoriaMetrics has, which has no part
// that stays out of it.
func (t task) mergeParts() (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	cost, peak, err := watchMerge(e)
	if err != nil {
		return nil, err
	}
	size, err := t.victoriaSize()
	samples := float64(t.Series * (inputs*t.Samples + (t.Samples+3)/4 + 1))
	return measures{
		"merge/cpu":     cost.cpu.Seconds(),
		"merge/wall":    cost.wall.Seconds(),
		"merge/heap":    peak,
		"merge/allocs":  float64(cost.allocs) / samples,
		"merge/garbage": float64(cost.allocBytes),
		"merge/size":    float64(size) / samples,
	}, err
}

// merged returns the one block that is not among those of before, and its bytes. The
// others are there, or were merged.
func (t task) merged(before []string) (dir []string, size int64, err error) {
	after, _, err := t.blocks()
	if err != nil {
		return nil, 0, err
	}
	known := map[string]bool{}
	for _, dir := range before {
		known[dir] = true
	}
	for _, d := range after {
		if !known[d] {
			dir = append(dir, d)
		}
	}
	if len(after) != 1+bystanders || len(dir) != 1 {
		return nil, 0, errors.Errorf("%d blocks were left by the merge, %d of them new; want %d and 1", len(after), len(dir), 1+bystanders)
	}
	size, err = sizeOf(dir[0])
	return dir, size, err
}

// backfill measures making blocks of history.
func backfill(t task) (measures, error) {
	b, err := backfillers[t.Engine](t.Dir)
	if err != nil {
		return nil, err
	}
	sets, v, vs := t.sets(), newValues(t.Series, seed), make([]float64, t.Series)
	heap := watchHeap()
	before := now()
	for k := range t.Samples {
		v.scrape(vs)
		if err := b.scrape(sets, blockStart+int64(k)*blockStep, vs); err != nil {
			return nil, err
		}
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	cost := now().since(before)
	peak := heap.stop()
	dirs, size, err := t.blocks()
	if err != nil {
		return nil, err
	}
	samples := float64(t.Series * t.Samples)
	return measures{
		"backfill/cpu":    samples / cost.cpu.Seconds(),
		"backfill/wall":   samples / cost.wall.Seconds(),
		"backfill/heap":   peak,
		"backfill/size":   float64(size) / samples,
		"backfill/blocks": float64(len(dirs)), // not a row
	}, t.checkBackfill()
}

// checkBackfill reads every hundredth series: it must be whole.
func (t task) checkBackfill() (err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	for i := 0; i < t.Series; i += max(1, t.Series/100) {
		res, err := e.read(always(readSamples, matcher{"=", "shard", pairs(i)[shardName+1]}))
		if err != nil {
			return err
		}
		if res.series != 1 || res.samples != t.Samples {
			return errors.Errorf("%d series with %d samples are there of series %d, want 1 with %d", res.series, res.samples, i, t.Samples)
		}
	}
	return nil
}

// linkTree makes a directory that has the same files as another one: blocks are never
// changed in place, and a copy would be read from, and written to, the disk.
func linkTree(dst, src string) error {
	return errors.Wrap(filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dst, name), 0o777)
		}
		return os.Link(path, filepath.Join(dst, name))
	}), "link data")
}
