package tsdb_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// What a program does that used tstorage.
func Example_fromTstorage() {
	dir := must(os.MkdirTemp("", "tsdb"))
	defer os.RemoveAll(dir)
	fmt.Println(fromTstorage(context.Background(), dir, time.UnixMilli(1_700_000_000_000)))
	// Output:
	// 1700000000000 0.5
	// <nil>
}

// fromTstorage is on docs/migrate.md.
func fromTstorage(ctx context.Context, dir string, now time.Time) error {
	db, err := tsdb.Open(dir, nil) // tstorage.NewStorage(tstorage.WithDataPath(dir))
	if err != nil {
		return err
	}
	defer db.Close()
	app := db.Appender()
	ls := labels.FromStrings("__name__", "cpu", "host", "a")
	if _, err := app.Append(0, ls, now.UnixMilli(), 0.5); err != nil {
		return err
	}
	if _, err := app.Commit(ctx); err != nil { // storage.InsertRows
		return err
	}
	q, err := db.Querier(now.Add(-time.Hour).UnixMilli(), now.UnixMilli()) // both ends included
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(ctx, nil, labels.Equal("__name__", "cpu"), labels.Equal("host", "a"))
	for s, err := range set.All() { // storage.Select
		if err != nil {
			return err
		}
		it := s.Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			fmt.Println(it.At())
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return nil
}

func TestMigrate_ThePageHasWhatRuns(t *testing.T) {
	page, err := os.ReadFile("docs/migrate.md")
	require.NoError(t, err)
	source, err := os.ReadFile("migrate_example_test.go")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(page))
	require.NotNil(t, shown)
	body := regexp.MustCompile(`(?ms)^func fromTstorage[^\n]*\n(.*?)^}`).FindStringSubmatch(string(source))
	require.NotNil(t, body)
	require.Equal(t, strings.ReplaceAll("\n"+body[1], "\n\t", "\n"), "\n"+shown[1])
}
