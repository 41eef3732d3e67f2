package tsdb_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// The program of the README.
func Example() {
	dir, err := os.MkdirTemp("", "tsdb")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := tsdb.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	app := db.Appender()
	for i := range 3 {
		room := labels.FromStrings("__name__", "temperature_celsius", "room", "kitchen")
		if _, err := app.Append(0, room, int64(i)*1000, 20+float64(i)/2); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := app.Commit(context.Background()); err != nil {
		log.Fatal(err)
	}

	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	for s, err := range q.Select(context.Background(), nil, labels.Equal("room", "kitchen")).All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Labels())
		for it := s.Iterator(nil); it.Next() != chunkenc.ValNone; {
			fmt.Println(it.At())
		}
	}
	// Output:
	// {__name__="temperature_celsius", room="kitchen"}
	// 0 20
	// 1000 20.5
	// 2000 21
}

// A scrape is one time for many series. After the first one their refs are known, and
// AppendBatch takes refs and values as they are.
func ExampleAppender_AppendBatch() {
	dir, err := os.MkdirTemp("", "tsdb")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := tsdb.Open(filepath.Join(dir, "data"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	app := db.Appender()
	refs := make([]tsdb.SeriesRef, 3)
	for i := range refs {
		refs[i], err = app.Append(0, labels.FromStrings("cpu", fmt.Sprint(i)), 1000, 0)
		if err != nil {
			log.Fatal(err)
		}
	}
	rejected, err := app.AppendBatch(2000, refs, []float64{0.5, 0.25, 1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := app.Commit(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Samples, "samples,", len(rejected)+len(res.Rejected), "rejected")
	// Output: 6 samples, 0 rejected
}
