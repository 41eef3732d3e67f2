package remote_test

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// passwordOnly lets requests with the right password pass. Sums are compared, so that the
// time it takes says nothing of the password, not even its length.
func passwordOnly(password string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(password))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="metrics"`)
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A program serves its database to those who know a password, and reads it as they do.
func ExampleReadHandler() {
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
	for i := range int64(3) {
		if _, err := app.Append(0, labels.FromStrings("__name__", "up", "job", "api"), 1000*i, float64(i)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := app.Commit(context.Background()); err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/api/v1/read", passwordOnly("secret", remote.ReadHandler(db, &remote.ReadOptions{
		ExternalLabels: labels.FromStrings("host", "example"),
	})))
	server := httptest.NewUnstartedServer(mux)
	server.Config.ReadHeaderTimeout = 5 * time.Second
	server.Config.IdleTimeout = time.Minute
	server.Config.MaxHeaderBytes = 16 << 10
	server.StartTLS()
	defer server.Close()

	header := http.Header{}
	request := http.Request{Header: header}
	request.SetBasicAuth("anybody", "secret")
	client, err := remote.NewReadClient(server.URL+"/api/v1/read", &remote.ReadClientOptions{HTTP: server.Client(), Header: header})
	if err != nil {
		log.Fatal(err)
	}
	set := client.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, labels.Equal("job", "api"))
	defer set.Close()
	for set.Next() {
		fmt.Println(set.At().Labels())
		for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
			fmt.Println(it.At())
		}
	}
	if set.Err() != nil {
		log.Fatal(set.Err())
	}
	// Output:
	// {__name__="up", host="example", job="api"}
	// 0 0
	// 1000 1
	// 2000 2
}
