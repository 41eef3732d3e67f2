package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/prom/internal/bucketfile"
)

// takeCommand backs up a data directory.
type takeCommand struct {
	dir   string
	keep  int
	prune bool // --keep was given
}

func addTake(app *kingpin.Application, commands map[string]command) {
	t := &takeCommand{}
	cmd := app.Command("take", "Back up a data directory, which may be in use: everything that was committed before is in the backup.")
	cmd.Arg("dir", "Data directory.").Required().StringVar(&t.dir)
	cmd.Flag("keep", "When the new backup is there, remove all but the newest N.").PlaceHolder("N").IsSetByUser(&t.prune).IntVar(&t.keep)
	commands[cmd.FullCommand()] = t
}

func (t *takeCommand) check(of *bucketfile.File) error {
	if t.prune && t.keep < 1 {
		return errors.New("--keep: want one backup or more")
	}
	return of.CheckApart(t.dir)
}

func (t *takeCommand) run(ctx context.Context, b *backups) error {
	opts, done := b.options("Backing up")
	defer done()
	r, err := backup.Take(ctx, t.dir, b.store, opts)
	if err != nil {
		return err
	}
	done()
	b.print("backup %s: %s in %s, %s of them new\n", r.Name, size(r.Bytes), things(r.Files, "file"), size(r.StoredBytes))
	if len(r.Damaged) > 0 {
		fmt.Fprintf(b.errOut, "%s without a file that belongs to them: %s; \"tsdbutil verify\" tells more\n", things(len(r.Damaged), "block"), strings.Join(r.Damaged, ", "))
	}
	if !t.prune {
		return nil
	}
	pruned, err := backup.Prune(ctx, b.store, t.keep, &backup.Options{PassedOver: func(name string, damage error) {
		fmt.Fprintf(b.errOut, "backup %s does not count, and what no other has stays until \"verify --remove-damaged\": %v\n", name, damage)
	}})
	if n := len(pruned.Backups); n > 0 {
		b.print("removed %s and %s that no other has\n", things(n, "backup"), size(pruned.Bytes))
	}
	return err
}
