package ship_test

import (
	"context"
	"fmt"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func Example() {
	// In memory here; without FS everything is in the file system.
	fs, ctx := tsdbtest.NewMemFS(), context.Background()
	bucket := objstore.NewInMemBucket()

	// The shipper comes first: it tells the database what to keep.
	shipper, err := ship.NewDir("data", bucket, ship.Options{Labels: labels.FromStrings("cluster", "home"), FS: fs})
	if err != nil {
		panic(err)
	}
	db, err := tsdb.Open("data", shipper.Prepare(&tsdb.Options{FS: fs}))
	if err != nil {
		panic(err)
	}
	app := db.Appender()
	if _, err := app.Append(0, labels.FromStrings("__name__", "up"), time.Now().UnixMilli(), 1); err != nil {
		panic(err)
	}
	if _, err := app.Commit(ctx); err != nil {
		panic(err)
	}
	if err := db.Flush(ctx); err != nil { // a block; else there is one every two hours
		panic(err)
	}

	// A program that goes on starts shipper.Run(ctx, time.Minute) instead.
	n, err := shipper.Sync(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(n, len(bucket.Objects()))
	if err := db.Close(); err != nil {
		panic(err)
	}
	// Output: 1 3
}
