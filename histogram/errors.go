package histogram

import "errors"

// What Validate says of any histogram. The error that wraps a sentinel has the numbers.
var (
	// ErrInvalidSchema: the schema is neither MinSchema..MaxSchema nor CustomBuckets.
	ErrInvalidSchema = errors.New("histogram has a schema that does not exist")
	// ErrSpanNegativeOffset: a span begins before the one in front of it ends, or the first
	// one of custom buckets before the first bucket.
	ErrSpanNegativeOffset = errors.New("histogram has a span with a negative offset")
	// ErrTooManyBuckets: there are more than MaxBuckets buckets, spans or bounds.
	ErrTooManyBuckets = errors.New("histogram has too many buckets")
	// ErrSpanOverflow: a bucket's index does not fit 32 bits.
	ErrSpanOverflow = errors.New("histogram has a bucket index beyond 32 bits")
	// ErrSpansBucketsMismatch: the spans describe more or fewer buckets than there are.
	ErrSpansBucketsMismatch = errors.New("spans and buckets of a histogram differ in number")
	// ErrNegativeBucketCount: a bucket, or the zero bucket, has a count below zero.
	ErrNegativeBucketCount = errors.New("histogram has a bucket with a negative count")
)

// What Validate says of the number of observations.
var (
	// ErrCountMismatch: the count is not the sum of all buckets.
	ErrCountMismatch = errors.New("count of a histogram is not the sum of its buckets")
	// ErrCountNotBigEnough: the sum of observations is NaN, so the count may be larger than
	// the sum of all buckets, but it is smaller.
	ErrCountNotBigEnough = errors.New("count of a histogram is below the sum of its buckets")
	// ErrNegativeCount: the count of a FloatHistogram is below zero.
	ErrNegativeCount = errors.New("histogram has a negative count")
)

// What Validate says of histograms with custom buckets, and of others that have parts of
// them.
var (
	// ErrCustomBucketsMismatch: there are fewer bounds than the highest bucket needs.
	ErrCustomBucketsMismatch = errors.New("histogram has too few bounds for its custom buckets")
	// ErrCustomBucketsInvalid: the bounds do not ascend.
	ErrCustomBucketsInvalid = errors.New("bounds of custom buckets do not ascend")
	// ErrCustomBucketsInfinite: a bound is +Inf, which is the last bucket's without saying.
	ErrCustomBucketsInfinite = errors.New("bound of custom buckets is +Inf")
	// ErrCustomBucketsNaN: a bound is no number.
	ErrCustomBucketsNaN = errors.New("bound of custom buckets is NaN")
	// ErrCustomBucketsZeroCount: there is no zero bucket beside custom ones.
	ErrCustomBucketsZeroCount = errors.New("custom buckets have a zero count")
	// ErrCustomBucketsZeroThreshold: there is no zero bucket beside custom ones.
	ErrCustomBucketsZeroThreshold = errors.New("custom buckets have a zero threshold")
	// ErrCustomBucketsNegativeSpans: custom buckets are all positive ones.
	ErrCustomBucketsNegativeSpans = errors.New("custom buckets have negative spans beside them")
	// ErrCustomBucketsNegativeBuckets: custom buckets are all positive ones.
	ErrCustomBucketsNegativeBuckets = errors.New("custom buckets have negative ones beside them")
	// ErrExponentialWithCustomBounds: only custom buckets have bounds of their own.
	ErrExponentialWithCustomBounds = errors.New("exponential buckets have custom bounds")
)

// Operations on two histograms, or on a schema.
var (
	// ErrIncompatibleSchemas: one histogram has custom buckets, the other exponential ones.
	ErrIncompatibleSchemas = errors.New("custom and exponential buckets cannot be combined")
	// ErrResolution: a resolution is only ever reduced, and custom buckets have none.
	ErrResolution = errors.New("histogram cannot be brought to a schema")
)
