package backup_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func Example() {
	// In memory here; without FS everything is in the file system.
	fs, ctx := tsdbtest.NewMemFS(), context.Background()
	db, err := tsdb.Open("data", &tsdb.Options{FS: fs})
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

	// The database goes on meanwhile.
	store := backup.NewDirStore("backups", fs)
	taken, err := backup.Take(ctx, "data", store, &backup.Options{FS: fs})
	if err != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}

	restored, err := backup.Restore(ctx, store, "", "again", &backup.Options{FS: fs})
	if err != nil {
		panic(err)
	}
	fmt.Println(restored.Name == taken.Name)
	// Output: true
}
