package agg_test

import (
	"fmt"
	"time"

	"github.com/seed347100a3/tsdb/agg"
)

func Example() {
	rates, err := agg.New(agg.Rate, agg.Windows{Start: 30_000, End: 60_000, Step: 30 * time.Second.Milliseconds()})
	if err != nil {
		panic(err)
	}
	points, err := rates.Points(nil, iterate(nil, counter...)) // an iterator of a Series, or of a chunk
	if err != nil {
		panic(err)
	}
	for _, p := range points {
		fmt.Printf("%ds: %.2f a second\n", p.T/1000, p.V)
	}
	// Output:
	// 30s: 0.50 a second
	// 60s: 0.20 a second
}
