// Command tsdbbackup keeps backups of data directories in a bucket of an object store, as "tsdbutil
// backup" does in a directory. docs/design/backup.md describes both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/prom/bucket"
	"github.com/seed347100a3/tsdb/prom/internal/bucketfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const help = `Keep backups of data directories in a bucket of an object store.

What did not change since the last backup is not stored again, and each backup can be restored without the others. Whatever is interrupted is gone on with by the next try. One backup at a time may write to a bucket.`

// command is what the user may ask for.
type command interface {
	// check says what is wrong with the flags.
	check(of *bucketfile.File) error
	run(ctx context.Context, b *backups) error
}

// run is the program. It returns the exit code: 0, 1 for a failure, 2 for wrong arguments and files
// that cannot be understood.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	app := kingpin.New("tsdbbackup", help).UsageWriter(out).ErrorWriter(errOut)
	app.HelpFlag.Short('h')
	app.Version(version())
	app.Terminate(nil)
	answered := false // help, or the version
	note := func(*kingpin.ParseContext) error { answered = true; return nil }
	app.HelpFlag.PreAction(note)
	app.VersionFlag.PreAction(note)
	fileName := app.Flag("objstore.config-file", "The bucket, "+bucketfile.Help+". Every command needs it.").PlaceHolder("FILE").String()
	commands := map[string]command{}
	addTake(app, commands)
	addList(app, commands)
	addVerify(app, commands)
	addRestore(app, commands)

	name, err := app.Parse(args)
	if answered || name == "help" {
		return 0
	}
	var file *bucketfile.File
	if err == nil && *fileName == "" {
		err = errors.New("want --objstore.config-file, which says where the backups are")
	}
	if err == nil {
		if file, err = bucketfile.Read(*fileName); err != nil {
			err = fmt.Errorf("--objstore.config-file: %w", err)
		}
	}
	if err == nil {
		err = commands[name].check(file)
	}
	if err != nil {
		fmt.Fprintf(errOut, "tsdbbackup: %v; --help lists the commands\n", err)
		return 2
	}
	if err := runWith(ctx, file, commands[name], out, errOut); err != nil {
		fmt.Fprintf(errOut, "tsdbbackup: %v\n", err)
		return 1
	}
	return 0
}

// runWith runs a command. A bucket that is a directory is written to as one: each object gets its
// name when it is whole and durable.
func runWith(ctx context.Context, file *bucketfile.File, c command, out, errOut io.Writer) error {
	b := &backups{name: file.String(), out: out, errOut: errOut}
	if dir, ok := file.Directory(); ok {
		b.store = backup.NewDirStore(dir, nil)
		return c.run(ctx, b)
	}
	opened, err := file.Open("tsdbbackup")
	if err != nil {
		return err
	}
	b.store = bucket.NewStore(opened)
	return errors.Join(c.run(ctx, b), opened.Close())
}

// version is what the program was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return "tsdbbackup " + info.Main.Version + ", " + info.GoVersion
	}
	return "tsdbbackup (devel)"
}
