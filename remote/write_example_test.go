package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/golang/snappy"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/remote"
)

// A program takes what senders send, from those who know a password. The sender here is a message
// of remote write 1.0 as it is on the wire: one series, one sample.
func ExampleNewWriteHandler() {
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

	mux := http.NewServeMux()
	mux.Handle("/api/v1/write", passwordOnly("secret", remote.NewWriteHandler(db, nil)))
	server := httptest.NewServer(mux)
	defer server.Close()

	sample := "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x80\xd0\x95\xff\xbc\x31" // 1 at 1700000000000
	series := "\x0a\x0e\x0a\x08__name__\x12\x02up" + "\x12" + string(rune(len(sample))) + sample
	body := snappy.Encode(nil, []byte("\x0a"+string(rune(len(series)))+series))
	for range 2 { // a request may come again
		request, err := http.NewRequest(http.MethodPost, server.URL+"/api/v1/write", bytes.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.SetBasicAuth("sender", "secret")
		request.Header.Set("Content-Type", "application/x-protobuf")
		request.Header.Set("Content-Encoding", "snappy")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status)
	}

	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	for s := range q.Select(context.Background(), nil).All() {
		for t, v := range s.Samples() {
			fmt.Println(s.Labels(), t, v)
		}
	}
	// Output:
	// 204 No Content
	// 204 No Content
	// {__name__="up"} 1700000000000 1
}
