package tsdb_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// History of any age becomes blocks; the database reads them as any others.
func ExampleBlockWriter() {
	dir, err := os.MkdirTemp("", "tsdb")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	w, err := tsdb.NewBlockWriter(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close() // without Flush nothing is kept
	ls := labels.FromStrings("__name__", "sunspots", "observatory", "Zurich")
	for year := range 100 {
		at := time.Date(1850+year, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := w.Append(ls, at.UnixMilli(), float64(year%11)); err != nil {
			log.Fatal(err)
		}
	}
	blocks, err := w.Flush(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(blocks), "blocks")

	db, err := tsdb.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	set := q.Select(context.Background(), nil, labels.Equal("__name__", "sunspots"))
	for set.Next() {
		n := 0
		for it := set.At().Iterator(nil); it.Next() != 0; n++ {
		}
		fmt.Println(set.At().Labels(), n, "samples")
	}
	// Output:
	// 100 blocks
	// {__name__="sunspots", observatory="Zurich"} 100 samples
}
