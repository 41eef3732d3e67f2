package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/prom/internal/bucketfile"
)

// restoreCommand makes a data directory of a backup.
type restoreCommand struct {
	dir      string
	name, at string
	time     time.Time // at
}

func addRestore(app *kingpin.Application, commands map[string]command) {
	r := &restoreCommand{}
	cmd := app.Command("restore", "Make a data directory of a backup: the newest one, or that of a name or a time. The database is verified then.")
	cmd.Arg("dir", "Data directory to make; it must not exist, or be empty.").Required().StringVar(&r.dir)
	cmd.Flag("name", "The backup, as list shows it.").PlaceHolder("NAME").StringVar(&r.name)
	cmd.Flag("at", "The newest backup that is not later: a time as 2026-11-27T16:32:18Z.").PlaceHolder("TIME").StringVar(&r.at)
	commands[cmd.FullCommand()] = r
}

func (r *restoreCommand) check(of *bucketfile.File) (err error) {
	if r.name != "" && r.at != "" {
		return errors.New("restore: want --name or --at, not both")
	}
	if r.at != "" {
		if r.time, err = time.Parse(time.RFC3339, r.at); err != nil {
			return fmt.Errorf("--at %q: want a time as 2026-11-27T16:32:18Z", r.at)
		}
	}
	return of.CheckApart(r.dir)
}

func (r *restoreCommand) run(ctx context.Context, b *backups) (err error) {
	name := r.name
	if r.at != "" {
		if name, err = backup.At(ctx, b.store, r.time, &backup.Options{PassedOver: b.passedOver}); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	opts, done := b.options("Restoring")
	defer done()
	from, err := backup.Restore(ctx, b.store, name, r.dir, opts)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("name a directory that does not exist: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	done()
	report, err := tsdb.Verify(ctx, r.dir, nil)
	if err != nil {
		return err
	}
	if !report.Clean() {
		return fmt.Errorf("the database of backup %s is damaged, as it was when it was backed up: \"tsdbutil verify %s\" tells more", from.Name, r.dir)
	}
	b.print("restored backup %s into %s: %s in %s\n", from.Name, r.dir, size(from.Bytes), things(from.Files, "file"))
	return nil
}
