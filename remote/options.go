package remote

import (
	"log/slog"
	"time"

	"github.com/seed347100a3/tsdb/labels"
)

// ReadOptions configure ReadHandler. The zero value of each field means its default; a
// negative value turns a limit or timeout off. They are copied.
type ReadOptions struct {
	// ExternalLabels are added to each series that has no label of that name. Series that
	// have the same labels then are answered as one; of several samples at one time that
	// of the series counts whose stored labels are first in order. Default none.
	ExternalLabels labels.Labels
	// SampleLimit is the most samples that a query may select when the answer is SAMPLES.
	// Streamed chunks have no such limit. Default 50 million.
	SampleLimit int
	// FrameBytes is how long a frame of streamed chunks gets: it is complete when it has
	// that much, so it may be longer by a part of a chunk, but not than 1 MiB if
	// FrameBytes is no more. Default and largest useful value: 1 MiB; clients refuse frames
	// beyond some limit of their own, usually 50 MB.
	FrameBytes int
	// NoStartTimestamps: streamed chunks that have start timestamps are encoded again without
	// them, as XOR or as histograms of the encodings 2 and 3, for clients that know no other
	// encodings, as Thanos. Default: they are sent as they are stored.
	NoStartTimestamps bool
	// MaxInFlight is how many requests are answered at a time; one more gets 429 and is
	// told to come again. Default 20.
	MaxInFlight int
	// RequestBytes bounds a request body, before and after it is decompressed. It cannot be
	// turned off. Default 32 MiB.
	RequestBytes int
	// ReadTimeout is how long a client may take to send its body. Default 30 s.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to accept a piece of the answer, 512 KiB as a
	// rule and less than 1 MiB; then the connection is dropped, and with it the snapshot that
	// it reads from. Default 1 min.
	WriteTimeout time.Duration
	// AnswerTimeout is how long an answer may take, from the request to the last byte; then
	// it is cut off, or refused with 503 if nothing was sent. A client that reads steadily
	// but slowly holds its snapshot, and with it files that were deleted, until then.
	// Default: as long as it takes.
	AnswerTimeout time.Duration
	// Logger gets the events of docs/design/events.md. Default: none are logged.
	Logger *slog.Logger
}

const (
	defaultSampleLimit  = 50_000_000 // what other servers of the protocol have
	defaultFrameBytes   = 1 << 20    // the same
	defaultMaxInFlight  = 20
	defaultRequestBytes = 32 << 20 // the same
	defaultReadTimeout  = 30 * time.Second
	defaultWriteTimeout = time.Minute
)

// withDefaults returns a copy with every zero replaced.
func (o *ReadOptions) withDefaults() ReadOptions {
	c := ReadOptions{}
	if o != nil {
		c = *o
	}
	setDefault(&c.SampleLimit, defaultSampleLimit)
	setDefault(&c.FrameBytes, defaultFrameBytes)
	setDefault(&c.MaxInFlight, defaultMaxInFlight)
	setDefault(&c.RequestBytes, defaultRequestBytes)
	setDefault(&c.ReadTimeout, defaultReadTimeout)
	setDefault(&c.WriteTimeout, defaultWriteTimeout)
	if c.RequestBytes < 0 {
		c.RequestBytes = defaultRequestBytes
	}
	if c.FrameBytes < 0 {
		c.FrameBytes = defaultFrameBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
