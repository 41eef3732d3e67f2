package remote_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"net/http/httptest"
	"os"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// Series and samples arrive while they are read; an error may come at any point.
func ExampleReadClient() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := tsdb.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	app := db.Appender()
	for i := range int64(3) {
		if _, err := app.Append(0, labels.FromStrings("__name__", "up", "job", "api"), 1000*i, float64(i)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := app.Commit(context.Background()); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(remote.ReadHandler(db, nil))
	defer server.Close()

	client, err := remote.NewReadClient(server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	q := client.Querier(0, math.MaxInt64)
	defer func() { _ = q.Close() }()
	var it chunkenc.Iterator
	for s, err := range q.Select(context.Background(), nil, labels.Equal("job", "api")).All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Labels())
		for it = s.Iterator(it); it.Next() != chunkenc.ValNone; {
			t, v := it.At()
			fmt.Println(t, v)
		}
		if it.Err() != nil {
			log.Fatal(it.Err())
		}
	}
	// Output:
	// {__name__="up", job="api"}
	// 0 0
	// 1000 1
	// 2000 2
}
