package tsdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// flushable returns nil, or why the head must not be made into blocks.
func (h *Head) flushable() error {
	if len(h.unread) > 0 {
		return &UnreadError{Records: h.unread.Names()}
	}
	return nil
}
