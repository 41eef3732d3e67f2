package remote

import "errors"

// Reading what came over the network. The handler answers 400 with their text.
var (
	errMalformed   = errors.New("malformed message")
	errLimit       = errors.New("limit exceeded")
	errSampleLimit = errors.New("exceeded sample limit")
	errNoType      = errors.New("none of the accepted response types is known")
	errEncoding    = errors.New("unknown content encoding: use snappy")
	errSlow        = errors.New("the body did not arrive in time")
	errTooLarge    = errors.New("response larger than a snappy block can be: ask for less, or for streamed chunks")
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
