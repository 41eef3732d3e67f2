package tsdb_test

import (
	"fmt"
	"os"
	"time"

	"github.com/seed347100a3/tsdb"
)

// A program keeps 30 days, and less while the disk is short.
func ExampleDB_SetRetention() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), &tsdb.Options{
		Blocks: tsdb.BlockOptions{Retention: 30 * 24 * time.Hour},
	}))
	defer db.Close()

	limits := db.Retention()
	limits.Bytes = 20 << 30
	if err := db.SetRetention(limits); err != nil {
		fmt.Println(err)
	}
	fmt.Println(db.Retention().Duration, db.Retention().Bytes>>30, "GiB")
	// Output: 720h0m0s 20 GiB
}
