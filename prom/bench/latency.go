package bench

import (
	"slices"
	"sync/atomic"
	"time"
)

// The rows about latency: samples are three minutes apart, so that a block has not more to do
// with samples than with series, and the engine is offered a million of them a second.
const (
	busyPoints  = 40 // samples of a series in two hours
	busyRanges  = 5  // of two hours: four flushes are due meanwhile, and a merge
	busyRate    = 1_000_000
	latencyRuns = 5
)

// latency measures how long commits take while the head is flushed and blocks are merged.
// A commit is begun when its time has come, or at once if the one before took longer.
func latency(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	v, vs := newValues(t.Series, seed), make([]float64, t.Series)
	v.scrape(vs)
	if err := e.create(t.sets(), blockStart, vs, perCommit); err != nil {
		return nil, err
	}
	work := startMaintenance(t.Engine, e)
	before := nowCollected()
	busy, all, err := t.offer(e, work, v)
	cost := now().since(before)
	if stopErr := work.stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return nil, err
	}
	took := busy
	if len(took) == 0 { // there was too little to do
		took = all
	}
	slices.Sort(took)
	m = measures{
		"latency/p50":  took[len(took)/2].Seconds(),
		"latency/p999": took[len(took)*999/1000].Seconds(),
		"latency/max":  took[len(took)-1].Seconds(),
	}
	cost.noteGC(m, "latency/gc")
	return m, nil
}

// offer appends all scrapes at a steady rate, and returns how long commits took: those that
// were not alone, and all.
func (t task) offer(e engine, work *maintenance, v *values) (busy, all []time.Duration, err error) {
	points := t.Samples / busyRanges
	step := int64(blockRange / points)
	vs := make([]float64, t.Series)
	begin, sent := time.Now(), 0
	for k := 1; k < t.Samples; k++ {
		v.scrape(vs)
		if k%points == points/2+1 { // the head is more than one and a half of a block's range long
			work.due()
		}
		for from := 0; from < t.Series; from += perCommit {
			to := min(from+perCommit, t.Series)
			time.Sleep(time.Until(begin.Add(time.Duration(sent) * time.Second / busyRate)))
			start := time.Now()
			if err := e.appendBatch(from, to, blockStart+int64(k)*step, vs); err != nil {
				return nil, nil, err
			}
			took := time.Since(start)
			if all = append(all, took); work.busy.Load() {
				busy = append(busy, took)
			}
			sent += to - from
		}
	}
	return busy, all, nil
}

// maintenance flushes and merges beside a writer.
type maintenance struct {
	busy    atomic.Bool // something is being done
	orders  chan struct{}
	outcome chan error
}

// startMaintenance does what is due when it is told to. An engine that does it by itself,
// and cannot be asked, is taken to be busy all the time.
func startMaintenance(name string, e engine) *maintenance {
	w := &maintenance{orders: make(chan struct{}, 1), outcome: make(chan error, 1)}
	w.busy.Store(name == Victoria)
	go func() {
		var err error
		for range w.orders {
			w.busy.Store(true)
			if name != Victoria && err == nil {
				err = e.merge()
			}
			w.busy.Store(name == Victoria)
		}
		w.outcome <- err
	}()
	return w
}

// due says that there may be something to do. It does not wait.
func (w *maintenance) due() {
	select {
	case w.orders <- struct{}{}:
	default:
	}
}

// stop waits for what is being done.
func (w *maintenance) stop() error {
	close(w.orders)
	return <-w.outcome
}
