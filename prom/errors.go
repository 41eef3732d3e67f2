package prom

import (
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/seed347100a3/tsdb"
)

// refusal is an error of the database that is also a sentinel of package storage, which callers
// there ask for. Its text is the database's.
type refusal struct{ ours, theirs error }

func (r *refusal) Error() string   { return r.ours.Error() }
func (r *refusal) Unwrap() []error { return []error{r.ours, r.theirs} }

// Refusals that are the same each time; a stream of late samples allocates nothing for them.
var (
	outOfOrder = &refusal{tsdb.ErrOutOfOrder, storage.ErrOutOfOrderSample}
	duplicate  = &refusal{tsdb.ErrDuplicateSample, storage.ErrDuplicateSampleForTimestamp}
)

// ErrInvalidSample: a sample's labels are not well formed, or larger than a limit allows. The text
// says how.
var ErrInvalidSample = errors.New("invalid sample")

// translate gives an error of the database the sentinel of package storage that says the same.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case err == tsdb.ErrOutOfOrder:
		return outOfOrder
	case err == tsdb.ErrDuplicateSample:
		return duplicate
	case errors.Is(err, tsdb.ErrOutOfOrder):
		return &refusal{err, storage.ErrOutOfOrderSample}
	case errors.Is(err, tsdb.ErrDuplicateSample):
		return &refusal{err, storage.ErrDuplicateSampleForTimestamp}
	case errors.Is(err, tsdb.ErrOutOfBounds):
		return &refusal{err, storage.ErrOutOfBounds}
	case errors.Is(err, tsdb.ErrInvalidLabels), errors.Is(err, tsdb.ErrLimit), errors.Is(err, tsdb.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrInvalidSample, err)
	default:
		return err
	}
}

// ErrTruncated, an annotation: a result was cut at the limit that was asked for. It is a
// tsdb.ErrTruncated in the words of the HTTP API.
var ErrTruncated error = &refusal{errors.New("results truncated due to limit"), tsdb.ErrTruncated}

// annotate returns the warnings of a result as annotations.
func annotate(ws tsdb.Warnings) annotations.Annotations {
	if len(ws) == 0 {
		return nil
	}
	all := annotations.New()
	for _, w := range ws {
		if errors.Is(w, tsdb.ErrTruncated) {
			w = ErrTruncated
		}
		all.Add(w)
	}
	return *all
}
