package remote

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/golang/snappy"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// ReadClient selects series of another server: a Prometheus, a Thanos receiver, a program
// with a ReadHandler. It keeps nothing between requests and may be used by any number of
// goroutines.
type ReadClient struct {
	url  string
	opts *ReadClientOptions
}

// NewReadClient returns a client for the endpoint of a server, as in
// http://localhost:9090/api/v1/read. It asks nothing yet. Nil options are the defaults.
func NewReadClient(endpoint string, opts *ReadClientOptions) (*ReadClient, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, errors.New("parse the URL of a server: want http://HOST:PORT/PATH or https://...") // the cause may show a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.Errorf("parse the URL of a server: %s is not http://HOST:PORT/PATH or https://...", u.Redacted())
	}
	return &ReadClient{url: endpoint, opts: o}, nil
}

// Select asks the server for the series of the closed range [mint, maxt] that all matchers
// match. The answer is read as the set is: neither all of its series nor all samples of one
// are ever in memory. The context is that of the set; the set must be closed, unless it was
// read to its end. Errors are those of the set.
//
// Hints may be nil. Series come in the order of the server: that of labels when it streams,
// perhaps none otherwise.
func (c *ReadClient) Select(ctx context.Context, mint, maxt int64, hints *tsdb.SelectHints, ms ...*labels.Matcher) *SeriesSet {
	if err := checkQuery(ctx, ms); err != nil {
		return &SeriesSet{err: err}
	}
	set := &SeriesSet{mint: mint, maxt: maxt}
	if hints != nil {
		set.limit = hints.Limit
	}
	added := c.added(ms)
	set.drop = added
	body, err := c.ask(ctx, c.request(mint, maxt, ms, added))
	if err != nil {
		set.fail(err)
		return set
	}
	set.body = body
	if set.source, err = newSource(body, c.opts); err != nil {
		set.fail(err)
	}
	return set
}

// added returns the external labels that a selection has no matcher for.
func (c *ReadClient) added(ms []*labels.Matcher) []labels.Label {
	var list []labels.Label
next:
	for l := range c.opts.ExternalLabels.All() {
		for _, m := range ms {
			if m.Name() == l.Name {
				continue next
			}
		}
		list = append(list, l)
	}
	return list
}

// request is the body of a request.
func (c *ReadClient) request(mint, maxt int64, ms []*labels.Matcher, added []labels.Label) []byte {
	q := query{start: mint, end: maxt}
	for _, m := range ms {
		q.matchers = append(q.matchers, matcher{typ: int32(m.Type()), name: m.Name(), value: m.Value()})
	}
	for _, l := range added {
		q.matchers = append(q.matchers, matcher{typ: int32(labels.MatchEqual), name: l.Name, value: l.Value})
	}
	req := readRequest{queries: []query{q}, accepted: c.opts.Mode.accepted()}
	return snappy.Encode(nil, appendReadRequest(nil, &req))
}

// ask sends a request and returns the answer when it has begun, and is one.
func (c *ReadClient) ask(ctx context.Context, request []byte) (*answerBody, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(request))
	if err != nil {
		cancel(nil)
		return nil, errors.Wrap(err, "make request")
	}
	for name, values := range c.opts.Header {
		req.Header[name] = append([]string(nil), values...)
	}
	req.Header.Set("Content-Encoding", snappyEncoding)
	req.Header.Set("Accept-Encoding", snappyEncoding)
	req.Header.Set("Content-Type", samplesContentType)
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "tsdb")
	}
	body := newAnswerBody(ctx, cancel, c.opts.IdleTimeout)
	body.expect()
	res, err := c.opts.HTTP.Do(req)
	body.got()
	if err != nil {
		err = body.cause(err)
		cancel(nil)
		return nil, errors.Wrap(err, "ask server")
	}
	body.res = res
	if res.StatusCode != http.StatusOK {
		err := statusError(body)
		body.close()
		return nil, err
	}
	return body, nil
}
