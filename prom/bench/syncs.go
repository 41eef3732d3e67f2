package bench

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// The rows about commits that are on stable storage when they return, which only this
// library has.
const (
	syncedSamples = 10 // in a commit
	syncRounds    = 7  // in turns, as disks have moods
)

// syncWriters is how many goroutines commit at once.
var syncWriters = []int{1, 8, 64}

// syncs measures commits of several writers, all numbers of them in turns.
func syncs(t task) (measures, error) {
	rates, times := map[int][]float64{}, map[int][]float64{}
	for round := range syncRounds {
		for _, writers := range syncWriters {
			rate, err := t.syncsOf(writers, round)
			if err != nil {
				return nil, err
			}
			rates[writers] = append(rates[writers], rate)
			times[writers] = append(times[writers], rate/rates[1][round])
		}
	}
	m := measures{}
	for _, writers := range syncWriters {
		m["sync/"+strconv.Itoa(writers)] = median(rates[writers])
		m["sync/"+strconv.Itoa(writers)+"x"] = median(times[writers])
	}
	return m, nil
}

// syncsOf returns the commits of so many writers in a second.
func (t task) syncsOf(writers, round int) (rate float64, err error) {
	e, err := openOursSyncing(filepath.Join(t.Dir, strconv.Itoa(round), strconv.Itoa(writers)), true, tsdb.SyncCommit())
	if err != nil {
		return 0, err
	}
	defer closing(e, &err)
	db := e.(*ours).db
	var done sync.WaitGroup
	var commits atomic.Int64
	failed := make(chan error, writers)
	begin := time.Now()
	until := begin.Add(t.Time)
	for w := range writers {
		done.Go(func() {
			n, err := commitUntil(db, w, until)
			commits.Add(int64(n))
			if err != nil {
				failed <- err
			}
		})
	}
	done.Wait()
	took := time.Since(begin)
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(commits.Load()) / took.Seconds(), nil
	}
}

// commitUntil commits samples of series of its own, at least once.
func commitUntil(db *tsdb.DB, writer int, until time.Time) (n int, err error) {
	var refs [syncedSamples]tsdb.SeriesRef
	for n == 0 || time.Now().Before(until) {
		app := db.Appender()
		for i := range refs {
			var ls labels.Labels
			if refs[i] == 0 {
				ls = labels.FromStrings(pairs(writer*syncedSamples + i)...)
			}
			if refs[i], err = app.Append(refs[i], ls, startMillis+int64(n), float64(n)); err != nil {
				return n, err
			}
		}
		res, err := app.Commit(context.Background())
		if err != nil {
			return n, err
		}
		if res.Samples != syncedSamples {
			return n, errors.Errorf("%d of %d samples were committed", res.Samples, syncedSamples)
		}
		n++
	}
	return n, nil
}
