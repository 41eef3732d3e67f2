package tsdb_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
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

// Debug series are kept for a week, those of bills for ever, all others for 90 days.
func ExampleRetentionRule() {
	const day = 24 * time.Hour
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), &tsdb.Options{Blocks: tsdb.BlockOptions{
		RetentionRules: []tsdb.RetentionRule{
			{Matchers: must(labels.ParseSelector(`{job="debug"}`)), Duration: 7 * day},
			{Matchers: must(labels.ParseSelector(`{__name__=~"bill_.*"}`))},
		},
		Retention: 90 * day,
	}}))
	fmt.Println(db.Close())
	// Output: <nil>
}

// What is older than a year is not needed any more, whatever the disk has room for.
func ExampleDB_DropBlocks() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	n, err := db.DropBlocks(context.Background(), time.Now().AddDate(-1, 0, 0).UnixMilli())
	fmt.Println(n, err)
	// Output: 0 <nil>
}

// A block is kept until it has been backed up.
func ExampleBlockOptions_keep() {
	var saved sync.Map // ULIDs of blocks that are somewhere else, too
	backUp := func(m tsdb.BlockMeta) { saved.Store(m.ULID, true) }
	keep := func(m tsdb.BlockMeta) bool { _, ok := saved.Load(m.ULID); return !ok }

	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), &tsdb.Options{
		Blocks: tsdb.BlockOptions{Retention: 24 * time.Hour, OnBlock: backUp, Keep: keep},
	}))
	fmt.Println(db.Close())
	// Output: <nil>
}
