package bench

import (
	"flag"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/logger"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/prompb"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/storage"
	"github.com/pkg/errors"
)

// victoria is a storage of VictoriaMetrics, which has no log: what is a few seconds old
// is on disk, what is newer is lost in a crash. Its values are rounded to about 15 digits.
type victoria struct {
	s       *storage.Storage
	names   [][]byte // of series, in the form in which rows want them
	rows    []storage.MetricRow
	block   storage.Block
	ts      []int64
	vs      []float64
	minTime int64
	maxTime int64
}

const (
	// victoriaRetention keeps the samples of these benchmarks, which are some years old.
	victoriaRetention = 50 * 365 * 24 * time.Hour
	// exact is the number of bits of a value that are kept.
	exact = 64
	// victoriaSeries is the most that a query may find.
	victoriaSeries = 10_000_000
	// victoriaMargin is how far a query reaches beyond the samples of these benchmarks: more
	// than forty days in all would be another index.
	victoriaMargin = 5 * 24 * 60 * 60 * 1000
)

// victoriaSetup is done once in a process: the storage reads flags, and writes what it
// thinks to the standard error.
var victoriaSetup = sync.OnceFunc(func() {
	if !flag.Parsed() {
		_ = flag.CommandLine.Parse(nil) // no arguments, no error
	}
	logger.SetOutputForTests(io.Discard)
})

// openVictoria takes the default options, but for what must be said: how long to keep data.
func openVictoria(dir string) (engine, error) {
	victoriaSetup()
	s := storage.MustOpenStorage(dir, storage.OpenOptions{Retention: victoriaRetention})
	return &victoria{s: s, minTime: startMillis - victoriaMargin, maxTime: startMillis + victoriaMargin}, nil
}

// append is one call: there are no commits.
func (v *victoria) append(from, to int, t int64, vs []float64) error {
	v.rows = v.rows[:0]
	for i := from; i < to; i++ {
		v.rows = append(v.rows, storage.MetricRow{MetricNameRaw: v.names[i], Timestamp: t, Value: vs[i]})
	}
	v.s.AddRows(v.rows, exact)
	return nil
}

// appendBatch is the same: every call is one for many samples.
func (v *victoria) appendBatch(from, to int, t int64, vs []float64) error {
	return v.append(from, to, t, vs)
}

// create has the names made before, as a server would for each request.
func (v *victoria) create(sets [][]string, t int64, vs []float64, perCommit int) error {
	v.names = make([][]byte, len(sets))
	for from := 0; from < len(sets); from += perCommit {
		to := min(from+perCommit, len(sets))
		for i := from; i < to; i++ {
			v.names[i] = rawName(sets[i])
		}
		if err := v.append(from, to, t, vs); err != nil {
			return err
		}
	}
	return nil
}

// rawName encodes the labels of a series.
func rawName(set []string) []byte {
	ls := make([]prompb.Label, 0, len(set)/2)
	for k := 0; k < len(set); k += 2 {
		ls = append(ls, prompb.Label{Name: set[k], Value: set[k+1]})
	}
	return storage.MarshalMetricNameRaw(nil, ls)
}

func (v *victoria) renew(which []int, sets [][]string, t int64, vs []float64) error {
	v.rows = v.rows[:0]
	for _, i := range which {
		v.names[i] = rawName(sets[i])
		v.rows = append(v.rows, storage.MetricRow{MetricNameRaw: v.names[i], Timestamp: t - firstBefore, Value: vs[i]})
	}
	v.s.AddRows(v.rows, exact)
	return nil
}

func (v *victoria) history(t, step int64, vs []float64) error {
	v.rows = v.rows[:0]
	for i, x := range vs {
		v.rows = append(v.rows, storage.MetricRow{MetricNameRaw: v.names[0], Timestamp: t + int64(i)*step, Value: x})
	}
	v.s.AddRows(v.rows, exact)
	return nil
}

// read takes the blocks of a series as they come: bringing them in order of time, as a
// server must, is not part of the storage.
func (v *victoria) read(want query) (res result, err error) {
	filters, err := v.filters(want.matchers)
	if err != nil {
		return res, err
	}
	times := storage.TimeRange{MinTimestamp: max(want.mint, v.minTime), MaxTimestamp: min(want.maxt, v.maxTime)}
	if !want.how.samples() {
		return v.readNames(filters, times)
	}
	var search storage.Search
	defer search.MustClose()
	search.Init(nil, v.s, filters, times, victoriaSeries, math.MaxUint64)
	var last []byte
	for search.NextMetricBlock() {
		// The blocks of a series come one after the other.
		if ref := &search.MetricBlockRef; res.series == 0 || string(ref.MetricName) != string(last) {
			res.series++
			last = append(last[:0], ref.MetricName...)
		}
		search.MetricBlockRef.BlockRef.MustReadBlock(&v.block)
		if err := v.block.UnmarshalData(); err != nil {
			return res, errors.Wrap(err, "read block")
		}
		v.ts, v.vs = v.block.AppendRowsWithTimeRangeFilter(v.ts[:0], v.vs[:0], times)
		res.samples += len(v.vs)
		for _, x := range v.vs {
			res.sum += math.Float64bits(x)
		}
	}
	return res, errors.Wrap(search.Error(), "search")
}

// readNames reads the labels of series.
func (v *victoria) readNames(filters []*storage.TagFilters, times storage.TimeRange) (res result, err error) {
	names, err := v.s.SearchMetricNames(nil, filters, times, victoriaSeries, math.MaxUint64)
	if err != nil {
		return res, errors.Wrap(err, "search names")
	}
	var name storage.MetricName
	for _, text := range names {
		if err := name.UnmarshalString(text); err != nil {
			return res, errors.Wrap(err, "decode name")
		}
		res.series++
		res.sum += uint64(len(name.Tags) + 1) // and the name of the metric
	}
	return res, nil
}

func (v *victoria) filters(ms []matcher) ([]*storage.TagFilters, error) {
	if len(ms) == 0 { // it wants one
		ms = []matcher{{"!=", "__name__", ""}}
	}
	filters := storage.NewTagFilters()
	for _, m := range ms {
		var key []byte // that of the metric's name is empty
		if m.name != "__name__" {
			key = []byte(m.name)
		}
		if err := filters.Add(key, []byte(m.value), m.op[0] == '!', m.op[1:] == "~"); err != nil {
			return nil, errors.Wrap(err, "matcher")
		}
	}
	return []*storage.TagFilters{filters}, nil
}

func (v *victoria) recovered() recovered { return recovered{-1, -1} }

// settle brings to disk what is in memory only: a snapshot does. Left alone it takes some
// seconds.
func (v *victoria) settle() error {
	return errors.Wrap(v.s.DeleteSnapshot(v.s.MustCreateSnapshot()), "delete snapshot")
}

// flush makes what was added visible. What is in memory only goes to disk by itself.
func (v *victoria) flush() error {
	v.s.DebugFlush()
	return nil
}

// merge makes one part of all.
func (v *victoria) merge() error {
	return errors.Wrap(v.s.ForceMergePartitions(""), "merge")
}

// readHandler is part of the server, not of the storage.
func (v *victoria) readHandler() http.Handler { return http.NotFoundHandler() }

func (v *victoria) close() error {
	v.s.MustClose()
	return nil
}
