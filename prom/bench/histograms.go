package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// The rows about native histograms: for some numbers of buckets one series of work, from appends
// to a merge, in one process. Both engines get the same ones.

// histogramBuckets are how many buckets a histogram has.
var histogramBuckets = []int{5, 20, 160}

func histogramRow(buckets int) string { return "histograms" + strconv.Itoa(buckets) }

// histogramSeries is the size of a group that has so many times fewer series than others.
func (c *Config) histogramSeries(fewer int) (series, samples int) {
	return (c.Series + fewer - 1) / fewer, c.Points
}

// histogramEngine is an engine that takes histograms.
type histogramEngine interface {
	engine
	// prepare makes what the following appends take of some scrapes: a histogram of each series.
	prepare(scrapes [][]observed)
	// createHistograms appends the scrape k by labels, perCommit of them in a commit, and keeps
	// the refs.
	createHistograms(k int, sets [][]string, t int64, perCommit int) error
	// appendHistograms appends the series from from to to-1 of the scrape k by ref, in one commit.
	appendHistograms(k, from, to int, t int64) error
	// readHistograms reads every histogram that there is.
	readHistograms() (result, error)
}

// histogramWork is the work of one engine with histograms of so many buckets.
type histogramWork struct {
	task
	buckets int
	row     string
	m       measures
	source  *observations
	dropped bool // the series are not known any more
}

// histograms does all that there is to measure of histograms.
func histograms(t task, buckets int) (measures, error) {
	w := &histogramWork{task: t, buckets: buckets, row: histogramRow(buckets), m: measures{}, source: newObservations(t.Series, buckets)}
	for _, part := range []func() error{w.append, w.onlyLog, w.recover, w.merge} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	return w.m, nil
}

// open opens the database of the task. It does nothing by itself.
func (w *histogramWork) open() (histogramEngine, error) {
	e, err := open(w.Engine, w.Dir)
	if err != nil {
		return nil, err
	}
	if taker, ok := e.(histogramEngine); ok {
		return taker, nil
	}
	err = errors.Errorf("%s takes no histograms", w.Engine)
	closing(e, &err)
	return nil, err
}

// piece is how many scrapes are made at a time, so that their memory has a bound.
const piece = 60

// feed appends scrapes from one to another of the range that begins at a time. What is done before
// and after each piece is for measuring it.
func (w *histogramWork) feed(e histogramEngine, start int64, from, to int, before, after func()) error {
	for at := from; at < to; at += piece {
		n := min(piece, to-at)
		e.prepare(w.source.scrapes(n))
		before()
		for k := range n {
			if err := w.scrape(e, k, start+int64(at+k)*blockStep); err != nil {
				return err
			}
		}
		after()
	}
	return nil
}

func (w *histogramWork) scrape(e histogramEngine, k int, t int64) error {
	if w.dropped {
		w.dropped = false
		return e.createHistograms(k, w.sets(), t, perCommit)
	}
	for from := 0; from < w.Series; from += perCommit {
		if err := e.appendHistograms(k, from, min(from+perCommit, w.Series), t); err != nil {
			return err
		}
	}
	return nil
}

func nothing() {}

// append measures the second half of a range, when there are full chunks.
func (w *histogramWork) append() (err error) {
	e, err := w.open()
	if err != nil {
		return err
	}
	defer closing(e, &err)
	w.dropped = true
	half := w.Samples / 2
	if err := w.feed(e, blockStart, 0, half, nothing, nothing); err != nil {
		return err
	}
	var begun usage
	var cpu time.Duration
	var garbage uint64
	err = w.feed(e, blockStart, half, w.Samples, func() { begun = nowCollected() }, func() {
		cost := now().since(begun)
		cpu += cost.cpu
		garbage += cost.allocBytes
	})
	samples := float64(w.Series * (w.Samples - half))
	w.m[w.row+"/append"] = samples / cpu.Seconds()
	w.m[w.row+"/garbage"] = float64(garbage) / samples
	e.prepare(nil)
	return err
}

