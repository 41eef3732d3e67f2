package remote

import (
	"net/http"

	"github.com/pkg/errors"
)

// sendingClient returns the client of the options, or else one with connections of its own, which
// release closes.
func sendingClient(o *WriterOptions) (client *http.Client, release func()) {
	if o.HTTP != nil {
		return keepsMethod(o.HTTP), func() {}
	}
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has put another one there
		return keepsMethod(http.DefaultClient), func() {}
	}
	// The default keeps two connections to a host, and closes what more shards used.
	own := shared.Clone()
	own.MaxIdleConnsPerHost = o.MaxShards + 1 // metadata is sent beside samples
	own.MaxIdleConns = own.MaxIdleConnsPerHost
	return keepsMethod(&http.Client{Transport: own}), own.CloseIdleConnections
}

// keepsMethod returns a client that does not follow redirects which would make a GET of a POST.
func keepsMethod(client *http.Client) *http.Client {
	c := *client
	follows := c.CheckRedirect
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if r.Method != http.MethodPost {
			return http.ErrUseLastResponse
		}
		if follows != nil {
			return follows(r, via)
		}
		if len(via) >= maxRedirects {
			return errors.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}
	return &c
}

const maxRedirects = 10
