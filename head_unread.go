package tsdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed347100a3/tsdb/internal/record"
)

// UnreadError says that the log has samples of kinds that this version does not read, which
// another engine has written. They stay in the log, for a program that reads them. No block would
// have them, so the head is not made into blocks as long as they are newer than the end of the
// blocks: commits are taken, but head and log only grow. The way out is to close the database, let
// the other engine make blocks of its head, and open it again.
//
// errors.Is(err, ErrUnsupported) holds for it.
type UnreadError struct {
	// Records counts the records of such samples by kind, as OpenReport.UnreadRecords does.
	// Exemplars, metadata and the like are not among them: blocks do without.
	Records map[string]int
}

// Error names the kinds.
func (e *UnreadError) Error() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(e.Records)) {
		kinds = append(kinds, fmt.Sprintf("%d records of %s", e.Records[kind], kind))
	}
	return "the head cannot be made into blocks: the log has " + strings.Join(kinds, ", ") +
		", samples that this version does not read and that would be lost: let the program that wrote them make blocks of its head"
}

// Unwrap returns ErrUnsupported.
func (e *UnreadError) Unwrap() error { return ErrUnsupported }

// unreadRecords counts records of the log that have no decoder, by type.
type unreadRecords [256]int

// names returns the counts by the names of the types; nil for none.
func (u *unreadRecords) names() (named map[string]int) {
	for typ, n := range u {
		if n > 0 {
			if named == nil {
				named = map[string]int{}
			}
			named[record.Type(typ).String()] += n
		}
	}
	return named
}

// samples returns nil, or the error about the records, all of which hold samples.
func (u *unreadRecords) samples() *UnreadError {
	if records := u.names(); records != nil {
		return &UnreadError{Records: records}
	}
	return nil
}

// holdsUnread reports whether a record without a decoder has samples that only the log has: not
// if all of them are before start, where the blocks end.
func holdsUnread(rec []byte, start int64) bool {
	if !record.TypeOf(rec).HoldsSamples() {
		return false
	}
	newest, ok := record.NewestHistogram(rec)
	return !ok || newest >= start
}

// flushable returns nil, or why the head must not be made into blocks.
func (h *Head) flushable() error {
	if h.unread != nil {
		return h.unread
	}
	return nil
}
