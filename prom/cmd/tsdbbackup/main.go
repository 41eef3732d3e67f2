// Command tsdbbackup keeps backups of data directories in a bucket of an object store, as "tsdbutil
// backup" does in a directory. docs/design/backup.md describes both.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/seed347100a3/tsdb/prom/bucket"
	"github.com/seed347100a3/tsdb/prom/internal/objects"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const help = `Keep backups of data directories in a bucket of an object store.

What did not change since the last backup is not stored again, and each backup can be restored without the others. Whatever is interrupted is gone on with by the next try. One backup at a time may write to a bucket.`

// run is the program. It returns the exit code: 0, 1 for a failure, 2 for wrong arguments.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	app := kingpin.New("tsdbbackup", help).UsageWriter(out).ErrorWriter(errOut)
	app.HelpFlag.Short('h')
	ended := -1
	app.Terminate(func(code int) { ended = code })
	j := &job{out: out, errOut: errOut}
	file := app.Flag("objstore.config-file", objects.Help+" has the backups.").PlaceHolder("FILE").Required().String()
	commands := map[string]func(context.Context) error{}

	cmd := app.Command("take", "Back up a data directory, which may be in use: everything that was committed before is in the backup.")
	cmd.Arg("dir", "Data directory.").Required().StringVar(&j.dir)
	cmd.Flag("keep", "Remove all backups but the newest ones, so many, when the new one is there.").PlaceHolder("N").IntVar(&j.keep)
	commands[cmd.FullCommand()] = j.take

	cmd = app.Command("list", "List the backups, the oldest first.")
	commands[cmd.FullCommand()] = j.list

	cmd = app.Command("verify", "Read each file of all backups, and hold it against its hash.")
	cmd.Flag("remove-damaged", "Remove what is damaged, so that the next backup stores it again if the database still has it.").BoolVar(&j.remove)
	commands[cmd.FullCommand()] = j.verify

	cmd = app.Command("restore", "Make a data directory of a backup: the newest one, or that of a name or a time. The database is verified then.")
	cmd.Arg("dir", "Data directory to make; it must not exist, or be empty.").Required().StringVar(&j.dir)
	cmd.Flag("name", "The backup, as list shows it.").PlaceHolder("NAME").StringVar(&j.name)
	cmd.Flag("at", "The newest backup that is not later: a time as 2026-11-27T16:32:18Z.").PlaceHolder("TIME").StringVar(&j.at)
	commands[cmd.FullCommand()] = j.restore

	chosen, err := app.Parse(args)
	if ended >= 0 { // help was asked for
		return ended
	}
	if err == nil {
		err = j.check()
	}
	if err != nil {
		fmt.Fprintf(errOut, "tsdbbackup: %v; --help lists the commands\n", err)
		return 2
	}
	b, err := objects.Open(*file, "tsdbbackup")
	if err != nil {
		fmt.Fprintf(errOut, "tsdbbackup: --objstore.config-file: %v\n", err)
		return 1
	}
	j.store = bucket.NewStore(b)
	err = commands[chosen](ctx)
	if closeErr := b.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		fmt.Fprintf(errOut, "tsdbbackup: %v\n", err)
		return 1
	}
	return 0
}
