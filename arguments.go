package tsdb

import (
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// What can be wrong with the arguments of any call. They are made once: a caller that does it
// wrong does it often.
var (
	errNilContext = errors.WithMessage(ErrInvalidArgument, "the context is nil: pass context.Background() if there is none")
	errNilMatcher = errors.WithMessage(ErrInvalidArgument, "a matcher is nil: leave it out, or look at the error of who made it")
	errBothKinds  = errors.WithMessage(ErrInvalidArgument, "sample with two histograms: want H or FH")
)

// checkContext refuses a nil context, which would end in a panic far from who passed it.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// checkQuery refuses a nil context and nil matchers.
func checkQuery(ctx context.Context, ms []*labels.Matcher) error {
	if slices.Contains(ms, nil) {
		return errNilMatcher
	}
	return checkContext(ctx)
}
