package prom_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
)

func ExampleNewStorage() {
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

	ctx := context.Background()
	app := db.Appender()
	for minute := range int64(6) {
		for _, job := range []string{"api", "web"} {
			ls := labels.FromStrings("__name__", "requests_total", "job", job)
			if _, err := app.Append(0, ls, minute*60_000, float64(minute*120)); err != nil {
				log.Fatal(err)
			}
		}
	}
	if _, err := app.Commit(ctx); err != nil {
		log.Fatal(err)
	}

	engine := prom.NewEngine(nil)
	query, err := engine.NewInstantQuery(ctx, prom.NewStorage(db), nil, `sum(rate(requests_total[5m]))`, time.UnixMilli(300_000))
	if err != nil {
		log.Fatal(err)
	}
	defer query.Close()
	fmt.Println(query.Exec(ctx))
	// Output: {} => 4 @[300000]
}
