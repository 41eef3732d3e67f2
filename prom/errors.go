package prom

import (
	"errors"
	"fmt"

	promhistogram "github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
)

// refusal is an error of the database that is also a sentinel of the reference, which callers
// there ask for. Its text is the database's.
type refusal struct{ ours, theirs error }

func (r *refusal) Error() string   { return r.ours.Error() }
func (r *refusal) Unwrap() []error { return []error{r.ours, r.theirs} }

// Refusals that are the same each time; a stream of late samples allocates nothing for them.
var (
	outOfOrder = &refusal{tsdb.ErrOutOfOrder, storage.ErrOutOfOrderSample}
	duplicate  = &refusal{tsdb.ErrDuplicateSample, storage.ErrDuplicateSampleForTimestamp}
)

// ErrInvalidSample: a sample's labels are not well formed, or larger than a limit allows, or its
// histogram is refused for a reason that package histogram of the reference does not know. The text
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
	case errors.Is(err, tsdb.ErrTooOld):
		return &refusal{err, storage.ErrTooOldSample}
	case errors.Is(err, tsdb.ErrHistogramsOff):
		return &refusal{err, storage.ErrNativeHistogramsDisabled}
	case errors.Is(err, exemplar.ErrLabelLength):
		return &refusal{err, storage.ErrExemplarLabelLength}
	case errors.Is(err, tsdb.ErrInvalidLabels), errors.Is(err, tsdb.ErrLimit), errors.Is(err, tsdb.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrInvalidSample, err)
	default:
		return translateHistogram(err)
	}
}

// histogramErrors are the pairs of sentinels that say the same of a histogram.
var histogramErrors = [...]struct{ ours, theirs error }{
	{histogram.ErrInvalidSchema, promhistogram.ErrHistogramsInvalidSchema},
	{histogram.ErrSpanNegativeOffset, promhistogram.ErrHistogramSpanNegativeOffset},
	{histogram.ErrSpansBucketsMismatch, promhistogram.ErrHistogramSpansBucketsMismatch},
	{histogram.ErrNegativeBucketCount, promhistogram.ErrHistogramNegativeBucketCount},
	{histogram.ErrCountMismatch, promhistogram.ErrHistogramCountMismatch},
	{histogram.ErrCountNotBigEnough, promhistogram.ErrHistogramCountNotBigEnough},
	{histogram.ErrNegativeCount, promhistogram.ErrHistogramNegativeCount},
	{histogram.ErrCustomBucketsMismatch, promhistogram.ErrHistogramCustomBucketsMismatch},
	{histogram.ErrCustomBucketsInvalid, promhistogram.ErrHistogramCustomBucketsInvalid},
	{histogram.ErrCustomBucketsInfinite, promhistogram.ErrHistogramCustomBucketsInfinite},
	{histogram.ErrCustomBucketsNaN, promhistogram.ErrHistogramCustomBucketsNaN},
	{histogram.ErrTooManyBuckets, ErrInvalidSample},
	{histogram.ErrSpanOverflow, ErrInvalidSample},
}

// translateHistogram gives what is wrong with a histogram the sentinel of package histogram of the
// reference. Their parts that a schema does not have never come here: Append leaves them out.
func translateHistogram(err error) error {
	for _, e := range histogramErrors {
		if errors.Is(err, e.ours) {
			return &refusal{err, e.theirs}
		}
	}
	return err
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
