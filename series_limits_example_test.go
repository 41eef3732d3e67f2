package tsdb_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// A program refuses series of users that it does not know.
func ExampleLimits() {
	errUser := errors.New("no such user")
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), &tsdb.Options{Limits: tsdb.Limits{
		NewSeries: func(ls labels.Labels) error {
			if ls.Get("user") != "ann" {
				return errUser
			}
			return nil
		},
	}}))
	defer db.Close()

	app := db.Appender()
	for _, user := range []string{"ann", "bob"} {
		_, err := app.Append(0, labels.FromStrings("__name__", "logins", "user", user), 0, 1)
		fmt.Println(user, errors.Is(err, errUser), errors.Is(err, tsdb.ErrLimit), err)
	}
	_ = app.Rollback()
	// Output:
	// ann false false <nil>
	// bob true true refused by Limits.NewSeries: no such user
}

// A small machine has room for a number of series. What is more is refused, and known series go on.
func ExampleHeadOptions() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), &tsdb.Options{Head: tsdb.HeadOptions{MaxSeries: 2, MaxBytes: 64 << 20}}))
	defer db.Close()

	app := db.Appender()
	for _, i := range []string{"1", "2", "3", "1"} {
		_, err := app.Append(0, labels.FromStrings("i", i), 0, 1)
		fmt.Println(i, errors.Is(err, tsdb.ErrLimit))
	}
	_ = app.Rollback()
	// Output:
	// 1 false
	// 2 false
	// 3 true
	// 1 false
}
