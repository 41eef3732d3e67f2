// Command reference is the least that a program does with the reference implementation: it
// appends a sample and reads it back. Its size is a row of the comparison.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	app := db.Appender(context.Background())
	if _, err := app.Append(0, labels.FromStrings("__name__", "up"), 1, 1); err != nil {
		return err
	}
	if err := app.Commit(); err != nil {
		return err
	}
	q, err := db.Querier(0, 2)
	if err != nil {
		return err
	}
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "up"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != 0 {
			fmt.Println(it.At())
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return err
	}
	if err := q.Close(); err != nil {
		return err
	}
	return db.Close()
}
