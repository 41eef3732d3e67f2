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
	// MaxMemoryBytes bounds the memory of all requests under way together: for their bodies, for
	// what these decompress to, and for what their samples take until they are stored. Above it
	// requests get 503 and come again; one that alone needs more gets 413. An eighth is kept for
	// small ones. What the garbage collector has not found yet is not counted. Default 512 MiB.
	MaxMemoryBytes int64
	// MaxBufferedBytes bounds the part of it that has arrived of bodies and waits, for the rest of
	// its body or for its turn. Default 256 MiB, or half of MaxMemoryBytes if that is less.
	MaxBufferedBytes int64
	// MaxInFlight is how many requests are decompressed and stored at a time; others wait for
	// their turn, with their whole body, as long as ReadTimeout, and get 503 then. A fourth is kept
	// for requests of up to 1 MiB, decompressed: they do not wait for larger ones. Default 20.
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
	defaultMemoryBytes   = 512 << 20
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
	setDefault(&c.MaxMemoryBytes, defaultMemoryBytes)
	if c.MaxBufferedBytes == 0 && c.MaxMemoryBytes > 0 {
		c.MaxBufferedBytes = min(defaultBufferedBytes, c.MaxMemoryBytes/2)
	}
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
