package remote

import (
	"net/http"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// Mode is the form of the answers that a ReadClient asks for.
type Mode int

// The modes.
const (
	ModeAny      Mode = iota // streamed chunks if the server has them, else samples
	ModeStreamed             // STREAMED_XOR_CHUNKS
	ModeSamples              // SAMPLES
)

// accepted is how a request says it.
func (m Mode) accepted() []responseType {
	switch m {
	case ModeStreamed:
		return []responseType{typeChunks}
	case ModeSamples:
		return []responseType{typeSamples}
	default:
		return []responseType{typeChunks, typeSamples}
	}
}

// Defaults of a client.
const (
	// DefaultMaxFrameBytes is what the clients of the field take.
	DefaultMaxFrameBytes = 50_000_000
	// DefaultMaxBufferBytes is for servers whose compression needs a whole answer in
	// memory; there are few.
	DefaultMaxBufferBytes = 64 << 20
	// DefaultIdleTimeout leaves a server time to find series before it begins to answer.
	DefaultIdleTimeout = time.Minute
)

// ReadClientOptions are about how a ReadClient asks. Nil, and zero fields, mean defaults.
type ReadClientOptions struct {
	// HTTP sends the requests, with the TLS, proxy and connections that it is set up
	// for. Nil is http.DefaultClient. A Timeout of it would bound a whole answer, however
	// long that is; IdleTimeout does not.
	HTTP *http.Client
	// Header is added to each request: credentials, tenants. It is not changed. Names and
	// passwords in the URL work too, as basic authentication.
	Header http.Header
	// Mode is the form of the answers to ask for.
	Mode Mode
	// ExternalLabels are those by which the server's side knows this client's data. Each
	// that a selection has no matcher for is asked for, and taken off the series that
	// come back.
	ExternalLabels labels.Labels
	// MaxFrameBytes is the largest frame of a streamed answer that is taken, and the most
	// that is kept of one; 0 is DefaultMaxFrameBytes.
	MaxFrameBytes int
	// MaxBufferBytes is the most that is kept of the decoded answer in the mode SAMPLES.
	// It matters only when the server's compression reaches back over more than 64 KiB:
	// what such servers answer may not be longer. 0 is DefaultMaxBufferBytes.
	MaxBufferBytes int64
	// IdleTimeout is how long the server may send nothing, before its answer or within
	// it; 0 is DefaultIdleTimeout. The time that the caller takes does not count.
	IdleTimeout time.Duration
}

func (o *ReadClientOptions) withDefaults() (*ReadClientOptions, error) {
	filled := ReadClientOptions{}
	if o != nil {
		filled = *o
	}
	if filled.MaxFrameBytes < 0 || filled.MaxBufferBytes < 0 || filled.IdleTimeout < 0 {
		return nil, errors.New("client options: a limit is negative")
	}
	if filled.Mode < ModeAny || filled.Mode > ModeSamples {
		return nil, errors.Errorf("client options: unknown mode %d", filled.Mode)
	}
	if filled.HTTP == nil {
		filled.HTTP = http.DefaultClient
	}
	if filled.MaxFrameBytes == 0 {
		filled.MaxFrameBytes = DefaultMaxFrameBytes
	}
	if filled.MaxBufferBytes == 0 {
		filled.MaxBufferBytes = DefaultMaxBufferBytes
	}
	if filled.IdleTimeout == 0 {
		filled.IdleTimeout = DefaultIdleTimeout
	}
	filled.Header = filled.Header.Clone()
	return &filled, nil
}
