package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// openTemp opens a database in a directory that goes with it.
func openTemp() (_ *tsdb.DB, release func()) {
	dir, err := os.MkdirTemp("", "tsdb")
	if err != nil {
		log.Fatal(err)
	}
	db, err := tsdb.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}

// What a process at the edge takes is sent to a central one.
func ExampleNewWriter() {
	central, closeCentral := openTemp()
	defer closeCentral()
	edge, closeEdge := openTemp()
	defer closeEdge()
	server := httptest.NewServer(remote.NewWriteHandler(central, nil))
	defer server.Close()

	w, err := remote.NewWriter(edge, &remote.WriterOptions{URL: server.URL, ExternalLabels: labels.FromStrings("site", "berlin")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()

	app := edge.Appender()
	if _, err := app.Append(0, labels.FromStrings(labels.MetricName, "temperature"), time.Now().UnixMilli(), 21.5); err != nil {
		fmt.Println(err)
	}
	if _, err := app.Commit(context.Background()); err != nil {
		fmt.Println(err)
	}

	// A program that goes on need not wait.
	if err := w.Flush(context.Background()); err != nil {
		fmt.Println(err)
	}
	st := w.Stats()
	fmt.Println(st.Samples, "sent by", st.Protocol, central.Stats().Series, "series there")
	// Output: 1 sent by 2.0 1 series there
}
