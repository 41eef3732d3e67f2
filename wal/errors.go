package wal

import (
	"errors"
	"strings"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// What a commit or a sync comes to.
var (
	// ErrNotCommitted: the commit is not in the log and will not appear later. The
	// error names the cause.
	ErrNotCommitted = errors.New("not committed")
	// ErrIndeterminate: the commit was written, but its sync failed; only the next
	// replay tells whether it is in the log.
	ErrIndeterminate = errors.New("commit is indeterminate until the log is read again")
	// ErrRetry: an earlier write failed and not all of its commits have been settled.
	// Release what others may need to settle, call Log.WaitSettled, enqueue again.
	ErrRetry = errors.New("an earlier failed commit is not settled yet")
	// ErrDiskFull: there is no room. Writing goes on by itself when there is.
	ErrDiskFull = errors.New("no space left on the disk")
	// ErrRecordTooLarge: a record exceeds MaxRecordSize.
	ErrRecordTooLarge = errors.New("log record is too large")
	// ErrReservedRecord: a record begins with a byte that marks the log's own records.
	ErrReservedRecord = errors.New("log record begins with a reserved byte")
)

// Why a log refuses to be written.
var (
	// ErrReadOnly: writes are refused.
	ErrReadOnly = errors.New("read-only")
	// ErrPoisoned: a sync or close of a log file failed, so nobody knows what is on
	// stable storage. It stays until the log is opened again, and it is an ErrReadOnly.
	ErrPoisoned error = poisonError{}
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("closed")
)

// Why a record cannot be decompressed.
var (
	errTooDense = errors.New("record claims to expand more than its compression can")
	errNotZstd  = errors.New("record is no zstd frame")
)

// ErrGone: the log does not have the commit any more that a Tail would read next, or it cannot be
// read. What it had is in blocks by then, as a rule.
var ErrGone = errors.New("the log does not have the next commit any more")

// What replay refuses to read.
var (
	// ErrVersion: a private record of a higher version. The error names its file.
	ErrVersion = errors.New("written by a newer version")
	// ErrSegments: the set of segment files has a hole or a stranger in it. The error
	// names the file and what to do.
	ErrSegments = errors.New("log segments do not fit together")
)

type poisonError struct{}

func (poisonError) Error() string { return "read-only after a failed sync" }
func (poisonError) Unwrap() error { return ErrReadOnly }

// failure joins what happened to an operation with why: errors.Is finds both.
type failure struct {
	means []error // sentinels, the first one gives the text
	cause error
}

func (f *failure) Error() string {
	parts := make([]string, 0, len(f.means)+1)
	for _, m := range f.means {
		parts = append(parts, m.Error())
	}
	return strings.Join(append(parts, f.cause.Error()), ": ")
}

func (f *failure) Unwrap() []error { return append(f.means[:len(f.means):len(f.means)], f.cause) }

// NotCommitted returns an ErrNotCommitted with its cause; the error of a full disk
// makes it an ErrDiskFull, too.
func NotCommitted(cause error) error {
	if fileutil.IsDiskFull(cause) && !errors.Is(cause, ErrDiskFull) {
		return &failure{means: []error{ErrNotCommitted, ErrDiskFull}, cause: cause}
	}
	return &failure{means: []error{ErrNotCommitted}, cause: cause}
}

// NotWritable returns an ErrReadOnly that says why there is no log to write to; the
// error of a full disk makes it an ErrDiskFull, too.
func NotWritable(why error) error {
	if why == nil {
		return ErrReadOnly
	}
	return &failure{means: []error{ErrReadOnly}, cause: diskFull(why)}
}

// diskFull marks an error of a full disk with ErrDiskFull; others pass as they are.
func diskFull(err error) error {
	if err != nil && fileutil.IsDiskFull(err) && !errors.Is(err, ErrDiskFull) {
		return &failure{means: []error{ErrDiskFull}, cause: err}
	}
	return err
}

// Poisoned returns an ErrPoisoned with its cause, a failed sync or close.
//
//go:noinline
func Poisoned(cause error) error {
	if errors.Is(cause, ErrPoisoned) {
		return cause
	}
	return &failure{means: []error{ErrPoisoned}, cause: cause}
}

// dirNotSynced is the error of a SyncDir that failed: an ErrPoisoned, unless the directory could
// not even be opened. Then nothing is in doubt.
func dirNotSynced(err error) error {
	if errors.Is(err, fileutil.ErrNotTried) {
		return err
	}
	return Poisoned(err)
}

// indeterminate says that a commit was written but not synced.
func indeterminate(cause error) error {
	return &failure{means: []error{ErrIndeterminate}, cause: cause}
}
