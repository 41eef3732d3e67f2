package remote

import (
	"log/slog"
	"time"

	"github.com/seed347100a3/tsdb"
)

// WriteOptions configure NewWriteHandler. The zero value of each field means its default; a
// negative value turns a limit or timeout off. They are copied.
type WriteOptions struct {
	// MaxBytes bounds a request body, before and after it is decompressed. It cannot be turned
	// off. Default 32 MiB, at most 1 GiB.
	MaxBytes int
	// MaxBufferedBytes bounds the memory for what has arrived of all bodies together and is not
	// stored yet. Above it requests get 503 and come again. Default 256 MiB.
	MaxBufferedBytes int64
	// MaxInFlight is how many requests are decompressed and stored at a time; others wait for
	// their turn, with their whole body, as long as ReadTimeout. Default 20.
	MaxInFlight int
	// ReadTimeout is how long a client may take to send its body. Default 30 s.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to accept the answer. Default 1 min.
	WriteTimeout time.Duration
	// CacheBytes bounds the memory for labels of known series, so that they are found without
	// making label sets of them: labels and 40 bytes for each series. Negative: there is none.
	// Default 64 MiB.
	CacheBytes int
	// MaxFuture is how far ahead of the clock a sample or an exemplar may be. The limit of the
	// database holds beside it. Default 10 min.
	MaxFuture time.Duration

	// NoV1 and NoV2 turn one version of the protocol off: 415. Default: both are understood.
	NoV1, NoV2 bool
	// NoHistograms refuses native histograms: 400 for each. Default: they are stored.
	NoHistograms bool
	// NoExemplars, NoMetadata and NoStartTimestamps leave out what samples have beside. The
	// samples are stored, and exemplars are not among those that are counted as written.
	NoExemplars, NoMetadata, NoStartTimestamps bool

	// Logger gets the events of docs/design/events.md. Default: none are logged.
	Logger *slog.Logger
	// Clock tells the time. Default: the system's.
	Clock tsdb.Clock
}

const (
	defaultBufferedBytes = 256 << 20
	defaultCacheBytes    = 64 << 20
	defaultMaxFuture     = 10 * time.Minute // what other receivers have
	mostWriteBytes       = 1 << 30          // places in a request are numbers of 32 bits
)

// withDefaults returns a copy with every zero replaced.
func (o *WriteOptions) withDefaults() WriteOptions {
	c := WriteOptions{}
	if o != nil {
		c = *o
	}
	setDefault(&c.MaxBytes, defaultRequestBytes)
	if c.MaxBytes < 0 {
		c.MaxBytes = defaultRequestBytes
	}
	c.MaxBytes = min(c.MaxBytes, mostWriteBytes)
	setDefault(&c.MaxBufferedBytes, defaultBufferedBytes)
	setDefault(&c.MaxInFlight, defaultMaxInFlight)
	setDefault(&c.ReadTimeout, defaultReadTimeout)
	setDefault(&c.WriteTimeout, defaultWriteTimeout)
	setDefault(&c.CacheBytes, defaultCacheBytes)
	setDefault(&c.MaxFuture, defaultMaxFuture)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = tsdb.DefaultOptions().Clock
	}
	return c
}
