package remote

import (
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// WriterProtocol is a version of remote write that a Writer speaks.
type WriterProtocol int

// The protocols.
const (
	ProtocolAny WriterProtocol = iota // 2.0, or 1.0 to receivers that do not know it
	ProtocolV1
	ProtocolV2
)

// WriterOptions are about what a Writer sends, and how. The zero value of each field means its
// default. They are copied.
type WriterOptions struct {
	// URL of the receiver. Names and passwords in it are used as basic authentication. Required.
	URL string
	// Name tells one Writer of a database from another. It names the file in which the Writer
	// remembers what it has sent, so one Writer at a time has it (ErrWriterName). Default
	// "default".
	Name string
	// Dir is where that file is, in the file system of the database. Writers of several databases
	// that share it want different names. Default: remote-write/ in the data directory.
	Dir string
	// HTTP sends the requests, with the TLS, proxy and connections that it is set up for. It wants
	// MaxIdleConnsPerHost as MaxShards, or connections are closed after each request. Default: what
	// http.DefaultTransport is set up for, with connections of its own that Close closes.
	HTTP *http.Client
	// Header is added to each request: credentials, tenants.
	Header http.Header
	// Protocol is the version to speak.
	Protocol WriterProtocol

	// ExternalLabels are added to each series that has no label of that name.
	ExternalLabels labels.Labels
	// Keep chooses the series that are sent, by their labels without external ones, and the
	// metadata of them. It is remembered what it said of a series. Several goroutines may call it
	// at once. Default: all are.
	Keep func(labels.Labels) bool
	// History is how old samples may be that were there before the Writer ran for the first time.
	// Negative: all are sent. Default: none are.
	History time.Duration
	// NoHistograms, NoExemplars and NoMetadata leave them out.
	NoHistograms, NoExemplars, NoMetadata bool

	// MaxSamples is the most samples of a request. Default 2,000.
	MaxSamples int
	// Deadline is how long a sample waits for others. Default 5 s.
	Deadline time.Duration
	// MaxShards is how many requests are on their way at a time, at most. A series belongs to one
	// of them, so that its samples stay in order. There are as many as it takes to keep up.
	// Default 16.
	MaxShards int
	// Timeout is how long a request may take. Default 30 s.
	Timeout time.Duration
	// MinBackoff and MaxBackoff are how long the Writer waits before it sends a request again: it
	// begins with the one and doubles up to the other. What the receiver asks for (Retry-After)
	// counts instead. Default 30 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration
	// MetadataInterval is how often types, units and help texts are sent by 1.0, which has requests
	// of their own for them. Default 1 min.
	MetadataInterval time.Duration

	// Logger gets the events of docs/design/events.md. Default: none are logged.
	Logger *slog.Logger

	shards int // at the begin, for tests
}

const (
	defaultMaxSamples       = 2000
	defaultDeadline         = 5 * time.Second
	defaultMaxShards        = 16
	defaultTimeout          = 30 * time.Second
	defaultMinBackoff       = 30 * time.Millisecond
	defaultMaxBackoff       = 5 * time.Second
	defaultMetadataInterval = time.Minute
	defaultWriterName       = "default"
	writerDir               = "remote-write"
)

// withDefaults returns a copy with every zero replaced.
func (o *WriterOptions) withDefaults(db *tsdb.DB) (WriterOptions, error) {
	c := WriterOptions{}
	if o != nil {
		c = *o
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return c, errors.Errorf("writer options: %s is no URL of a receiver, such as http://host:9090/api/v1/write", shownURL(u))
	}
	if c.MaxSamples < 0 || c.Deadline < 0 || c.MaxShards < 0 || c.Timeout < 0 || c.MinBackoff < 0 || c.MaxBackoff < 0 || c.MetadataInterval < 0 {
		return c, errors.New("writer options: a limit is negative")
	}
	if c.Protocol < ProtocolAny || c.Protocol > ProtocolV2 {
		return c, errors.Errorf("writer options: unknown protocol %d", c.Protocol)
	}
	setDefault(&c.Name, defaultWriterName)
	if strings.ContainsAny(c.Name, `/\:`) || strings.HasPrefix(c.Name, ".") {
		return c, errors.Errorf("writer options: name %q cannot be part of a file name", c.Name)
	}
	setDefault(&c.Dir, filepath.Join(db.Dir(), writerDir))
	setDefault(&c.MaxSamples, defaultMaxSamples)
	setDefault(&c.Deadline, defaultDeadline)
	setDefault(&c.MaxShards, defaultMaxShards)
	setDefault(&c.Timeout, defaultTimeout)
	setDefault(&c.MinBackoff, defaultMinBackoff)
	setDefault(&c.MaxBackoff, max(defaultMaxBackoff, c.MinBackoff))
	setDefault(&c.MetadataInterval, defaultMetadataInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	header := http.Header{}
	for name, values := range c.Header {
		header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	c.Header = header
	return c, nil
}

// shownURL is a URL without its password; nothing of one that makes no sense.
func shownURL(u *url.URL) string {
	if u == nil {
		return "URL"
	}
	return strconv.Quote(u.Redacted())
}
