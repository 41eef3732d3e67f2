package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/seed347100a3/tsdb/backup"
)

// backups are those of a bucket, and where to tell of them.
type backups struct {
	name        string // of the bucket
	store       backup.Store
	out, errOut io.Writer
}

func (b *backups) print(format string, args ...any) { fmt.Fprintf(b.out, format, args...) }

// passedOver tells of a backup that was not chosen.
func (b *backups) passedOver(name string, damage error) {
	fmt.Fprintf(b.errOut, "backup %s is passed over: %v\n", name, damage)
}

// options show on a terminal how far something is, until done is called.
func (b *backups) options(text string) (o *backup.Options, done func()) {
	o = &backup.Options{PassedOver: b.passedOver}
	f, ok := b.errOut.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return o, func() {}
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(text),
		progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(24))
	o.Progress = func(done, total int64) {
		bar.ChangeMax64(total)
		_ = bar.Set64(done) // what cannot be shown is not shown
	}
	return o, sync.OnceFunc(func() { _ = bar.Clear() }) // as above
}

func size(bytes int64) string { return humanize.IBytes(uint64(bytes)) }

// things counts: 1 file, 2 files.
func things(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%s %ss", humanize.Comma(int64(n)), what)
}
