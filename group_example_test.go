package tsdb_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// A database for each tenant, of which no more than a hundred are open, and a gigabyte of memory
// for the heads of all of them.
func ExampleGroup() {
	group := must(tsdb.OpenGroup(must(os.MkdirTemp("", "tenants")), &tsdb.GroupOptions{
		MaxOpen:  100,
		MaxBytes: 1 << 30,
	}))
	defer group.Close()

	write := func(tenant string, t int64, v float64) error {
		db, release, err := group.DB(context.Background(), tenant)
		if err != nil {
			return err
		}
		defer release() // from here on it may be closed for another tenant
		app := db.Appender()
		if _, err := app.Append(0, labels.FromStrings("__name__", "requests_total"), t, v); err != nil {
			return err
		}
		_, err = app.Commit(context.Background())
		return err
	}
	for _, tenant := range []string{"initech", "hooli", "initech"} {
		if err := write(tenant, 1000, 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(must(group.Names()), group.Stats().Open)
	fmt.Println(write("../hooli", 1000, 1))
	// Output:
	// [hooli initech] 2
	// name of a database "../hooli": only ASCII letters, digits, '-', '_' and '.' are taken
}
