package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/alecthomas/kingpin/v2"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/prom/internal/bucketfile"
)

// listCommand lists backups.
type listCommand struct{}

func addList(app *kingpin.Application, commands map[string]command) {
	commands[app.Command("list", "List the backups, the oldest first.").FullCommand()] = &listCommand{}
}

func (*listCommand) check(*bucketfile.File) error { return nil }

func (*listCommand) run(ctx context.Context, b *backups) error {
	all, err := backup.List(ctx, b.store)
	if err == nil && len(all) == 0 {
		fmt.Fprintf(b.errOut, "there are no backups in %s\n", b.name)
	}
	damaged := 0
	for i := range all {
		if all[i].Damaged != nil {
			damaged++
			b.print("%s  damaged: %v\n", all[i].Name, all[i].Damaged)
			continue
		}
		b.print("%s  %s in %s\n", all[i].Name, size(all[i].Bytes), things(all[i].Files, "file"))
	}
	if damaged > 0 {
		err = errors.Join(err, fmt.Errorf("%s damaged: \"verify --remove-damaged\" removes what is", things(damaged, "backup")))
	}
	return err
}

// verifyCommand reads backups.
type verifyCommand struct{ removeDamaged bool }

func addVerify(app *kingpin.Application, commands map[string]command) {
	v := &verifyCommand{}
	cmd := app.Command("verify", "Read each file of all backups, and hold it against its hash.")
	cmd.Flag("remove-damaged", "Remove files that are damaged, so that the next backup stores them again if the database still has them, and backups whose list of files is.").BoolVar(&v.removeDamaged)
	commands[cmd.FullCommand()] = v
}

func (*verifyCommand) check(*bucketfile.File) error { return nil }

func (v *verifyCommand) run(ctx context.Context, b *backups) error {
	opts, done := b.options("Verifying")
	defer done()
	problems, err := backup.Verify(ctx, b.store, opts)
	if err != nil {
		return err
	}
	done()
	damaged, unread := 0, 0
	for _, p := range problems {
		what := "not read"
		if unread++; errors.Is(p.Err, tsdb.ErrCorrupt) || errors.Is(p.Err, fs.ErrNotExist) {
			what, damaged, unread = "damage", damaged+1, unread-1
		}
		b.print("%s: backup %s: %v\n", what, p.Backup, p.Err)
	}
	if len(problems) > 0 {
		err := fmt.Errorf("%s of backups damaged, %s not read", things(damaged, "file"), things(unread, "file"))
		if v.removeDamaged {
			err = errors.Join(err, backup.RemoveDamaged(ctx, b.store, problems, nil))
		}
		return err
	}
	all, err := backup.List(ctx, b.store)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there are no backups in %s", b.name)
	}
	if err != nil {
		return err
	}
	b.print("%s: nothing is wrong\n", things(len(all), "backup"))
	return nil
}
