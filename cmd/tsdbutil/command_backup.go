package main

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
)

// backupCommand backs up a data directory.
type backupCommand struct {
	dir, to string
	keep    int
	output  string
}

const backupHelp = `Back up a data directory into a directory of backups.

What did not change since the last backup is not stored again. The database may be in use: everything that was committed before is in the backup. A backup that does not come to its end changes nothing, and the next one goes on with what it stored.`

func (p *program) addBackup() {
	b := &backupCommand{}
	cmd := p.app.Command("backup", backupHelp)
	cmd.Arg("dir", "Data directory.").Required().StringVar(&b.dir)
	cmd.Arg("to", "Directory of backups; it is made if there is none.").Required().StringVar(&b.to)
	cmd.Flag("keep", "Remove all backups but the newest ones, so many, when the new one is there.").PlaceHolder("N").IntVar(&b.keep)
	outputFlag(cmd, &b.output, "text", "json")
	p.add(cmd, b.run)
}

// backupJSON is one backup.
type backupJSON struct {
	Name  string    `json:"name"`
	Time  time.Time `json:"time"`
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"`
	// Damage is why the rest is not known; empty: it is.
	Damage string `json:"damage,omitempty"`
}

func newBackupJSON(b *backup.Backup) backupJSON {
	j := backupJSON{Name: b.Name, Time: b.Time, Files: b.Files, Bytes: b.Bytes}
	if b.Damaged != nil {
		j.Damage = b.Damaged.Error()
	}
	return j
}

// takenJSON is what a backup did.
type takenJSON struct {
	backupJSON
	StoredFiles int      `json:"stored_files"`
	StoredBytes int64    `json:"stored_bytes"`
	ReadBytes   int64    `json:"read_bytes"`
	Removed     []string `json:"removed"`
	Damaged     []string `json:"damaged_blocks"`
}

func (b *backupCommand) run(ctx context.Context, c *console) error {
	if b.keep < 0 {
		return usageError("--keep: want one backup or more")
	}
	if err := checkDatabase(b.dir); err != nil {
		return err
	}
	store := backup.NewDirStore(b.to, nil)
	bar := c.startProgress("Backing up", 0, true)
	defer bar.finish()
	r, err := backup.Take(ctx, b.dir, store, &backup.Options{Progress: bar.set})
	if err != nil {
		return err
	}
	bar.finish()
	var pruned backup.Pruned
	if b.keep > 0 {
		pruned, err = backup.Prune(ctx, store, b.keep, &backup.Options{PassedOver: func(name string, damage error) {
			c.message("backup %s does not count, and what no other has stays until \"tsdbutil backups %s --verify --remove-damaged\": %v", name, b.to, damage)
		}})
	}
	if b.output == "json" {
		return cmp.Or(err, c.printJSON(takenJSON{newBackupJSON(&r.Backup), r.StoredFiles, r.StoredBytes, r.ReadBytes, append([]string{}, pruned.Backups...), append([]string{}, r.Damaged...)}))
	}
	c.printf("backup %s: %s in %s, %s of them new\n", r.Name, c.bytes(r.Bytes), things(r.Files, "file"), c.bytes(r.StoredBytes))
	if len(r.Damaged) > 0 {
		c.message("%s without a file that belongs to them: %s; \"tsdbutil verify\" tells more", things(len(r.Damaged), "block"), strings.Join(r.Damaged, ", "))
	}
	if len(pruned.Backups) > 0 {
		c.printf("removed %s and %s that no other has\n", things(len(pruned.Backups), "backup"), c.bytes(pruned.Bytes))
	}
	return err
}

// backupsCommand lists backups.
type backupsCommand struct {
	from   string
	verify bool
	remove bool
	output string
}

const backupsHelp = `List the backups in a directory.

With --verify, each file of them is read and held against its hash. With --remove-damaged, what is damaged is removed, so that the next backup stores it again if the database still has it, and so are backups whose list of files is damaged; the list still tells of it.`

func (p *program) addBackups() {
	b := &backupsCommand{}
	cmd := p.app.Command("backups", backupsHelp)
	cmd.Arg("from", "Directory of backups.").Required().StringVar(&b.from)
	cmd.Flag("verify", "Read all of them.").BoolVar(&b.verify)
	cmd.Flag("remove-damaged", "Remove what --verify finds damaged.").BoolVar(&b.remove)
	outputFlag(cmd, &b.output, "table", "json")
	p.add(cmd, b.run)
}

// problemJSON is what is wrong with a file of a backup.
type problemJSON struct {
	Backup string `json:"backup"`
	Path   string `json:"path"` // empty: the backup's list of files
	Reason string `json:"reason"`
}

