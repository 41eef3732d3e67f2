// Command victoriametrics is the least that a program does with the storage of
// VictoriaMetrics: it appends a sample and reads it back. Its size is a row of the
// comparison.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/prompb"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/storage"
)

func main() {
	flag.Parse()
	if err := run(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	s := storage.MustOpenStorage(dir, storage.OpenOptions{})
	defer s.MustClose()
	now := time.Now().UnixMilli()
	name := storage.MarshalMetricNameRaw(nil, []prompb.Label{{Name: "__name__", Value: "up"}})
	s.AddRows([]storage.MetricRow{{MetricNameRaw: name, Timestamp: now, Value: 1}}, 64)
	s.DebugFlush()
	filters := storage.NewTagFilters()
	if err := filters.Add(nil, []byte("up"), false, false); err != nil {
		return err
	}
	times := storage.TimeRange{MinTimestamp: now, MaxTimestamp: now}
	var search storage.Search
	defer search.MustClose()
	search.Init(nil, s, []*storage.TagFilters{filters}, times, 10, math.MaxUint64)
	for search.NextMetricBlock() {
		var block storage.Block
		search.MetricBlockRef.BlockRef.MustReadBlock(&block)
		if err := block.UnmarshalData(); err != nil {
			return err
		}
		fmt.Println(block.AppendRowsWithTimeRangeFilter(nil, nil, times))
	}
	return search.Error()
}
