package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
)

// job is what is to be done, of all commands.
type job struct {
	out, errOut io.Writer
	store       backup.Store

	dir      string
	keep     int
	remove   bool
	name, at string
	time     time.Time // at
}

func (j *job) check() (err error) {
	switch {
	case j.keep < 0:
		return fmt.Errorf("--keep %d: want one backup or more", j.keep)
	case j.name != "" && j.at != "":
		return errors.New("want --name or --at, not both")
	case j.at != "":
		if j.time, err = time.Parse(time.RFC3339, j.at); err != nil {
			return fmt.Errorf("--at %q: want a time as 2026-11-27T16:32:18Z", j.at)
		}
	}
	return nil
}

func (j *job) take(ctx context.Context) error {
	r, err := backup.Take(ctx, j.dir, j.store, nil)
	if err != nil {
		return err
	}
	j.print("backup %s: %s in %d files, %s of them new\n", r.Name, size(r.Bytes), r.Files, size(r.StoredBytes))
	if len(r.Damaged) > 0 {
		fmt.Fprintf(j.errOut, "blocks without a file that belongs to them: %s; \"tsdbutil verify\" tells more\n", strings.Join(r.Damaged, ", "))
	}
	if j.keep == 0 {
		return nil
	}
	pruned, err := backup.Prune(ctx, j.store, j.keep, nil)
	for _, name := range pruned.Backups {
		j.print("removed backup %s\n", name)
	}
	return err
}

func (j *job) list(ctx context.Context) error {
	all, err := backup.List(ctx, j.store)
	for i := range all {
		j.print("%s  %s in %d files\n", all[i].Name, size(all[i].Bytes), all[i].Files)
	}
	return err
}

func (j *job) verify(ctx context.Context) error {
	problems, err := backup.Verify(ctx, j.store, nil)
	if err != nil {
		return err
	}
	for _, p := range problems {
		j.print("damage: backup %s: %v\n", p.Backup, p.Err)
	}
	if len(problems) == 0 {
		j.print("nothing is wrong\n")
		return nil
	}
	if j.remove {
		err = backup.RemoveDamaged(ctx, j.store, problems, nil)
	}
	return errors.Join(fmt.Errorf("files of backups that are damaged: %d", len(problems)), err)
}

func (j *job) restore(ctx context.Context) error {
	name := j.name
	if j.at != "" {
		var err error
		if name, err = backup.At(ctx, j.store, j.time); err != nil {
			return err
		}
	}
	b, err := backup.Restore(ctx, j.store, name, j.dir, nil)
	if err != nil {
		return err
	}
	report, err := tsdb.Verify(ctx, j.dir, nil)
	if err != nil {
		return err
	}
	if !report.Clean() {
		return fmt.Errorf("the database of backup %s is damaged, as it was when it was backed up: \"tsdbutil verify %s\" tells more", b.Name, j.dir)
	}
	j.print("restored backup %s into %s: %s in %d files\n", b.Name, j.dir, size(b.Bytes), b.Files)
	return nil
}

func (j *job) print(format string, args ...any) { fmt.Fprintf(j.out, format, args...) }

func size(bytes int64) string { return humanize.IBytes(uint64(bytes)) }
