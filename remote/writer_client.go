package remote

import (
	"net/http"

	"github.com/pkg/errors"
)

// connections are what a Writer sends by.
type connections struct {
	client  *http.Client
	release func() // closes those that are the Writer's own
}

// connectionsFor returns those of the client of the options, or else some of its own.
func connectionsFor(o *WriterOptions) connections {
	if o.HTTP != nil {
		return connections{keepsMethod(o.HTTP), func() {}}
	}
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has put another one there
		return connections{keepsMethod(http.DefaultClient), func() {}}
	}
	// The default keeps two connections to a host, and closes what more shards used.
	own := shared.Clone()
	own.MaxIdleConnsPerHost = o.MaxShards + 1 // metadata is sent beside samples
	own.MaxIdleConns = own.MaxIdleConnsPerHost
	return connections{keepsMethod(&http.Client{Transport: own}), own.CloseIdleConnections}
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
