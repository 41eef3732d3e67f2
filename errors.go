package tsdb

import (
	"errors"

	"github.com/seed347100a3/tsdb/internal/backfill"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Appending a sample. These are returned as they are, so a caller may compare them
// cheaply; errors.Is works too.
var (
	// ErrOutOfOrder: the series has a newer sample.
	ErrOutOfOrder = errors.New("out of order sample: the series has a newer one")
	// ErrDuplicateSample: the series has another value at this time. An exact repeat
	// is accepted.
	ErrDuplicateSample = backfill.ErrDuplicate
	// ErrOutOfBounds: the time is outside what the database accepts at all: too far
	// in the future (Options.Limits.MaxFuture), before what it still takes, or the
	// smallest or greatest int64, which no sample can have. Times are milliseconds since
	// 1970; seconds or nanoseconds in their place are the usual mistake. errors.As with
	// *BoundsError tells the time and what is accepted, of each sample that is refused for it:
	// by Append, in a Reject, by a BlockWriter. Stats has AcceptsFrom and AcceptsTo.
	ErrOutOfBounds = errors.New("sample time out of bounds")
	// ErrTooOld: late samples are taken, but this one is older than Options.Head.OutOfOrderWindow
	// allows. errors.As with *BoundsError tells the time and what is accepted.
	ErrTooOld = errors.New("sample is too old for the out-of-order window")
	// ErrNotFound: no series has this ref, and no labels were given to find it by.
	ErrNotFound = backfill.ErrNotFound
	// ErrInvalidLabels: the label set is not well formed. The error says how.
	ErrInvalidLabels = labels.ErrInvalid
	// ErrHistogramsOff: Options.Limits.NoHistograms refuses native histograms.
	ErrHistogramsOff = errors.New("native histograms are turned off (Limits.NoHistograms)")
	// ErrExemplarsOff: none are kept, by Options.Head.MaxExemplars or DB.SetMaxExemplars.
	ErrExemplarsOff = errors.New("exemplars are turned off (HeadOptions.MaxExemplars)")
	// ErrInvalidMetadata: a unit or a help text is not UTF-8. The error says which.
	ErrInvalidMetadata = errors.New("metadata is not valid UTF-8")
	// ErrLimit: something is larger than a limit allows. The error says what.
	ErrLimit = labels.ErrLimit
)

// Committing.
var (
	// ErrNotCommitted: the samples are not in the database and will not appear later.
	ErrNotCommitted = wal.ErrNotCommitted
	// ErrIndeterminate: a sync failed, so nobody knows whether the samples would
	// survive a power failure. The database refuses writes from then on; opening it
	// again settles the question.
	ErrIndeterminate = wal.ErrIndeterminate
	// ErrDiskFull: no space is left. Writing goes on by itself when there is some.
	ErrDiskFull = wal.ErrDiskFull
	// ErrReadOnly: writes are refused; DB.Health says why.
	ErrReadOnly = wal.ErrReadOnly
	// ErrPoisoned: writes are refused because a sync or close failed, or because the data
	// directory was moved or replaced while it was open. It is an ErrReadOnly.
	ErrPoisoned = wal.ErrPoisoned
)

// Opening and using.
var (
	// ErrLocked: another process has the directory open.
	ErrLocked = fileutil.ErrLocked
	// ErrClosed: the DB, Querier or Appender was closed or committed before.
	ErrClosed = wal.ErrClosed
	// ErrInvalidArgument: nobody can mean what a call was given: a context or a matcher that is
	// nil, a sample with two histograms. The error says which. Nothing was done.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrUnsupported: the directory holds something that this version does not read.
	// The error names it.
	ErrUnsupported = datadir.ErrUnsupported
	// ErrNotDataDir: the directory is not empty, and has nothing of a database. The error
	// names some of what is in it; see Options.AnyDirectory.
	ErrNotDataDir = datadir.ErrNotDataDir
	// ErrTruncated, a warning: a result was cut at the limit of its hints.
	ErrTruncated = read.ErrTruncated
	// ErrClock, of DB.Health: the clock, and samples with it, went further than time has passed,
	// so blocks are kept that are too old by it. The error says what to do if the clock is right.
	ErrClock = errors.New("the clock went further than time passed")
	// ErrMissing, a warning: a block was damaged and set aside, is not read, or is not there
	// any more, or chunks of the head were damaged that the log does not have, so samples may
	// be missing from a result. The text names what. DB.Health has it for chunks of the head.
	ErrMissing = read.ErrMissing
	// ErrCorrupt: damaged data; errors.As with *CorruptError tells file and offset,
	// unless it is a file that is missing.
	ErrCorrupt = encbuf.ErrCorrupt
)

// errRetentionChanged ends a merge that left out what is too old by limits that are none any more.
var errRetentionChanged = errors.New("retention was changed meanwhile")

// refusal is why a directory is not opened, together with the sentinel that callers know.
type refusal struct{ sentinel, why error }

func (r *refusal) Error() string   { return r.why.Error() }
func (r *refusal) Unwrap() []error { return []error{r.sentinel, r.why} }

// refuse gives an error of replay the sentinel of this package, if there is one for it.
func refuse(err error) error {
	switch {
	case errors.Is(err, wal.ErrVersion):
		return &refusal{ErrUnsupported, err}
	case errors.Is(err, wal.ErrSegments):
		return &refusal{ErrCorrupt, err}
	default:
		return err
	}
}

// CorruptError says where damage was found. errors.Is(err, ErrCorrupt) holds for it.
type CorruptError = encbuf.CorruptError

// logged is an error as it goes to Options.Logger: one line.
//
//go:noinline
func logged(err error) any { return fileutil.Logged(err) }