func (b *backupsCommand) run(ctx context.Context, c *console) error {
	if b.remove && !b.verify {
		return usageError("--remove-damaged: want --verify, which finds it")
	}
	store := backup.NewDirStore(b.from, nil)
	list, err := backup.List(ctx, store)
	if err != nil && !b.verify {
		return err
	}
	problems := []problemJSON{}
	if b.verify {
		bar := c.startProgress("Verifying", 0, true)
		defer bar.finish()
		found, err := backup.Verify(ctx, store, &backup.Options{Progress: bar.set})
		if err != nil {
			return err
		}
		bar.finish()
		if b.remove {
			if err := backup.RemoveDamaged(ctx, store, found, nil); err != nil {
				return err
			}
		}
		for _, p := range found {
			problems = append(problems, problemJSON{p.Backup, p.Path, p.Err.Error()})
		}
	}
	if err := b.print(c, list, problems); err != nil {
		return err
	}
	if len(problems) > 0 || slices.ContainsFunc(list, isDamaged) {
		return errProblem
	}
	return nil
}

func isDamaged(b backup.Backup) bool { return b.Damaged != nil }

func (b *backupsCommand) print(c *console, list []backup.Backup, problems []problemJSON) error {
	if b.output == "json" {
		out := struct {
			Backups  []backupJSON  `json:"backups"`
			Problems []problemJSON `json:"problems"`
		}{[]backupJSON{}, problems}
		for i := range list {
			out.Backups = append(out.Backups, newBackupJSON(&list[i]))
		}
		return c.printJSON(out)
	}
	if len(list) == 0 && len(problems) == 0 {
		c.message("there are no backups")
		return nil
	}
	rows := make([]table.Row, 0, len(list))
	for _, b := range list {
		if isDamaged(b) {
			rows = append(rows, table.Row{b.Name, "", c.paint(sgrRed, "damaged")})
			continue
		}
		rows = append(rows, table.Row{b.Name, count(b.Files), c.bytes(b.Bytes)})
	}
	if err := c.printTable(table.Row{"BACKUP", "FILES", "SIZE"}, rows, 0, 2, 3); err != nil {
		return err
	}
	for _, b := range list {
		if isDamaged(b) && len(problems) == 0 {
			c.message("backup %s: %v", b.Name, b.Damaged)
		}
	}
	for _, p := range problems {
		c.printf("%s: backup %s: %s\n", c.paint(sgrRed, "damage"), p.Backup, p.Reason)
	}
	if b.verify && len(problems) == 0 {
		c.printf("%s\n", c.paint(sgrGreen, "nothing is wrong"))
	}
	return nil
}

// restoreCommand makes a data directory of a backup.
type restoreCommand struct {
	from, dir string
	name      string
	at        string
	verify    bool
	output    string
}

const restoreHelp = `Make a data directory of a backup: the newest one, or that of a name or a time. Those whose list of files is damaged are passed over.

The directory must not exist, or be empty. Each file is held against its hash, and then the database is verified as the command verify does. A restore that does not come to its end leaves a directory with .tmp-restore behind its name, and the next one goes on.`

func (p *program) addRestore() {
	r := &restoreCommand{}
	cmd := p.app.Command("restore", restoreHelp)
	cmd.Arg("from", "Directory of backups.").Required().StringVar(&r.from)
	cmd.Arg("dir", "Data directory to make.").Required().StringVar(&r.dir)
	cmd.Flag("name", "The backup, as the command backups lists it.").PlaceHolder("NAME").StringVar(&r.name)
	cmd.Flag("at", "The newest backup that is not later: a time as of query.").PlaceHolder("TIME").StringVar(&r.at)
	cmd.Flag("verify", "Verify the database, too.").Default("true").BoolVar(&r.verify)
	outputFlag(cmd, &r.output, "text", "json")
	p.add(cmd, r.run)
}

// restoredJSON is what a restore did.
type restoredJSON struct {
	backupJSON
	Dir      string `json:"dir"`
	Verified bool   `json:"verified"`
}

func (r *restoreCommand) run(ctx context.Context, c *console) error {
	if r.name != "" && r.at != "" {
		return usageError("restore: want --name or --at, not both")
	}
	store := backup.NewDirStore(r.from, nil)
	opts := &backup.Options{PassedOver: func(name string, damage error) {
		c.message("backup %s is passed over: %v", name, damage)
	}}
	name := r.name
	if r.at != "" {
		at, err := parseTime("--at", r.at, time.Now(), 0)
		if err != nil {
			return err
		}
		if name, err = backup.At(ctx, store, time.UnixMilli(at), opts); err != nil {
			return err
		}
	}
	bar := c.startProgress("Restoring", 0, true)
	defer bar.finish()
	opts.Progress = bar.set
	b, err := backup.Restore(ctx, store, name, r.dir, opts)
	if errors.Is(err, fs.ErrExist) {
		return errors.WithMessage(err, "name a directory that does not exist")
	}
	if err != nil {
		return err
	}
	bar.finish()
	if r.verify {
		report, err := tsdb.Verify(ctx, r.dir, nil)
		if err == nil && !report.Clean() {
			err = errors.Errorf("the database of backup %s is damaged, as it was when it was backed up: \"tsdbutil verify %s\" tells more", b.Name, r.dir)
		}
		if err != nil {
			return err
		}
	}
	if r.output == "json" {
		return c.printJSON(restoredJSON{newBackupJSON(&b), r.dir, r.verify})
	}
	c.printf("restored backup %s into %s: %s in %s\n", b.Name, r.dir, c.bytes(b.Bytes), things(b.Files, "file"))
	return nil
}
