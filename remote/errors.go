package remote

import "errors"

// Reading what came over the network. The handler answers 400 with their text.
var (
	errMalformed   = errors.New("malformed message")
	errHistogram   = errors.New("no valid histogram")
	errLimit       = errors.New("limit exceeded")
	errSampleLimit = errors.New("exceeded sample limit")
	errNoType      = errors.New("none of the accepted response types is known")
	errEncoding    = errors.New("unknown content encoding: use snappy")
	errSlow        = errors.New("the body did not arrive in time")
	errTooLarge    = errors.New("response larger than a snappy block can be: ask for less, or for streamed chunks")
)

// Receiving writes. Those that are about one item are told the client together with the series.
var (
	errMediaType     = errors.New("unsupported content type")
	errVersionOff    = errors.New("this version of remote write is turned off")
	errWriteEncoding = errors.New("unsupported content encoding: only snappy is")
	errBodyLimit     = errors.New("request body exceeds the limit")
	errBusy          = errors.New("too many writes are under way")
	errMemory        = errors.New("request takes too much memory")
	errGone          = errors.New("series left the database while they were written: send them again")
	errBothVersions  = errors.New("fields of both versions of remote write: malformed message")
	errNoSamples     = errors.New("neither samples, histograms nor exemplars")
	errNoMetricName  = errors.New("no metric name")
	errReference     = errors.New("reference outside of the symbols")
	errOddLabels     = errors.New("odd number of label references")
	errSeriesLimit   = errors.New("series is too large")
	errFuture        = errors.New("sample is too far in the future")
	errNoHistograms  = errors.New("native histograms are turned off")
)

// Receiving OTLP. They are about one point, or one metric.
var (
	errDelta       = errors.New("delta temporality: send cumulative values, or have the receiver add them up")
	errDeltaOrder  = errors.New("delta is older than the last one of its series")
	errDeltaTwice  = errors.New("another delta of the series has this time")
	errDeltaSeries = errors.New("too many series with delta temporality")
	errTemporality = errors.New("no temporality is said")
	errBuckets     = errors.New("buckets of the histogram do not fit")
	errScale       = errors.New("scale of the exponential histogram is too small")
	errValueDepth  = errors.New("lists in lists of more levels than are taken")
	errPointSize   = errors.New("point is too large")
	errDescription = errors.New("description is too long")
)

// Sending.
var (
	// ErrWriterName: another Writer has the name, in the same directory, and is not closed. Both
	// would send the same samples, and write over what the other one notes.
	ErrWriterName = errors.New("another Writer of this process has this name and directory: close it first, or give this one another WriterOptions.Name")
	// errStopped: a Writer was closed.
	errStopped = errors.New("the writer was closed")
	// errAway: a receiver takes nothing for a while.
	errAway = errors.New("the receiver takes nothing")
	// errTimeWentBack: samples are taken that are older than was thought.
	errTimeWentBack = errors.New("the database takes older samples than before")
)

// Answering.
var (
	// errChanged: a series had other samples when it was written than when it was counted.
	errChanged = errors.New("BUG: the snapshot changed while it was read")
	// errLate: ReadOptions.AnswerTimeout is over.
	errLate = errors.New("the answer takes too long: ask for less")
)

// Asking another server.
var (
	// ErrAnswer: the answer of a server is damaged, or was cut off before its end. What
	// was read of it before is as the server sent it.
	ErrAnswer = errors.New("bad answer")
	// ErrSeriesPassed: the samples of a series were asked for after its set had moved
	// on, or for a second time.
	ErrSeriesPassed = errors.New("the samples of a remote series can be read once, while its set stands on it")
)