// recover measures reading the log, the head that it makes, and a block of that.
func (w *histogramWork) recover() (err error) {
	idle := heapBytes()
	before := now()
	e, err := w.open()
	if err != nil {
		return err
	}
	defer closing(e, &err)
	cost := now().since(before)
	w.m[w.row+"/replay"] = cost.cpu.Seconds()
	w.m[w.row+"/wall"] = cost.wall.Seconds()
	w.m[w.row+"/heap"] = max(0, heapBytes()-idle) / float64(w.Series)
	if err := w.read(e, w.row+"/head"); err != nil {
		return err
	}
	if err := w.flush(e); err != nil {
		return err
	}
	if err := w.chunkBytes(); err != nil {
		return err
	}
	if err := w.read(e, w.row+"/block"); err != nil {
		return err
	}
	return w.fillOther(e)
}

// fillOther makes the other blocks of a merge, and newer ones that take no part in it.
func (w *histogramWork) fillOther(e histogramEngine) error {
	for i, n := range []int{w.Samples, w.Samples, (w.Samples + 3) / 4, 1} {
		w.dropped = true
		if err := w.feed(e, blockStart+int64(i+1)*blockRange, 0, n, nothing, nothing); err != nil {
			return err
		}
		if err := w.flush(e); err != nil {
			return err
		}
	}
	e.prepare(nil)
	return nil
}

// flush makes a block. What all of them take counts: what a flush does to the log is not the same
// each time.
func (w *histogramWork) flush(e histogramEngine) error {
	before := now()
	err := e.flush()
	w.m[w.row+"/flush"] += now().since(before).cpu.Seconds()
	return err
}

// chunkBytes notes how large the chunks of the only block are.
func (w *histogramWork) chunkBytes() error {
	dirs, _, err := w.blocks()
	if err != nil {
		return err
	}
	if len(dirs) != 1 {
		return errors.Errorf("%d blocks were made, want 1", len(dirs))
	}
	files, err := os.ReadDir(filepath.Join(dirs[0], "chunks"))
	if err != nil {
		return errors.Wrap(err, "list chunks")
	}
	size, err := sizeOf(filepath.Join(dirs[0], "chunks"))
	const header = 8 // of each file
	w.m[w.row+"/chunks"] = float64(size-int64(header*len(files))) / float64(w.Series*w.Samples)
	return err
}

// read measures reading everything, again and again.
func (w *histogramWork) read(e histogramEngine, row string) error {
	n := 0
	before := now()
	for n == 0 || time.Since(before.at) < w.Time {
		res, err := e.readHistograms()
		if err != nil {
			return err
		}
		if res.series != w.Series || res.samples != w.Series*w.Samples {
			return errors.Errorf("%d series with %d histograms were read, want %d with %d", res.series, res.samples, w.Series, w.Series*w.Samples)
		}
		res.note(w.m, row)
		n += res.samples
	}
	w.m[row] = float64(n) / now().since(before).cpu.Seconds()
	return nil
}

// merge measures making one block of three.
func (w *histogramWork) merge() (err error) {
	dirs, _, err := w.blocks()
	if err != nil {
		return err
	}
	if len(dirs) != inputs+bystanders {
		return errors.Errorf("there are %d blocks, want %d", len(dirs), inputs+bystanders)
	}
	e, err := w.open()
	if err != nil {
		return err
	}
	defer closing(e, &err)
	cost, peak, err := watchMerge(e)
	if err != nil {
		return err
	}
	w.m[w.row+"/merge"] = cost.cpu.Seconds()
	w.m[w.row+"/mergeheap"] = peak
	_, _, err = w.merged(dirs)
	return err
}

// histogramFigures are the rows about native histograms.
func (c *comparison) histogramFigures() (all []figure) {
	for _, buckets := range histogramBuckets {
		row := histogramRow(buckets)
		t := c.task(row)
		all = append(all, section(fmt.Sprintf("native histograms of %d buckets, %s", buckets, sizes(t.Series, t.Samples)),
			more(row+"/append", "samples/CPU s").than(2), less(row+"/garbage", "garbage B/sample"),
			less(row+"/replay", "CPU s to recover from the log").than(2), less(row+"/wall", "s to recover from the log").than(2),
			less(row+"/heap", "heap B/series after that").than(1/0.6), more(row+"/head", "samples/CPU s read in the head").than(1.5),
			less(row+"/flush", "CPU s of five flushes").than(1/0.6), less(row+"/chunks", "chunk B/sample").than(1),
			more(row+"/block", "samples/CPU s read in a block").than(1.5),
			less(row+"/merge", "CPU s to merge three blocks").than(1/0.6), less(row+"/mergeheap", "peak heap B of that"))...)
	}
	return all
}
